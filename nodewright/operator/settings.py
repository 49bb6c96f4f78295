"""The operator's settings, read once from the environment (CON-26).

Anything invalid stops the start with one message that names every fault: the variable, what it holds and the way out. Pure
but for the mapping it is given; the wiring of the operator relies on it. Durations are seconds.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final, Self, TypeVar

from nodewright.api.durations import SECOND, DurationError, format_duration, parse_duration
from nodewright.api.keys import is_dns_subdomain, is_label_value
from nodewright.api.selectors import is_qualified_name
from nodewright.api.tolerations import EFFECTS


class SettingsError(ValueError):
    """The environment does not make valid settings; the message lists every fault."""

    def __init__(self, faults: list[str]) -> None:
        self.faults: Final = tuple(faults)
        super().__init__("invalid settings:\n" + "\n".join(f"  {fault}" for fault in faults))


class LogLevel(StrEnum):
    """Least severe level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a log line looks: for programs or for a person."""

    JSON = "json"
    CONSOLE = "console"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintSetting:
    """A taint, written `key=value:effect` or `key:effect`."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server listens; an empty host means every interface."""

    host: str
    port: int


_EVERY_INTERFACE: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything the environment says; immutable for the life of the process."""

    namespace: str = "nodewright"
    """`NAMESPACE`: where the operator, its Lease, package Jobs and ConfigMaps live."""
    default_interval: float = 600.0
    """`DEFAULT_INTERVAL`: the longest time between two passes of a CR, at least a minute."""
    plan_interval: float = 0.05
    """`PLAN_INTERVAL`: the shortest time between two passes of a CR, so that bursts are folded into one."""
    image_pull_secret: str = ""
    """`IMAGE_PULL_SECRET`: name of the Secret package pods pull with; empty means none."""
    copy_dir_root: str = "/var/lib/skyhook"
    """`COPY_DIR_ROOT`: directory on the host that packages are copied to; absolute."""
    agent_log_root: str = "/var/log/skyhook"
    """`AGENT_LOG_ROOT`: directory on the host that agents log to; absolute."""
    agent_image: str
    """`AGENT_IMAGE`: image with tag of the agent that runs in package pods; required."""
    reapply_on_reboot: bool = False
    """`REAPPLY_ON_REBOOT`: do a node's work again after it booted."""
    runtime_required_taint: TaintSetting = TaintSetting(
        key="nodewright.nvidia.com", value="runtime-required", effect="NoSchedule"
    )
    """`RUNTIME_REQUIRED_TAINT`: the taint that keeps workloads off a node until it is done; its key becomes part of an
    annotation, so it has no `/` and at most 53 characters."""
    job_stage_timeout: float = 3600.0
    """`JOB_STAGE_TIMEOUT`: bounds one attempt at a stage unless the package says otherwise; 0 means no bound."""
    job_backoff_limit: int = 3
    """`JOB_BACKOFF_LIMIT`: retries of a stage."""
    job_ttl_succeeded: float = 3600.0
    """`JOB_TTL_SUCCEEDED`: how long a succeeded Job is kept, at least a minute."""
    job_ttl_failed: float = 86400.0
    """`JOB_TTL_FAILED`: how long a failed Job is kept, at least a minute; then its stage runs again."""
    job_retain: int = 4000
    """`JOB_RETAIN`: how many finished Jobs are kept at most, at least one."""
    enable_webhooks: bool = True
    """`ENABLE_WEBHOOKS`: serve the admission webhooks."""
    legacy_cleanup_delay: float = 86400.0
    """`LEGACY_CLEANUP_DELAY`: how long the legacy group's keys stay after adoption; not negative."""
    publish_legacy_metrics: bool = True
    """`PUBLISH_LEGACY_METRICS`: publish every metric under its legacy name too."""
    leader_elect: bool = True
    """`LEADER_ELECT`: hold the Lease before writing; false only for a single process."""
    metrics_address: Address | None = Address(host=_EVERY_INTERFACE, port=8443)
    """`METRICS_PORT`: where metrics are served; None is off."""
    metrics_secure: bool = True
    """`METRICS_SECURE`: serve metrics by HTTPS, to those whom the API server lets."""
    probe_address: Address | None = Address(host=_EVERY_INTERFACE, port=8081)
    """`PROBE_PORT`: where `/healthz` and `/readyz` are served; None is off."""
    webhook_address: Address | None = Address(host=_EVERY_INTERFACE, port=9443)
    """`WEBHOOK_PORT`: where the admission webhooks are served; None is off."""
    log_level: LogLevel = LogLevel.INFO
    """`LOG_LEVEL`: least severe level that is logged."""
    log_format: LogFormat = LogFormat.JSON
    """`LOG_FORMAT`: JSON lines, or console for a person."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Settings of the environment; what is not set has its default. Raises `SettingsError` with every fault.

        A variable that is set to nothing counts as not set, as a chart renders an unset value. Unknown variables are
        somebody else's.
        """
        values: dict[str, object] = {}
        faults: list[str] = []
        for field, (variable, parse) in _VARIABLES.items():
            text = environment.get(variable, "").strip()
            if not text:
                if field == "agent_image":
                    faults.append(f"{variable} is not set; set it to the agent's image with a tag")
                continue
            try:
                values[field] = parse(text)
            except _InvalidError as error:
                faults.append(f"{variable}={text!r} {error}")
        if faults:
            raise SettingsError(faults)
        return cls(**values)  # type: ignore[arg-type]  # each parser of _VARIABLES returns its field's type


