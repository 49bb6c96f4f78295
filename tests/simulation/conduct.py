"""More of what has to be true after every write: who may be worked on, in whose turn, and what operators never touch.

Each claim sees the writes of operators only, and looks at what was so for `UNDER_WAY_SECONDS`: what changed later they may not know yet.
Relied on by `claims`, which holds them against each write.
"""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller_runtime.testing.api_server import ApiRequest
from nodewright.model.objects import Job, Node, NodeWrightObject, Pod
from tests.faults.journal import Moment, Picture
from tests.faults.reading import KEY, claimed, entries, holds, ignored, selects, spec, status
from tests.simulation.journal import Write

if TYPE_CHECKING:
    from tests.simulation.claims import Claims

UNDER_WAY_SECONDS: Final = 15.0
"""What was planned before a person acted may be written so much later: a slow request, and its repetition."""
SUSPENDED: Final = ("pause", "disable")


class Since:
    """Since when something has been true of a key; it forgets what is not true any more."""

    def __init__(self) -> None:
        self._since: dict[Any, float] = {}

    def note(self, key: Any, now: float, *, true: bool) -> None:
        """How it is now."""
        if true:
            self._since.setdefault(key, now)
        else:
            self._since.pop(key, None)

    def long(self, key: Any, now: float) -> bool:
        """Whether it has been true for longer than a write may be under way."""
        return now - self._since.get(key, 1e18) > UNDER_WAY_SECONDS


class Turns:
    """ROL-2, ROL-3, ROL-17, ROL-18, LIF-7: no Job is made on a node that is left alone, before its turn, while the CR is held, or beside
    another package under `serial`; and a suspended one is resumed only once nothing holds it."""

    def __init__(self, crs: list[str], claims: "Claims") -> None:
        self.broken: list[str] = []
        self._crs = crs
        self._claims = claims
        self._true = Since()
        self._jobs: dict[tuple[str, str], dict[str, Job]] = {}

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        assert isinstance(moment, Write)
        if moment.kind == "Node":
            self._look(moment.name, moment, picture)
        elif moment.kind == "NodeWright":
            self._orders(moment)
            for node in picture.nodes:
                self._look(node, moment, picture)
        elif moment.kind == "Job":
            self._job(moment, picture)

    def _orders(self, moment: Write) -> None:
        annotations = moment.new.metadata.annotations if moment.new is not None else {}
        for order in SUSPENDED:
            self._true.note((order, moment.name), moment.time, true=annotations.get(f"{KEY}/{order}") == "true")
        fields = spec(moment.new) if moment.new is not None else {}
        self._true.note(("serial", moment.name), moment.time, true=bool(fields.get("serial")))
        self._true.note(("all", moment.name), moment.time, true=fields.get("sequencing") == "all")

    def _look(self, name: str, moment: Write, picture: Picture) -> None:
        node, now = picture.nodes.get(name), moment.time
        self._true.note(("ignored", name), now, true=node is not None and ignored(node))
        tainted = node is not None and any(taint.key.startswith("example.com/") for taint in node.spec.taints)
        self._true.note(("tainted", name), now, true=tainted)
        for one in self._crs:
            cr = picture.crs.get(one)
            for other in self._crs:
                before = picture.crs.get(other)
                holds_up = cr is not None and before is not None and node is not None and _precedes(before, cr, node)
                self._true.note(("turn", one, other, name), now, true=holds_up)

    def _job(self, moment: Write, picture: Picture) -> None:
        job = moment.new or moment.old
        claim = claimed(job)
        there = self._jobs.setdefault((claim.cr, claim.node), {})
        beside = [one for one in there.values() if holds(one) and claimed(one).package != claim.package]
        if moment.new is None:
            there.pop(claim.uid, None)
        else:
            there[claim.uid] = job
        if moment.new is None or not moment.by_operator or self._claims.in_doubt(moment.time):
            return
        now = moment.time
        if moment.old is None:
            self._created(claim.name, claim.cr, claim.node, now, picture, [claimed(one).name for one in beside])
        elif moment.old.spec.suspend and not moment.new.spec.suspend:
            self._say([o for o in SUSPENDED if self._true.long((o, claim.cr), now)], f"Job {claim.name} is resumed")

    def _created(self, job: str, cr: str, node: str, now: float, picture: Picture, beside: list[str]) -> None:
        why = [order for order in SUSPENDED if self._true.long((order, cr), now)]
        why += [what for what in ("ignored", "tainted") if self._true.long((what, node), now)]
        why += [f"after {one}" for one in self._crs if self._true.long(("turn", cr, one, node), now)]
        for one in self._crs:
            if self._true.long(("all", one), now) and any(
                self._true.long(("turn", cr, one, name), now) for name in picture.nodes
            ):
                why.append(f"after all of {one}")
        if beside and self._true.long(("serial", cr), now):
            why.append(f"serial, beside {beside}")
        self._say(why, f"Job {job} is created")

    def _say(self, why: list[str], what: str) -> None:
        if why:
            self.broken.append(f"{what} although: {', '.join(why)}")


