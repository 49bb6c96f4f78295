"""Plays a scenario: one process's worth of cluster in virtual time, with the operator in it, and claims that see every write.

`play(scenario)` gives a `Report`; it never raises for what the operator did wrong. Relied on by the tests, the command and `shrink`.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from controller_runtime.testing.api_server import ApiRequest, ApiServer, EmbeddedClient
from controller_runtime.transport import ApiError, TransportError
from nodewright.api.crd import deployment_policy_crd, nodewright_crd
from nodewright.operator.app import LEASE_NAME
from nodewright.operator.resources import CONFIG_MAP, NODEWRIGHT
from nodewright.simulator.controllers import Controllers
from nodewright.simulator.controllers.settings import ControllerSettings
from nodewright.simulator.kubelets import Kubelets, NodeTemplate, Timing
from nodewright.simulator.rules import parse_rule
from nodewright.simulator.virtual_time import LivelockError, VirtualClock
from tests.faults.journal import Picture
from tests.faults.reading import KEY, status
from tests.simulation.claims import Claims
from tests.simulation.conduct import Storm
from tests.simulation.ending import faults_at_the_end
from tests.simulation.faults import SPARED, Armed, Deadly, Faults
from tests.simulation.hand import COUNTER, PLANTED, Hand
from tests.simulation.journal import Journal, Write
from tests.simulation.loop import FreezingLoop
from tests.simulation.nailed import nailed
from tests.simulation.operators import NAMESPACE, Process
from tests.simulation.scenario import Happening, Scenario

CONVERGES_WITHIN = 5400.0
"""Virtual seconds after the last fault: back-offs of Jobs and of unproven failures go up to ten minutes each."""
SETTLES_WITHIN = 600.0
"""Virtual seconds in which the last events may be written."""
SILENT_FOR = 900.0


@dataclass(slots=True)
class Report:
    """How a history went."""

    seed: int
    problems: list[str] = field(default_factory=list)
    digest: str = ""
    seconds: float = 0.0
    """Virtual."""
    writes: int = 0
    history: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether something was wrong."""
        return bool(self.problems)

    @property
    def kind(self) -> str:
        """Which claim broke first: a shrunk history must break the same one."""
        return self.problems[0].split(":", 1)[0] if self.problems else ""


def play(scenario: Scenario, *, stop_early: bool = True) -> Report:
    """Run it to its end; with `stop_early` to the first contradiction."""
    loop = FreezingLoop()
    asyncio.set_event_loop(loop)
    report = Report(scenario.seed)
    world: list[World] = []

    async def main() -> None:
        world.append(World(scenario, report, stop_early=stop_early))
        await world[0].run()

    with nailed(scenario.seed):
        try:
            loop.run_until_complete(main())
        except LivelockError as error:
            report.problems.append(f"livelock: {error}")
        finally:
            asyncio.set_event_loop(None)
            loop.close()
    report.problems += [f"loop: {text}" for text in loop.unhandled if "never retrieved" in text]
    report.seconds = loop.now
    if world:
        report.digest, report.writes = world[0].journal.digest, len(world[0].journal.writes)
        report.history = world[0].told()
    return report


class _StopError(Exception):
    """Enough was seen."""