class _InvalidError(ValueError):
    """What is wrong with a value and the way out, to follow `NAME='value'`."""


E = TypeVar("E", bound=StrEnum)

_HOUR: Final = 3600 * SECOND
_MINUTE: Final = 60 * SECOND
_MILLISECOND: Final = SECOND // 1000


def _boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise _InvalidError("is not true or false")


def _duration(text: str, *, least: int = 0) -> float:
    try:
        nanoseconds = parse_duration(text)
    except DurationError:
        raise _InvalidError("is not a duration; write it like 30s, 10m or 1h30m") from None
    if nanoseconds < least:
        raise _InvalidError("must not be negative" if least == 0 else f"must be at least {format_duration(least)}")
    return nanoseconds / SECOND


def _integer(text: str, *, least: int) -> int:
    if re.fullmatch(r"[+-]?[0-9]{1,9}", text) is None or int(text) < least:
        raise _InvalidError(f"must be a whole number from {least} to 999999999")
    return int(text)


def _choice(text: str, *, of: type[E]) -> E:
    try:
        return of(text.lower())
    except ValueError:
        raise _InvalidError(f"must be one of {', '.join(of)}") from None


def _namespace(text: str) -> str:
    if re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", text) is None:
        raise _InvalidError("is not the name of a namespace")
    return text


def _object_name(text: str) -> str:
    if not is_dns_subdomain(text):
        raise _InvalidError("is not the name of an object; use lower-case letters, digits, `-` and `.`")
    return text


def _absolute_path(text: str) -> str:
    if not text.startswith("/"):
        raise _InvalidError("must be an absolute path")
    if ".." in text.split("/"):
        raise _InvalidError("must not contain `..`")
    return text.rstrip("/") or "/"


def _image_with_tag(text: str) -> str:
    """A tag is asked for because packages are told it as the agent's version (CON-16)."""
    name, _, digest = text.partition("@")
    repository, colon, tag = name.rpartition(":")
    if any(character.isspace() for character in text):
        raise _InvalidError("contains whitespace")
    if not colon or "/" in tag or not repository or re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", tag) is None:
        raise _InvalidError("needs a tag; write it like registry.example/agent:1.2.3")
    if "@" in text and not digest:
        raise _InvalidError("has an empty digest")
    return text


_MAX_TAINT_KEY: Final = 53
"""The annotation `autoTaint_<taint key>` has 63 characters after its prefix."""


def _taint(text: str) -> TaintSetting:
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    if not rest or effect not in EFFECTS:
        raise _InvalidError(f"must be key=value:effect with effect one of {', '.join(EFFECTS)}")
    if "/" in key or len(key) > _MAX_TAINT_KEY or not is_qualified_name(key):
        raise _InvalidError(
            f"has a key that does not fit into an annotation; use at most {_MAX_TAINT_KEY} characters, no `/`"
        )
    if not is_label_value(value):
        raise _InvalidError("has a value that is no taint value; use at most 63 letters, digits, `-`, `_`, `.`")
    return TaintSetting(key=key, value=value, effect=effect)


def _address(text: str) -> Address | None:
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    sound = re.fullmatch(r"[0-9]{1,5}", port) is not None and 1 <= int(port) <= 65535
    if not colon or not sound or (":" in bare and bare == host) or re.search(r"[\s\[\]/]", bare):
        raise _InvalidError("must be [host]:port, like :8443 or 127.0.0.1:8443, or 0 for off")
    return Address(host=bare, port=int(port))


_VARIABLES: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "namespace": ("NAMESPACE", _namespace),
    "default_interval": ("DEFAULT_INTERVAL", partial(_duration, least=_MINUTE)),
    "plan_interval": ("PLAN_INTERVAL", partial(_duration, least=_MILLISECOND)),
    "image_pull_secret": ("IMAGE_PULL_SECRET", _object_name),
    "copy_dir_root": ("COPY_DIR_ROOT", _absolute_path),
    "agent_log_root": ("AGENT_LOG_ROOT", _absolute_path),
    "agent_image": ("AGENT_IMAGE", _image_with_tag),
    "reapply_on_reboot": ("REAPPLY_ON_REBOOT", _boolean),
    "runtime_required_taint": ("RUNTIME_REQUIRED_TAINT", _taint),
    "job_stage_timeout": ("JOB_STAGE_TIMEOUT", _duration),
    "job_backoff_limit": ("JOB_BACKOFF_LIMIT", partial(_integer, least=0)),
    "job_ttl_succeeded": ("JOB_TTL_SUCCEEDED", partial(_duration, least=_MINUTE)),
    "job_ttl_failed": ("JOB_TTL_FAILED", partial(_duration, least=_MINUTE)),
    "job_retain": ("JOB_RETAIN", partial(_integer, least=1)),
    "enable_webhooks": ("ENABLE_WEBHOOKS", _boolean),
    "legacy_cleanup_delay": ("LEGACY_CLEANUP_DELAY", _duration),
    "publish_legacy_metrics": ("PUBLISH_LEGACY_METRICS", _boolean),
    "leader_elect": ("LEADER_ELECT", _boolean),
    "metrics_address": ("METRICS_PORT", _address),
    "metrics_secure": ("METRICS_SECURE", _boolean),
    "probe_address": ("PROBE_PORT", _address),
    "webhook_address": ("WEBHOOK_PORT", _address),
    "log_level": ("LOG_LEVEL", partial(_choice, of=LogLevel)),
    "log_format": ("LOG_FORMAT", partial(_choice, of=LogFormat)),
}
