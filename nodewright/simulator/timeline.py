"""What happened in a simulated rollout, as values: stages on nodes, what each node said, batches. Pure; virtual seconds since the start.

Fed by the kubelets' ledger (what really ran) and by the operator's passes (why a node does not move). The summary, the
machine-readable result and the report are made of it. Relied on by `nodewright simulate`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from nodewright.simulator.ledger import Entry, Event, Ledger

SUCCEEDED = "succeeded"
COMPLETE = "complete"


@dataclass(slots=True)
class Span:
    """One attempt at a stage on a node: from the start of its first container to the end of its last. `end` None: still running."""

    cr: str
    node: str
    package: str
    version: str
    stage: str
    attempt: int
    start: float
    end: float | None = None
    outcome: str = ""
    """Empty while it runs, `succeeded`, or as the ledger tells the end of the container that failed."""
    containers: int = 0

    @property
    def failed(self) -> bool:
        """Whether it ended otherwise than well."""
        return self.outcome not in ("", SUCCEEDED)


@dataclass(frozen=True, slots=True)
class Saying:
    """What a node said from `at` on: its Status for a CR, and the Reason that holds it, if any."""

    at: float
    status: str
    code: str = ""
    text: str = ""
    release: str = ""


@dataclass(slots=True)
class Track:
    """One node's way through one CR."""

    sayings: list[Saying] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    batch: int | None = None
    compartment: str = ""
    picked_at: float | None = None

    @property
    def last(self) -> Saying:
        """What it says now."""
        return self.sayings[-1] if self.sayings else Saying(0.0, "unknown")

    @property
    def complete(self) -> bool:
        """Whether its Status is complete."""
        return self.last.status == COMPLETE


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a compartment, from its first pick on."""

    at: float
    cr: str
    compartment: str
    number: int


class Timeline:
    """Records; `now` gives virtual seconds since the start. `changed_at` is when anything last changed."""

    def __init__(self, now: Callable[[], float], *, epoch: float) -> None:
        """`epoch` is the Unix time of the start, which the ledger's times count from."""
        self._now = now
        self._epoch = epoch
        self._pods: dict[str, Span] = {}
        self.tracks: dict[str, dict[str, Track]] = {}
        """By CR and node."""
        self.batches: list[Batch] = []
        self.changed_at = 0.0
        self.succeeded_at = 0.0
        """When a stage last succeeded."""
        self.reboots: list[tuple[float, str]] = []

    def start(self, epoch: float) -> None:
        """The rollout starts now: times count from here."""
        self._epoch = epoch

    # --- what the kubelets tell ------------------------------------------------------------------------------------

    def ran(self, entry: Entry) -> Span | None:
        """Take in an entry of the ledger; the span, when an attempt ended."""
        at = entry.time - self._epoch
        if entry.event is Event.REBOOT:
            self.reboots.append((at, entry.node))
            return None
        if not entry.cr:
            return None
        span = self._pods.get(entry.pod_uid)
        if span is None:
            span = self._begin(entry, at)
        match entry.event:
            case Event.START:
                self.changed_at = max(self.changed_at, at)
                span.containers += 1
                span.end, span.outcome = None, "" if span.outcome == SUCCEEDED else span.outcome
            case Event.REFUSED:
                span.end, span.outcome = at, f"refused:{entry.outcome}"
            case _:
                span.end = at
                if not span.failed:
                    span.outcome = entry.outcome
        if entry.event is Event.START:
            return None
        if span.failed:
            return span
        if entry.container == "done":  # the last of a stage's pod: the others are init containers
            self.changed_at = self.succeeded_at = at
            return span
        return None

    def _begin(self, entry: Entry, at: float) -> Span:
        span = Span(entry.cr, entry.node, entry.package, entry.version, entry.stage, entry.attempt, at)
        self._pods[entry.pod_uid] = span
        self.track(entry.cr, entry.node).spans.append(span)
        return span

    # --- what the operator says ------------------------------------------------------------------------------------

    def track(self, cr: str, node: str) -> Track:
        """The node's track, made when it is not there."""
        return self.tracks.setdefault(cr, {}).setdefault(node, Track())

    def said(self, cr: str, node: str, *, status: str, code: str, text: str, release: str) -> Saying | None:
        """The node's Status and Reason after a pass; the saying, if it is news. A different text alone replaces the old one."""
        track = self.track(cr, node)
        last = track.sayings[-1] if track.sayings else None
        if last is not None and (last.status, last.code) == (status, code):
            if last.text != text:
                track.sayings[-1] = Saying(last.at, status, code, text, release)
            return None
        saying = Saying(self._now(), status, code, text, release)
        if last is not None and last.at == saying.at:
            track.sayings.pop()
        track.sayings.append(saying)
        self.changed_at = saying.at
        return saying

    def picked(self, cr: str, node: str, *, compartment: str, batch: int) -> Batch | None:
        """The node is a member of that batch; the batch, if it is new."""
        track = self.track(cr, node)
        if (track.batch, track.compartment) == (batch, compartment):
            return None
        track.batch, track.compartment, track.picked_at = batch, compartment, self._now()
        known = any(b.cr == cr and b.compartment == compartment and b.number == batch for b in reversed(self.batches))
        if known:
            return None
        new = Batch(self._now(), cr, compartment, batch)
        self.batches.append(new)
        return new

    def forget(self, cr: str, node: str) -> None:
        """The node is no longer selected and nothing ran there."""
        track = self.tracks.get(cr, {}).get(node)
        if track is not None and not track.spans:
            del self.tracks[cr][node]

    # --- reading ---------------------------------------------------------------------------------------------------

    def spans(self, cr: str) -> Iterator[Span]:
        """All attempts of a CR."""
        for track in self.tracks.get(cr, {}).values():
            yield from track.spans

    def counts(self, cr: str) -> Mapping[str, int]:
        """How many nodes have which Status."""
        counts: dict[str, int] = {}
        for track in self.tracks.get(cr, {}).values():
            status = track.last.status
            counts[status] = counts.get(status, 0) + 1
        return counts


class TimelineLedger(Ledger):
    """A ledger that keeps no entries and tells each to a timeline; `ended` is called with each attempt that ended."""

    def __init__(self, timeline: Timeline, ended: Callable[[Span], None]) -> None:
        super().__init__()
        self._timeline = timeline
        self._ended = ended

    def record(self, entry: Entry) -> None:
        """Take it in."""
        span = self._timeline.ran(entry)
        if span is not None:
            self._ended(span)