class World:
    """See the module. Made in the loop in which it runs."""

    def __init__(self, scenario: Scenario, report: Report, *, stop_early: bool) -> None:
        self.scenario = scenario
        self.report = report
        self._stop_early = stop_early
        loop = asyncio.get_running_loop()
        assert isinstance(loop, FreezingLoop)
        self.loop = loop
        self.clock = VirtualClock(self.loop)
        self.processes: dict[int, Process] = {}
        self._starts: dict[int, int] = {}
        self._agents: dict[str, Process] = {}
        self._jobs: list[asyncio.Task[None]] = []
        self._notes: list[tuple[float, int, str]] = []
        self.faults = Faults(self._is_dead, self._judge, self.loop.time)
        self.server = ApiServer(
            clock=self.clock, rng=random.Random(scenario.seed), managed_fields=False,
            before=self.faults.before, after=self.faults.after,
        )  # fmt: skip
        self.journal = Journal(self.server, self.loop.time, self._see)
        self.claims = Claims(list(scenario.crs))
        self.storm = Storm()
        self.hand = Hand(self.server, self.journal, self.claims)
        self._leaving: set[str] = set()
        """NodeWrights that are deleted and come again."""
        self._enough = asyncio.Event()
        self.mending = False

    # --- the whole of it ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Play, mend, and look at what is left."""
        self._prepare()
        everything = self.loop.create_task(self._play(), name="play")
        enough = self.loop.create_task(self._enough.wait())
        await asyncio.wait([everything, enough], return_when=asyncio.FIRST_COMPLETED)
        enough.cancel()
        await self._tear_down(everything)

    def _prepare(self) -> None:
        self.server.load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for crd in (nodewright_crd(), deployment_policy_crd()):
            self.server.load(crd)
        self.kubelet_client = EmbeddedClient(self.server, user_agent="kubelet", clock=self.clock)
        self.template = NodeTemplate(labels={"pool": "a"}, annotations={**PLANTED, COUNTER: "0"})
        self.kubelets = Kubelets(
            self.kubelet_client, nodes=self.scenario.nodes, template=self.template, namespace=NAMESPACE,
            rules=[parse_rule(rule) for rule in self.scenario.rules],
            timing=Timing(step_seconds=0.3, look_seconds=0.2, back_off_seconds=2.0, back_off_limit_seconds=10.0),
            heartbeat_seconds=0.0, clock=self.clock,
        )  # fmt: skip
        self.controllers = Controllers(
            EmbeddedClient(self.server, user_agent="controllers", clock=self.clock), clock=self.clock,
            settings=ControllerSettings(
                node_grace_seconds=1e9, node_startup_grace_seconds=1e9, job_backoff_seconds=2.0,
                job_backoff_limit_seconds=30.0, eviction_interval_seconds=1.0, node_monitor_seconds=10.0,
                pod_garbage_seconds=60.0,
            ),
            collected=(CONFIG_MAP, NODEWRIGHT), events=False, rng=random.Random(self.scenario.seed),
        )  # fmt: skip

    async def _play(self) -> None:
        self._start(self.kubelets.run(), "kubelets")
        self._start(self.controllers.run(), "controllers")
        await self.kubelets.wait_ready()
        await self.controllers.wait_ready()
        for number in range(self.scenario.operators):
            self.start_operator(number)
        for name, spec in self.scenario.crs.items():
            self.hand.create_cr(name, spec)
        begun = self.loop.time()
        for happening in self.scenario.happenings:
            await asyncio.sleep(max(0.0, begun + happening["at"] - self.loop.time()))
            self._note("--- " + " ".join(f"{key}={value}" for key, value in happening.items() if key != "at"))
            self._happen(happening)
        await asyncio.sleep(1.0)
        await self._end()

    async def _end(self) -> None:
        await self._mend()
        await self._until(lambda: not self._leaving, CONVERGES_WITHIN, "deletion")
        await self._until(self._converged, CONVERGES_WITHIN, "convergence", each=self._help)
        self._note("--- converged")
        await self._silence()
        for problem in faults_at_the_end(self.journal.now, self.scenario, self.hand):
            self._complain(f"end: {problem}")
        if self.scenario.deletes:
            self._note("--- all NodeWrights are deleted")
            for name in self.scenario.crs:
                self.hand.delete_cr(name)
            await self._until(lambda: not self.journal.now.crs, CONVERGES_WITHIN, "deletion")
            await self._until(lambda: not self.journal.now.jobs, CONVERGES_WITHIN, "collection of Jobs")
            for node in self.journal.now.nodes.values():
                left = [
                    k
                    for k in node.metadata.annotations
                    if k.startswith((f"{KEY}/status_", f"{KEY}/pick_", f"{KEY}/cordon_"))
                ]
                left += [k for k in node.metadata.labels if k.startswith(f"{KEY}/status_")]
                left += [c.type for c in node.status.conditions if c.type.startswith(f"{KEY}/")]
                if left:
                    self._complain(f"deletion: {node.name} keeps {left}")

    async def _mend(self) -> None:
        """Everything that was done by hand is taken back, and there are no more faults."""
        self._note("--- faults end")
        self.mending = True
        self.faults.clear()
        for process in self.processes.values():
            process.watched.heal()
            process.clock.offset = 0.0
        await asyncio.gather(*(task for task in self._jobs if task.get_name() == "happening"), return_exceptions=True)
        for number in range(self.scenario.operators):
            if not self.processes[number].alive:
                self.start_operator(number)
        self.kubelets.set_rules([])
        for name in self.scenario.nodes:
            with contextlib.suppress(ApiError, TransportError, ValueError):  # some nodes are gone for good
                await self.kubelets.up(name)
        for name in self.scenario.crs:
            self.hand.order(name, pause=None, disable=None)
        for name in list(self.journal.now.nodes):
            self.hand.mend_node(name)

    def _help(self) -> None:
        """The explicit signal for what failed for good (JOB-6): its Job is deleted."""
        for job in list(self.journal.now.jobs.values()):
            meta = job.metadata
            if (
                job.condition("Failed")
                and meta.annotations.get(f"{KEY}/state-recorded")
                and not meta.deletion_timestamp
            ):
                self.hand.delete_job(meta.name)

    def _converged(self) -> bool:
        now = self.journal.now
        for name in self.scenario.crs:
            cr = now.crs.get(name)
            if cr is None:
                return False
            seen = status(cr)
            if seen.get("status") != "complete" or seen.get("observedGeneration") != cr.metadata.generation:
                return False
            published = seen.get("nodeStatus", {})
            if set(published) != set(now.nodes):
                return False
        return all(job.finished and job.metadata.annotations.get(f"{KEY}/state-recorded") for job in now.jobs.values())

    async def _silence(self) -> None:
        """Invariant 3: once the last events are out, nothing but the lease is written."""
        deadline = self.loop.time() + SETTLES_WITHIN
        while self.loop.time() < deadline:
            before = len(self.journal.writes)
            await asyncio.sleep(60.0)
            if not any(self._counts(one) for one in self.journal.writes[before:]):
                break
        before, asked = len(self.journal.writes), self.storm.writes
        await asyncio.sleep(SILENT_FOR)
        loud = [one for one in self.journal.writes[before:] if self._counts(one)]
        if loud:
            self._complain(f"silence: {len(loud)} writes with nothing to do, the first {loud[0]}")
        elif self.storm.writes > asked:
            self._complain(f"silence: {self.storm.writes - asked} requests for writes with nothing to do")

    @staticmethod
    def _counts(write: tuple[float, str, str, str, str]) -> bool:
        return write[1].startswith("operator") and write[3] != "leases"

    async def _until(
        self, true: Callable[[], bool], seconds: float, what: str, *, each: Callable[[], None] | None = None
    ) -> None:
        deadline = self.loop.time() + seconds
        while not true():
            if self.loop.time() > deadline:
                self._complain(f"{what}: not within {seconds:g} s{self._picture()}")
                raise _StopError
            if each is not None:
                each()
            await asyncio.sleep(5.0)

    def _picture(self) -> str:
        now, lines = self.journal.now, [""]
        for cr in now.crs.values():
            seen = status(cr)
            lines.append(
                f"  {cr.metadata.name}: {seen.get('status')} {seen.get('nodeStatus')} "
                f"observed {seen.get('observedGeneration')} of {cr.metadata.generation} "
                + "; ".join(
                    f"{c['type']}={c['status']} {c['reason']} {c['message']}" for c in seen.get("conditions") or ()
                )
            )
        for node in now.nodes.values():
            kept = {k: v for k, v in node.metadata.annotations.items() if k.startswith(KEY)}
            lines.append(f"  {node.name}: {kept} taints {[t.key for t in node.spec.taints]}")
        lines += [
            f"  Job {j.metadata.name}: {[c.type for c in j.status.conditions]} {j.metadata.deletion_timestamp}"
            for j in now.jobs.values()
            if not (j.finished and j.metadata.annotations.get(f"{KEY}/state-recorded"))
        ]
        return "\n".join(lines)

    # --- processes ---------------------------------------------------------------------------------------------

    def start_operator(self, number: int) -> None:
        """Start a replica with empty memory."""
        start = self._starts[number] = self._starts.get(number, 0) + 1
        process = Process(self.server, number, start, elect=self.scenario.elect, settings=dict(self.scenario.settings))
        self.processes[number] = self._agents[process.agent] = process
        self._jobs.append(process.task)
        self._note(f"--- {process.agent} starts")

    def _is_dead(self, agent: str) -> bool:
        process = self._agents.get(agent)
        return process is not None and not process.alive

    def kill(self, process: Process, down: float) -> None:
        """End a process at this very moment; it is back after `down` seconds."""
        if not process.alive:
            return
        self._note(f"--- {process.agent} is killed")
        process.kill()
        self._start(self._back(process.replica, down), "happening")

    async def _back(self, number: int, down: float) -> None:
        await asyncio.sleep(down)
        self.start_operator(number)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._jobs.append(self.loop.create_task(work, name=name))

    async def _tear_down(self, everything: asyncio.Task[None]) -> None:
        for process in self._agents.values():
            process.alive = False
        tasks = [everything, *self._jobs]
        for _ in range(40):
            for task in tasks:
                task.cancel()
            rest = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
            if not rest:
                break
            await asyncio.wait(sorted(rest, key=hash), timeout=5.0)
            tasks = sorted((t for t in asyncio.all_tasks() if t is not asyncio.current_task()), key=hash)
        if everything.done() and not everything.cancelled():
            error = everything.exception()
            if error is not None and not isinstance(error, _StopError):
                raise error

    # --- judging -----------------------------------------------------------------------------------------------

    def _complain(self, problem: str) -> None:
        self._note(f"!!! {problem}")
        self.report.problems.append(problem)
        if self._stop_early:
            self._enough.set()

    def _see(self, moment: Write, picture: Picture) -> None:
        if self._enough.is_set():
            return
        for problem in self.claims.see(moment, picture):
            self._complain(problem)

    def _judge(self, request: ApiRequest) -> None:
        """Trap 33: whoever writes work holds the lease, or nobody else does. And nobody asks for the same over and over."""
        if request.method == "GET" or not request.user_agent.startswith("operator"):
            return
        if "leases" not in request.path.split("/"):
            again = self.storm.asked(request, self.loop.time())
            if again and not self._enough.is_set():
                self._complain(f"storm: {again}")
        if not self.scenario.elect:
            return
        if any(part in SPARED for part in request.path.split("/")):
            return
        lease = self.journal.now.leases.get(LEASE_NAME)
        holder = lease.spec.get("holderIdentity") if lease is not None else ""
        if holder and holder != request.user_agent:
            self._complain(f"fence: {request.user_agent} sends {request.method} {request.path} while {holder} leads")

    def _note(self, text: str) -> None:
        self._notes.append((self.loop.time(), len(self.journal.writes), text))

    def told(self) -> list[str]:
        """The history as a person reads it: what happened, and each write in between."""
        lines, notes = [], list(self._notes)
        for index, (time, by, verb, resource, key) in enumerate(self.journal.writes):
            while notes and notes[0][1] <= index:
                lines.append(f"{notes[0][0]:9.3f} {notes.pop(0)[2]}")
            lines.append(f"{time:9.3f}   {by} {verb} {resource} {key}")
        return lines + [f"{time:9.3f} {text}" for time, _, text in notes]

    # --- what happens ------------------------------------------------------------------------------------------

    def _happen(self, what: Happening) -> None:
        act = getattr(self, "_do_" + what["do"].replace("-", "_"))
        act(what)

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        async def wait() -> None:
            await asyncio.sleep(min(seconds, 300.0))
            act()

        self._start(wait(), "happening")

    def _gently(self, work: Coroutine[Any, Any, None]) -> None:
        async def try_it() -> None:
            with contextlib.suppress(ApiError, TransportError, ValueError, KeyError):
                await work

        self._start(try_it(), "happening")

    def _do_fault(self, what: Happening) -> None:
        self.faults.armed.append(Armed(**{key: value for key, value in what.items() if key not in ("at", "do")}))

    def _process(self, what: Happening) -> Process:
        return self.processes[what["operator"]]

    def _do_cut(self, what: Happening) -> None:
        self._process(what).watched.cut(what["resource"], cleanly=False)

    def _do_end(self, what: Happening) -> None:
        self._process(what).watched.cut(what["resource"], cleanly=True)

    def _do_silence(self, what: Happening) -> None:
        """Nothing is told for a while, and then the connection is found to be dead."""
        process, until = self._process(what), self.loop.time() + what["seconds"]
        process.watched.silent_until[what["resource"]] = until
        self.claims.doubt(until)
        self._later(what["seconds"] - 0.01, lambda: process.watched.cut(what["resource"], cleanly=False))

    def _do_lag(self, what: Happening) -> None:
        process, until = self._process(what), self.loop.time() + what["seconds"]
        process.watched.lag_until[what["resource"]] = until
        self.claims.doubt(until)

    def _do_expire(self, what: Happening) -> None:
        """The watches of a process are dark for a while, and then the past is forgotten: only a list tells what happened."""
        process, until = self._process(what), self.loop.time() + what["seconds"]
        process.watched.silent_until[""] = until
        self.claims.doubt(until)

        def expire() -> None:
            self.server.expire_window()
            process.watched.cut("", cleanly=False)

        self._later(what["seconds"] - 0.01, expire)

    def _do_deaf(self, what: Happening) -> None:
        self.faults.deaf[self._process(what).agent] = self.loop.time() + what["seconds"]

    def _do_freeze(self, what: Happening) -> None:
        """SIGSTOP and, later, SIGCONT."""
        process = self._process(what)
        lease = self.journal.now.leases.get(LEASE_NAME)
        if what["leader"] and lease is not None:
            process = self._agents.get(lease.spec.get("holderIdentity", ""), process)

        async def freeze() -> None:
            for _ in range(100):
                if not process.watched.in_flight:
                    break
                await asyncio.sleep(0.03)
            if process.watched.in_flight or not process.alive or self.mending:
                return
            self._note(f"--- {process.agent} is frozen")
            self.loop.freeze(process.agent)
            self.claims.doubt(self.loop.time() + what["seconds"])
            try:
                await asyncio.sleep(what["seconds"])
            finally:
                self._note(f"--- {process.agent} is thawed")
                self.loop.thaw(process.agent)

        self._start(freeze(), "happening")

    def _do_rerun(self, what: Happening) -> None:
        self.hand.rerun(what["cr"], what["node"])

    def _do_kill(self, what: Happening) -> None:
        process = self._process(what)
        kill = Deadly(process.agent, what["skip"], what["when"], lambda: self.kill(process, what["down"]))
        self.faults.deadly.append(kill)

    def _do_restart(self, what: Happening) -> None:
        process = self._process(what)
        if not process.alive:
            return

        async def restart() -> None:
            await process.stop()
            self.start_operator(process.replica)

        self._start(restart(), "happening")

    def _do_jump(self, what: Happening) -> None:
        self._process(what).clock.offset += what["seconds"]

    def _do_node_gone(self, what: Happening) -> None:
        async def gone() -> None:
            try:
                await self.kubelets.delete_node(what["node"])
            except (ApiError, TransportError):
                self.hand.ask("DELETE", f"/api/v1/nodes/{what['node']}")  # its kubelet is gone all the same
            if what["back"] < 1e3:
                await asyncio.sleep(what["back"])
                await self._added(what["node"])

        self._gently(gone())

    async def _added(self, name: str) -> None:
        for _ in range(30):
            try:
                await self.kubelets.add_node(name, self.template)
            except (ApiError, TransportError):
                await asyncio.sleep(1.0)
            else:
                return

    def _do_reboot(self, what: Happening) -> None:
        self._gently(self.kubelets.reboot(what["node"], seconds=what["seconds"]))

    def _do_kubelet_down(self, what: Happening) -> None:
        async def down() -> None:
            await self.kubelets.down(what["node"], mark_unknown=True)
            await asyncio.sleep(what["seconds"])
            await self.kubelets.up(what["node"])

        self._gently(down())

    def _do_taint(self, what: Happening) -> None:
        self.hand.taint(what["node"], what["effect"])
        self._later(what["seconds"], lambda: self.hand.untaint(what["node"]))

    def _do_ignore(self, what: Happening) -> None:
        self.hand.ignore(what["node"], on=True)
        self._later(what["seconds"], lambda: self.hand.ignore(what["node"], on=False))

    def _do_relabel(self, what: Happening) -> None:
        self.hand.label(what["node"], pool="b")
        self._later(what["seconds"], lambda: self.hand.label(what["node"], pool="a"))

    def _do_cordon(self, what: Happening) -> None:
        self.hand.cordon(what["node"], on=True)
        self._later(what["seconds"], lambda: self.hand.cordon(what["node"], on=False))

    def _do_burst(self, what: Happening) -> None:
        """An event storm of a node."""

        async def touch() -> None:
            until = self.loop.time() + what["seconds"]
            while self.loop.time() < until:
                self.hand.touch(what["node"])
                await asyncio.sleep(0.03)

        self._start(touch(), "happening")

    def _do_recreate(self, what: Happening) -> None:
        """`kubectl delete` and, once it is gone, `kubectl create` (CHG-13)."""
        if what["cr"] in self._leaving or not self.hand.is_there(what["cr"]):
            return
        self._leaving.add(what["cr"])
        self.hand.delete_cr(what["cr"])
        self._start(self._create_again(what["cr"], what["after"]), "again")

    async def _create_again(self, name: str, after: float) -> None:
        while self.hand.is_there(name):  # noqa: ASYNC110 - as a person looks
            await asyncio.sleep(0.5)
        await asyncio.sleep(after)
        self._note(f"--- {name} is created again")
        self.claims.recreated(name)
        self.hand.create_cr(name, self.scenario.crs[name])
        self._leaving.discard(name)

    def _do_delete_configmap(self, what: Happening) -> None:
        self.hand.delete_configmap(what["which"])

    def _do_delete_job(self, what: Happening) -> None:
        names = sorted(self.journal.now.jobs)
        if names:
            self.hand.delete_job(names[what["which"] % len(names)])

    def _do_delete_pod(self, what: Happening) -> None:
        names = sorted(self.journal.now.pods)
        if names:
            self.hand.delete_pod(names[what["which"] % len(names)])

    def _do_edit(self, what: Happening) -> None:
        self.hand.edit(what["cr"], what["spec"])

    def _do_order(self, what: Happening) -> None:
        self.hand.order(what["cr"], **{what["what"]: "true"})
        self._later(what["seconds"], lambda: self.hand.order(what["cr"], **{what["what"]: None}))

    def _do_reset(self, what: Happening) -> None:
        self.hand.reset(what["cr"], what["node"], one_entry=what["entry"])

    def _do_touch(self, what: Happening) -> None:
        self.hand.touch(what["node"])

    def _do_touch_status(self, what: Happening) -> None:
        self.hand.touch_status(what["cr"])
