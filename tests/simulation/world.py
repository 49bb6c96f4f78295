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
from tests.simulation.faults import SPARED, Faults
from tests.simulation.hand import COUNTER, PLANTED, Hand
from tests.simulation.happenings import Happenings
from tests.simulation.journal import Journal, Write
from tests.simulation.loop import FreezingLoop
from tests.simulation.nailed import nailed
from tests.simulation.operators import NAMESPACE, Process
from tests.simulation.scenario import Scenario

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
        self.agents: dict[str, Process] = {}
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
        self.happenings = Happenings(self)
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
        self.start(self.kubelets.run(), "kubelets")
        self.start(self.controllers.run(), "controllers")
        await self.kubelets.wait_ready()
        await self.controllers.wait_ready()
        for number in range(self.scenario.operators):
            self.start_operator(number)
        for name, spec in self.scenario.crs.items():
            self.hand.create_cr(name, spec)
        begun = self.loop.time()
        for happening in self.scenario.happenings:
            await asyncio.sleep(max(0.0, begun + happening["at"] - self.loop.time()))
            self.note("--- " + " ".join(f"{key}={value}" for key, value in happening.items() if key != "at"))
            self.happenings.happen(happening)
        await asyncio.sleep(1.0)
        await self._end()

    async def _end(self) -> None:
        await self._mend()
        await self._until(lambda: not self.happenings.leaving, CONVERGES_WITHIN, "deletion")
        await self._until(self._converged, CONVERGES_WITHIN, "convergence", each=self._help)
        self.note("--- converged")
        await self._silence()
        for problem in faults_at_the_end(self.journal.now, self.scenario, self.hand):
            self._complain(f"end: {problem}")
        if self.scenario.deletes:
            self.note("--- all NodeWrights are deleted")
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
        self.note("--- faults end")
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
        self.processes[number] = self.agents[process.agent] = process
        self._jobs.append(process.task)
        self.note(f"--- {process.agent} starts")

    def _is_dead(self, agent: str) -> bool:
        process = self.agents.get(agent)
        return process is not None and not process.alive

    def kill(self, process: Process, down: float) -> None:
        """End a process at this very moment; it is back after `down` seconds."""
        if not process.alive:
            return
        self.note(f"--- {process.agent} is killed")
        process.kill()
        self.start(self._back(process.replica, down), "happening")

    async def _back(self, number: int, down: float) -> None:
        await asyncio.sleep(down)
        self.start_operator(number)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Let it run until the world ends."""
        self._jobs.append(self.loop.create_task(work, name=name))

    async def _tear_down(self, everything: asyncio.Task[None]) -> None:
        for process in self.agents.values():
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
        self.note(f"!!! {problem}")
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

    def note(self, text: str) -> None:
        """Write a line into the history."""
        self._notes.append((self.loop.time(), len(self.journal.writes), text))

    def told(self) -> list[str]:
        """The history as a person reads it: what happened, and each write in between."""
        lines, notes = [], list(self._notes)
        for index, (time, by, verb, resource, key) in enumerate(self.journal.writes):
            while notes and notes[0][1] <= index:
                lines.append(f"{notes[0][0]:9.3f} {notes.pop(0)[2]}")
            lines.append(f"{time:9.3f}   {by} {verb} {resource} {key}")
        return lines + [f"{time:9.3f} {text}" for time, _, text in notes]
