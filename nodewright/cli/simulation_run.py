"""Runs one simulation from its start to its end, in virtual time, and tells a listener what happens meanwhile.

Relies on the embedded cluster, the real operator and the timeline. The command `simulate` relies on it.
"""

import asyncio
import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from controller_runtime.memory import THRESHOLDS
from controller_runtime.testing.api_server import ApiRequest, RefusalError
from nodewright.cli.manifests import ManifestError, Manifests
from nodewright.cli.simulated_operator import SimulatedSettings, real_operator
from nodewright.engine.node_plan import NodeOutcome
from nodewright.simulator.durations import Durations
from nodewright.simulator.embedded_cluster import NODEWRIGHT, EmbeddedCluster
from nodewright.simulator.kubelets import Timing
from nodewright.simulator.made_nodes import MadeNodes
from nodewright.simulator.outcome import CrOutcome, Ending, Outcome, cr_outcome
from nodewright.simulator.rules import Rule
from nodewright.simulator.timeline import Batch, Saying, Span, Timeline, TimelineLedger
from nodewright.simulator.virtual_time import EPOCH, run_virtually

LOOK_SECONDS: Final = 5.0
"""How often, in virtual seconds, it is looked whether the end has come."""
STILL_SECONDS: Final = 25 * 60.0
"""Nothing runs and nothing changed for so long: no back-off is longer than ten minutes."""
HANGING_SECONDS: Final = 2 * 3600.0
"""Something runs and nothing changed for so long; a longer stage timeout adds to it."""
NO_SUCCESS_SECONDS: Final = 24 * 3600.0
"""No stage succeeded for so long although things happen: it goes round in circles."""
BOOT_SECONDS: Final = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to simulate."""

    manifests: Manifests
    nodes: MadeNodes
    rules: Sequence[Rule] = ()
    seed: int = 0
    durations: Durations = field(default_factory=Durations)
    within: float | None = None
    """Virtual seconds after which it ends in any case."""


@dataclass(frozen=True, slots=True)
class Played:
    """What a simulation leaves behind."""

    outcome: Outcome
    timeline: Timeline


class Listener(Protocol):
    """Told what happens, as it happens, in virtual seconds."""

    def began(self, timeline: Timeline) -> None:
        """All is ready."""

    def batch(self, batch: Batch) -> None:
        """A batch begins."""

    def said(self, at: float, cr: str, node: str, saying: Saying) -> None:
        """A node's Status or Reason is another one."""

    def ended(self, at: float, span: Span) -> None:
        """An attempt at a stage ended."""

    def looked(self, at: float) -> None:
        """Time goes on."""


def play(request: Request, listener: Listener) -> Played:
    """Simulate.

    Raises:
        ManifestError: the API server refuses an object.
        OSError: the listener cannot write.
    """
    gc.set_threshold(*THRESHOLDS)

    async def main() -> Played:
        return await _Simulation(request, listener).run()

    try:
        return run_virtually(main)
    except BaseExceptionGroup as group:
        # The cluster's task group wraps what ends it.
        found: BaseException = group
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        if isinstance(found, ManifestError | OSError):  # OSError: a full disk under the output
            raise found from None
        raise


