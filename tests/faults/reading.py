"""How the claims read objects: spelled out from the contract (CON-7, CON-10, CON-13 to CON-15), not taken from the operator."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec

from nodewright.model.objects import Job, Node, NodeWrightObject

KEY: Final = "nodewright.nvidia.com"
ORDER: Final = {"apply": 0, "upgrade": 0, "config": 1, "interrupt": 2, "post-interrupt": 3}
Entry = dict[str, Any]


@dataclass(slots=True)
class Signals:
    """What the test itself did that explains a second run: UIDs of Jobs and pods it deleted."""

    deleted: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Claimed:
    """For what a Job was made."""

    uid: str
    name: str
    cr: str
    package: str
    version: str
    stage: str
    run: str
    node: str
    node_uid: str
    generation: int

    @property
    def entry_key(self) -> str:
        """Of its entry in node state."""
        return f"{self.package}|{self.version}"


def claimed(job: Job) -> Claimed:
    """Read a Job's labels and annotations."""
    meta = job.metadata
    package = msgspec.json.decode(meta.annotations.get(f"{KEY}/package", "{}"))
    return Claimed(
        uid=meta.uid,
        name=meta.name,
        cr=meta.labels.get(f"{KEY}/name", ""),
        package=package.get("name", ""),
        version=package.get("version", ""),
        stage=meta.labels.get(f"{KEY}/stage", ""),
        run=meta.annotations.get(f"{KEY}/run", ""),
        node=meta.labels.get(f"{KEY}/node", ""),
        node_uid=meta.annotations.get(f"{KEY}/node-uid", ""),
        generation=int(meta.labels.get(f"{KEY}/generation", "0")),
    )


def holds(job: Job) -> bool:
    """Whether the Job holds a slot (JOB-12): unfinished, and not failed for good, of which `FailureTarget` is the verdict (JOB-6)."""
    return not job.finished and job.condition("FailureTarget") is None


def entries(node: Node | None, cr: str) -> dict[str, Entry]:
    """Node state."""
    text = None if node is None else node.metadata.annotations.get(f"{KEY}/nodeState_{cr}")
    return _decoded(text) if text else {}


def pick(node: Node, cr: str) -> dict[str, Any] | None:
    """The node's pick."""
    text = node.metadata.annotations.get(f"{KEY}/pick_{cr}")
    return _decoded(text) if text else None


@lru_cache(maxsize=8192)
def _decoded(text: str) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(text)
    return decoded


def spec(cr: NodeWrightObject) -> dict[str, Any]:
    """The spec as plain values."""
    decoded: dict[str, Any] = msgspec.json.decode(cr.spec)
    return decoded


def status(cr: NodeWrightObject) -> dict[str, Any]:
    """The status as plain values."""
    decoded: dict[str, Any] = msgspec.json.decode(cr.status)
    return decoded


def selects(cr_spec: dict[str, Any], node: Node) -> bool:
    """ROL-1, for `matchLabels` alone: the fault tests use nothing else."""
    wanted = cr_spec.get("nodeSelectors", {}).get("matchLabels", {})
    return all(node.metadata.labels.get(key) == value for key, value in wanted.items())


def ignored(node: Node) -> bool:
    """ROL-2."""
    return node.metadata.labels.get(f"{KEY}/ignore") == "true"
