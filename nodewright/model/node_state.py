"""Node state: the JSON record of packages that NodeWright keeps in a node's `nodeState_<cr>` annotation (CON-10).

It is the truth about what was done on a host. Entries are immutable; keys that others wrote are kept on rewrite. `parse` never raises: a
record it cannot trust is `Malformed` and names what is wrong (LIF-4).
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

import msgspec
import semver


class Stage(StrEnum):
    """What runs for a package on a node (LIF-5)."""

    APPLY = "apply"
    UPGRADE = "upgrade"
    CONFIG = "config"
    INTERRUPT = "interrupt"
    POST_INTERRUPT = "post-interrupt"
    UNINSTALL = "uninstall"
    UNINSTALL_INTERRUPT = "uninstall-interrupt"

    @property
    def is_uninstall(self) -> bool:
        """In the uninstall lane."""
        return self in (Stage.UNINSTALL, Stage.UNINSTALL_INTERRUPT)

    @property
    def is_interrupt(self) -> bool:
        """Run as an interrupt Job rather than a package stage."""
        return self in (Stage.INTERRUPT, Stage.UNINSTALL_INTERRUPT)

    @property
    def order(self) -> int:
        """Position in its lane, by which progress is compared (JOB-8)."""
        return _ORDER[self]


_ORDER = {
    Stage.APPLY: 0,
    Stage.UPGRADE: 0,
    Stage.CONFIG: 1,
    Stage.INTERRUPT: 2,
    Stage.POST_INTERRUPT: 3,
    Stage.UNINSTALL: 10,
    Stage.UNINSTALL_INTERRUPT: 11,
}


class State(StrEnum):
    """How far an entry's stage is (LIF-11)."""

    COMPLETE = "complete"
    IN_PROGRESS = "in_progress"
    SKIPPED = "skipped"
    ERRORING = "erroring"
    UNKNOWN = "unknown"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One package's record on a node. `run` is the token of the current start of its stage (LIF-12a)."""

    name: str
    version: str
    image: str = ""
    stage: Stage
    state: State
    restarts: int = 0
    container_sha: str = ""
    interrupt_pending: bool = False
    run: str = ""
    generation: int = 0
    config_keys: tuple[str, ...] = ()
    uninstall_interrupt: msgspec.Raw | None = None
    other: tuple[tuple[str, bytes], ...] = ()

    @property
    def key(self) -> str:
        """The entry's key in node state."""
        return f"{self.name}|{self.version}"

    @property
    def begun(self) -> bool:
        """A stage of it was started: more than a note that one is due (LIF-12)."""
        return not (self.stage in (Stage.APPLY, Stage.UPGRADE) and self.state is State.IN_PROGRESS and not self.run)

    def at(self, stage: Stage, state: State) -> bool:
        """Whether the entry is exactly there."""
        return self.stage is stage and self.state is state


NodeState = Mapping[str, Entry]


class Malformed(msgspec.Struct, frozen=True):
    """Node state that cannot be trusted; `message` says what is wrong with it."""

    message: str


_EMPTY: NodeState = {}
_KNOWN = frozenset({
    "name", "version", "image", "stage", "state", "restarts", "containerSHA", "interruptPending", "run", "generation", "configKeys",
    "uninstallInterrupt",
})  # fmt: skip
_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)  # RecursionError: JSON nested too deep
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_plain = msgspec.json.Decoder()


def parse(text: str | None) -> NodeState | Malformed:
    """Node state from the annotation's text; absent means nothing is installed."""
    if text is None:
        return _EMPTY
    try:
        outer = _raw_object.decode(text)
    except _UNREADABLE as error:
        return Malformed(f"not a JSON object: {error}")
    entries: dict[str, Entry] = {}
    for key, raw in outer.items():
        entry = _parse_entry(key, raw)
        if isinstance(entry, Malformed):
            return entry
        entries[key] = entry
    return entries


def _parse_entry(key: str, raw: msgspec.Raw) -> Entry | Malformed:
    try:
        fields = _raw_object.decode(raw)
        values = {
            name: _plain.decode(value) for name, value in fields.items()
        }  # all of them: what is nested too deep shows here
    except _UNREADABLE:
        return Malformed(f"entry {key!r} is not an object")
    known = {name: value for name, value in values.items() if name in _KNOWN}
    name, _, version = key.partition("|")
    if known.get("name", name) != name:
        return Malformed(f"entry {key!r} has name {known['name']!r}")
    written = known.get("version")
    if not isinstance(written, str) or written != version or not _is_semver(version):
        return Malformed(f"entry {key!r} has version {written!r}")
    try:
        return Entry(
            name=name,
            version=version,
            image=_text(known, "image"),
            stage=Stage(known.get("stage", "")),
            state=State(known.get("state", "unknown")),
            restarts=_number(known, "restarts"),
            container_sha=_text(known, "containerSHA"),
            interrupt_pending=known.get("interruptPending") is True,
            run=_text(known, "run"),
            generation=_number(known, "generation"),
            config_keys=_texts(known, "configKeys"),
            uninstall_interrupt=fields.get("uninstallInterrupt"),
            other=tuple((k, bytes(v)) for k, v in fields.items() if k not in _KNOWN),
        )
    except ValueError as error:
        return Malformed(f"entry {key!r}: {error}")


@lru_cache(maxsize=4096)
def _is_semver(version: str) -> bool:
    return semver.Version.is_valid(version)


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"{name} is not text")  # noqa: TRY004 - one kind of fault for the caller
    return value


def _number(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is not a whole number")  # noqa: TRY004
    return value


def _texts(fields: Mapping[str, object], name: str) -> tuple[str, ...]:
    value = fields.get(name) or []
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise ValueError(f"{name} is not a list of texts")
    return tuple(value)


def to_fields(entry: Entry) -> dict[str, object]:
    """The entry as the JSON object that is written (CON-10): empty values are left out, keys of others kept."""
    fields: dict[str, object] = {"name": entry.name, "version": entry.version, "image": entry.image}
    fields |= {"stage": entry.stage.value, "state": entry.state.value}
    if entry.restarts:
        fields["restarts"] = entry.restarts
    if entry.container_sha:
        fields["containerSHA"] = entry.container_sha
    if entry.interrupt_pending:
        fields["interruptPending"] = True
    if entry.run:
        fields["run"] = entry.run
    if entry.generation:
        fields["generation"] = entry.generation
    if entry.config_keys:
        fields["configKeys"] = list(entry.config_keys)
    if entry.uninstall_interrupt is not None:
        fields["uninstallInterrupt"] = entry.uninstall_interrupt
    for key, raw in entry.other:
        fields[key] = msgspec.Raw(raw)
    return fields


def dump(state: NodeState) -> str:
    """The annotation's text, byte-deterministic (trap 60): keys sorted."""
    return msgspec.json.encode({key: to_fields(state[key]) for key in sorted(state)}).decode()


def to_plain(state: NodeState) -> dict[str, dict[str, object]]:
    """Node state as plain JSON values, as `status.nodeState` shows it."""
    plain: dict[str, dict[str, object]] = {}
    for key in sorted(state):
        fields = to_fields(state[key])
        plain[key] = {k: _plain.decode(v) if isinstance(v, msgspec.Raw) else v for k, v in fields.items()}
    return plain