class _Simulation:
    def __init__(self, request: Request, listener: Listener) -> None:
        self._request = request
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._began = 0.0
        self._timeline = Timeline(self._now, epoch=EPOCH)
        self._cluster = EmbeddedCluster(
            seed=request.seed,
            rules=request.rules,
            timing=Timing(step_of=request.durations, boot_seconds=BOOT_SECONDS),
            ledger=TimelineLedger(self._timeline, lambda span: listener.ended(self._now(), span)),
        )

    def _now(self) -> float:
        return self._loop.time() - self._began

    async def run(self) -> Played:
        nodes = self._request.nodes
        async with self._cluster as cluster:
            for item in nodes.items:
                self._load_node(item)
            await cluster.start(nodes=[name for name in nodes.names if name not in nodes.silent])
            self._began = self._loop.time()
            self._timeline.start(EPOCH + self._began)
            self._load_manifests()
            self._listener.began(self._timeline)
            settings = SimulatedSettings(namespace=cluster.namespace, nodes=len(nodes.items))
            cluster.start_operator(real_operator(settings, self._passed))
            ending = await self._end()
            outcome = self._outcome(ending)
        return Played(outcome, self._timeline)

    # --- what goes in ----------------------------------------------------------------------------------------------

    def _load_node(self, item: Mapping[str, Any]) -> None:
        try:
            self._cluster.load(item)
        except RefusalError as refusal:
            raise ManifestError(
                f"Node {item['metadata']['name']}: the API server would refuse it: {refusal}"
            ) from refusal

    def _load_manifests(self) -> None:
        for document in self._request.manifests.documents:
            item = {key: value for key, value in document.fields.items() if key != "status"}
            kept = ("name", "labels", "annotations")
            item["metadata"] = {key: item["metadata"][key] for key in kept if item["metadata"].get(key) is not None}
            try:
                self._cluster.load(item)
            except RefusalError as refusal:
                raise ManifestError(document.told("", f"the API server would refuse it: {refusal}")) from refusal

    # --- what is seen ----------------------------------------------------------------------------------------------

    def _passed(self, cr: str, outcomes: Mapping[str, NodeOutcome]) -> None:
        timeline, listener, now = self._timeline, self._listener, self._now()
        for node, outcome in outcomes.items():
            pick = outcome.plan.pick
            if pick is not None and not pick.over:
                batch = timeline.picked(cr, node, compartment=pick.compartment, batch=pick.batch)
                if batch is not None:
                    listener.batch(batch)
            reason = outcome.reason
            code, text, release = ("", "", "") if reason is None else (reason.code.value, reason.text, reason.release)
            saying = timeline.said(cr, node, status=outcome.status.value, code=code, text=text, release=release)
            if saying is not None:
                listener.said(now, cr, node, saying)

    def _status(self, name: str) -> dict[str, Any]:
        answer = self._cluster.server.handle(ApiRequest(method="GET", path=NODEWRIGHT.path(name=name)))
        found: dict[str, Any] = msgspec.json.decode(answer.body)
        status: dict[str, Any] = found.get("status") or {}
        return status

    # --- the end ---------------------------------------------------------------------------------------------------

    async def _end(self) -> Ending:
        within, timeline = self._request.within, self._timeline
        patience = HANGING_SECONDS + self._longest_timeout()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = self._now()
            self._listener.looked(now)
            self._cluster.server.expire_window(
                NODEWRIGHT
            )  # a status of a thousand nodes is a megabyte, and all would be kept
            if self._all_complete():
                return Ending.COMPLETE
            still = now - timeline.changed_at
            if still > patience or (still > STILL_SECONDS and not self._something_runs()):
                return Ending.STUCK
            if now - timeline.succeeded_at > max(NO_SUCCESS_SECONDS, patience) or (
                within is not None and now >= within
            ):
                return Ending.TIME

    def _all_complete(self) -> bool:
        """By the nodes first, which is cheap to ask, then by what is published."""
        names = self._request.manifests.nodewrights
        tracks = self._timeline.tracks
        if not all(track.complete for name in names for track in tracks.get(name, {}).values()):
            return False
        return all(self._status(name).get("status") == "complete" for name in names)

    def _something_runs(self) -> bool:
        return any(
            track.last.status == "in_progress" for each in self._timeline.tracks.values() for track in each.values()
        )

    def _longest_timeout(self) -> float:
        packages = (p for spec in self._request.manifests.nodewrights.values() for p in spec.packages.values())
        return max((p.stage_timeout_seconds or 0.0 for p in packages), default=0.0)

    def _outcome(self, ending: Ending) -> Outcome:
        kubelets = self._cluster.kubelets
        unused = [] if kubelets is None else kubelets.never_applied()
        crs: list[CrOutcome] = [
            cr_outcome(name, self._status(name), self._timeline) for name in self._request.manifests.nodewrights
        ]
        return Outcome(
            seed=self._request.seed,
            nodes=len(self._request.nodes.items),
            ending=ending,
            seconds=self._timeline.changed_at,
            crs=tuple(crs),
            notes=(*self._request.manifests.notes, *self._request.nodes.notes),
            unused_rules=tuple(rule.text for rule in unused),
        )
