"""What happens in a simulation, by the name that a scenario has for it: to processes, to requests, to nodes, by hand.

Relies on `world`, whose parts it moves; `world` calls it at the times of the scenario.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from controller_runtime.transport import ApiError, TransportError
from nodewright.operator.app import LEASE_NAME
from tests.simulation.faults import Armed, Deadly
from tests.simulation.operators import Process
from tests.simulation.scenario import Happening

if TYPE_CHECKING:
    from tests.simulation.world import World


class Happenings:
    """Carries out happenings, now or in a while."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.leaving: set[str] = set()
        """NodeWrights that are deleted and come again."""

    def happen(self, what: Happening) -> None:
        """Do what the scenario says."""
        act = getattr(self, "_do_" + what["do"].replace("-", "_"))
        act(what)

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        async def wait() -> None:
            await asyncio.sleep(min(seconds, 300.0))
            act()

        self._world.start(wait(), "happening")

    def _gently(self, work: Coroutine[Any, Any, None]) -> None:
        async def try_it() -> None:
            with contextlib.suppress(ApiError, TransportError, ValueError, KeyError):
                await work

        self._world.start(try_it(), "happening")

    def _do_fault(self, what: Happening) -> None:
        self._world.faults.armed.append(Armed(**{key: value for key, value in what.items() if key not in ("at", "do")}))

    def _process(self, what: Happening) -> Process:
        return self._world.processes[what["operator"]]

    def _do_cut(self, what: Happening) -> None:
        self._process(what).watched.cut(what["resource"], cleanly=False)

    def _do_end(self, what: Happening) -> None:
        self._process(what).watched.cut(what["resource"], cleanly=True)

    def _do_silence(self, what: Happening) -> None:
        """Nothing is told for a while, and then the connection is found to be dead."""
        process, until = self._process(what), self._world.loop.time() + what["seconds"]
        process.watched.silent_until[what["resource"]] = until
        self._world.claims.doubt(until)
        self._later(what["seconds"] - 0.01, lambda: process.watched.cut(what["resource"], cleanly=False))

    def _do_lag(self, what: Happening) -> None:
        process, until = self._process(what), self._world.loop.time() + what["seconds"]
        process.watched.lag_until[what["resource"]] = until
        self._world.claims.doubt(until)

    def _do_expire(self, what: Happening) -> None:
        """The watches of a process are dark for a while, and then the past is forgotten: only a list tells what happened."""
        process, until = self._process(what), self._world.loop.time() + what["seconds"]
        process.watched.silent_until[""] = until
        self._world.claims.doubt(until)

        def expire() -> None:
            self._world.server.expire_window()
            process.watched.cut("", cleanly=False)

        self._later(what["seconds"] - 0.01, expire)

    def _do_deaf(self, what: Happening) -> None:
        self._world.faults.deaf[self._process(what).agent] = self._world.loop.time() + what["seconds"]

    def _do_freeze(self, what: Happening) -> None:
        """SIGSTOP and, later, SIGCONT."""
        process = self._process(what)
        lease = self._world.journal.now.leases.get(LEASE_NAME)
        if what["leader"] and lease is not None:
            process = self._world.agents.get(lease.spec.get("holderIdentity", ""), process)

        async def freeze() -> None:
            for _ in range(100):
                if not process.watched.in_flight:
                    break
                await asyncio.sleep(0.03)
            if process.watched.in_flight or not process.alive or self._world.mending:
                return
            self._world.note(f"--- {process.agent} is frozen")
            self._world.loop.freeze(process.agent)
            self._world.claims.doubt(self._world.loop.time() + what["seconds"])
            try:
                await asyncio.sleep(what["seconds"])
            finally:
                self._world.note(f"--- {process.agent} is thawed")
                self._world.loop.thaw(process.agent)

        self._world.start(freeze(), "happening")

    def _do_rerun(self, what: Happening) -> None:
        self._world.hand.rerun(what["cr"], what["node"])

    def _do_kill(self, what: Happening) -> None:
        process = self._process(what)
        kill = Deadly(process.agent, what["skip"], what["when"], lambda: self._world.kill(process, what["down"]))
        self._world.faults.deadly.append(kill)

    def _do_restart(self, what: Happening) -> None:
        process = self._process(what)
        if not process.alive:
            return

        async def restart() -> None:
            await process.stop()
            self._world.start_operator(process.replica)

        self._world.start(restart(), "happening")

    def _do_jump(self, what: Happening) -> None:
        self._process(what).clock.offset += what["seconds"]

    def _do_node_gone(self, what: Happening) -> None:
        async def gone() -> None:
            try:
                await self._world.kubelets.delete_node(what["node"])
            except (ApiError, TransportError):
                self._world.hand.ask("DELETE", f"/api/v1/nodes/{what['node']}")  # its kubelet is gone all the same
            if what["back"] < 1e3:
                await asyncio.sleep(what["back"])
                await self._added(what["node"])

        self._gently(gone())

    async def _added(self, name: str) -> None:
        for _ in range(30):
            try:
                await self._world.kubelets.add_node(name, self._world.template)
            except (ApiError, TransportError):
                await asyncio.sleep(1.0)
            else:
                return

    def _do_reboot(self, what: Happening) -> None:
        self._gently(self._world.kubelets.reboot(what["node"], seconds=what["seconds"]))

    def _do_kubelet_down(self, what: Happening) -> None:
        async def down() -> None:
            await self._world.kubelets.down(what["node"], mark_unknown=True)
            await asyncio.sleep(what["seconds"])
            await self._world.kubelets.up(what["node"])

        self._gently(down())

    def _do_taint(self, what: Happening) -> None:
        self._world.hand.taint(what["node"], what["effect"])
        self._later(what["seconds"], lambda: self._world.hand.untaint(what["node"]))

    def _do_ignore(self, what: Happening) -> None:
        self._world.hand.ignore(what["node"], on=True)
        self._later(what["seconds"], lambda: self._world.hand.ignore(what["node"], on=False))

    def _do_relabel(self, what: Happening) -> None:
        self._world.hand.label(what["node"], pool="b")
        self._later(what["seconds"], lambda: self._world.hand.label(what["node"], pool="a"))

    def _do_cordon(self, what: Happening) -> None:
        self._world.hand.cordon(what["node"], on=True)
        self._later(what["seconds"], lambda: self._world.hand.cordon(what["node"], on=False))

    def _do_burst(self, what: Happening) -> None:
        """An event storm of a node."""

        async def touch() -> None:
            until = self._world.loop.time() + what["seconds"]
            while self._world.loop.time() < until:
                self._world.hand.touch(what["node"])
                await asyncio.sleep(0.03)

        self._world.start(touch(), "happening")

    def _do_recreate(self, what: Happening) -> None:
        """`kubectl delete` and, once it is gone, `kubectl create` (CHG-13)."""
        if what["cr"] in self.leaving or not self._world.hand.is_there(what["cr"]):
            return
        self.leaving.add(what["cr"])
        self._world.hand.delete_cr(what["cr"])
        self._world.start(self._create_again(what["cr"], what["after"]), "again")

    async def _create_again(self, name: str, after: float) -> None:
        while self._world.hand.is_there(name):  # noqa: ASYNC110 - as a person looks
            await asyncio.sleep(0.5)
        await asyncio.sleep(after)
        self._world.note(f"--- {name} is created again")
        self._world.claims.recreated(name)
        self._world.hand.create_cr(name, self._world.scenario.crs[name])
        self.leaving.discard(name)

    def _do_delete_configmap(self, what: Happening) -> None:
        self._world.hand.delete_configmap(what["which"])

    def _do_delete_job(self, what: Happening) -> None:
        names = sorted(self._world.journal.now.jobs)
        if names:
            self._world.hand.delete_job(names[what["which"] % len(names)])

    def _do_delete_pod(self, what: Happening) -> None:
        names = sorted(self._world.journal.now.pods)
        if names:
            self._world.hand.delete_pod(names[what["which"] % len(names)])

    def _do_edit(self, what: Happening) -> None:
        self._world.hand.edit(what["cr"], what["spec"])

    def _do_order(self, what: Happening) -> None:
        self._world.hand.order(what["cr"], **{what["what"]: "true"})
        self._later(what["seconds"], lambda: self._world.hand.order(what["cr"], **{what["what"]: None}))

    def _do_reset(self, what: Happening) -> None:
        self._world.hand.reset(what["cr"], what["node"], one_entry=what["entry"])

    def _do_touch(self, what: Happening) -> None:
        self._world.hand.touch(what["node"])

    def _do_touch_status(self, what: Happening) -> None:
        self._world.hand.touch_status(what["cr"])