def _precedes(before: NodeWrightObject, cr: NodeWrightObject, node: Node) -> bool:
    """Whether that one comes first and is not through with the node (ROL-17)."""
    fields, own = spec(before), spec(cr)
    first = (fields.get("priority", 200), before.metadata.name) < (own.get("priority", 200), cr.metadata.name)
    if not first or before.metadata.deletion_timestamp or before.metadata.annotations.get(f"{KEY}/disable") == "true":
        return False
    if not selects(fields, node):
        return False
    state = entries(node, before.metadata.name)
    done = {key for key, entry in state.items() if (entry["stage"], entry["state"]) == ("config", "complete")}
    return not {f"{name}|{package['version']}" for name, package in fields["packages"].items()} <= done


class Conduct:
    """Operators never delete what is not recorded (JOB-8, B25), never re-stamp a condition (ROL-22, B08), never go back in
    `observedGeneration` (ROL-24), and never touch a cordon that is not theirs (B110); and a host has one executor of a package (B128)."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self._running: dict[tuple[str, str, str], set[str]] = {}

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        assert isinstance(moment, Write)
        if moment.kind == "Pod":
            self._one_executor(moment)
        elif moment.kind == "Node" and (moment.old is None or moment.new is None):
            self._running = {key: pods for key, pods in self._running.items() if key[2] != moment.name}
        if not moment.by_operator or moment.old is None:
            return
        match moment.kind:
            case "Job":
                self._kept(moment.old, moment.new, picture)
            case "NodeWright" if moment.new is not None:
                self._status(moment.old, moment.new)
            case "Node" if moment.new is not None and moment.old.spec.unschedulable != moment.new.spec.unschedulable:
                self.broken.append(f"{moment.name}: somebody else's cordon is {moment.new.spec.unschedulable}")

    def _kept(self, old: Job, new: Job | None, picture: Picture) -> None:
        goes = new is None or (new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp)
        if not goes or not old.finished or old.metadata.annotations.get(f"{KEY}/state-recorded") == "true":
            return
        claim = claimed(old)
        node, cr = picture.nodes.get(claim.node), picture.crs.get(claim.cr)
        if node is None or node.metadata.uid != claim.node_uid or cr is None or cr.metadata.deletion_timestamp:
            return
        if not any(owner.uid == cr.metadata.uid for owner in old.metadata.owner_references):
            return
        self.broken.append(f"Job {claim.name} is finished and not recorded, and is deleted")

    def _status(self, old: NodeWrightObject, new: NodeWrightObject) -> None:
        before, after = status(old), status(new)
        if old.metadata.uid == new.metadata.uid and before.get("observedGeneration", 0) > after.get(
            "observedGeneration", 0
        ):
            self.broken.append(f"{new.metadata.name}: observedGeneration goes back")
        stamps = {c["type"]: (c["status"], c.get("lastTransitionTime")) for c in before.get("conditions") or ()}
        for one in after.get("conditions") or ():
            was = stamps.get(one["type"])
            if was is not None and was[0] == one["status"] and was[1] != one.get("lastTransitionTime"):
                self.broken.append(f"{new.metadata.name}: condition {one['type']} is stamped anew and reads as before")

    def _one_executor(self, moment: Write) -> None:
        pod: Pod = moment.new or moment.old
        labels = pod.metadata.labels
        key = (labels.get(f"{KEY}/name", ""), labels.get(f"{KEY}/package", ""), pod.spec.node_name)
        there = self._running.setdefault(key, set())
        runs = moment.new is not None and any(
            one.state.running is not None for one in pod.status.init_container_statuses
        )
        if not runs:
            there.discard(pod.metadata.uid)
            return
        there.add(pod.metadata.uid)
        if len(there) > 1:
            self.broken.append(f"{len(there)} pods of {key[1]} run on {key[2]} at once")


class _Name(msgspec.Struct, frozen=True):
    name: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _Name = _Name()


_named = msgspec.json.Decoder(_Named)


class Storm:
    """B161, invariant 3: nobody asks for the same write over and over; counted as requests, since one that changes nothing is no write."""

    MOST: Final = 30
    """Requests of one process for one object within ten seconds, answered or not."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str, str], list[float]] = {}
        self.writes = 0
        """Of all operators so far, the lease left out."""
        self.most = 0

    def asked(self, request: ApiRequest, now: float) -> str:
        """A write request is sent; what is wrong with that."""
        path = request.path
        if request.method == "POST":
            path += "/" + _named.decode(request.body).metadata.name
        self.writes += 1
        times = self._asked.setdefault((request.user_agent, request.method, path), [])
        while times and times[0] < now - 10.0:
            times.pop(0)
        times.append(now)
        self.most = max(self.most, len(times))
        many = len(times) > self.MOST
        return f"{request.user_agent} asks for {request.method} {path} {len(times)} times within 10 s" if many else ""
