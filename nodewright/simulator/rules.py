"""What a simulated container does: behaviour rules, first match wins.

A test or a person says `package=drivers,stage=apply,node=node-007,attempt=1:fail=1` and the simulated kubelets obey. The module is pure: a
rule set is asked with a `Step` (which container of which pod, for the how manieth time) and answers with an `Outcome`. The pod machine
(`kubelets.pod_run`) turns outcomes into container states.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What happens to the container, or to its whole pod."""

    SUCCEED = "succeed"
    """Exit code 0 after `seconds`."""
    FAIL = "fail"
    """Exit code `exit_code`, reason Error, after `seconds`."""
    HANG = "hang"
    """Runs until it is killed."""
    OOM = "oom"
    """Exit code 137, reason OOMKilled, after `seconds`."""
    STATUS_UNKNOWN = "status_unknown"
    """Exit code 137, reason ContainerStatusUnknown: the runtime lost the container."""
    EVICT = "evict"
    """The kubelet evicts the pod: phase Failed, reason Evicted, condition DisruptionTarget."""
    REBOOT = "reboot"
    """The node goes down after `seconds` and comes back with a new boot ID."""
    PULL_FAILURE = "pull_failure"
    """The image cannot be pulled until `seconds` after the pod's acknowledgement; without `seconds`, for ever."""
    CONFIG_ERROR = "config_error"
    """Waits with CreateContainerConfigError, for as long as the rule matches."""
    REFUSE_ADMISSION = "refuse_admission"
    """The kubelet refuses the pod: phase Failed with `reason` (default OutOfcpu) and no container statuses."""
    NEVER_ACK = "never_ack"
    """The kubelet never acknowledges the pod: no status at all."""


POD_KINDS = frozenset({Kind.REFUSE_ADMISSION, Kind.NEVER_ACK})
FIRST_CONTAINER_KINDS = frozenset({Kind.PULL_FAILURE, Kind.CONFIG_ERROR})
MATCH_KEYS = ("cr", "package", "version", "stage", "node", "job", "pod", "container", "attempt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One container start (or, with an empty `container`, the admission of one pod), as the rules see it.

    `attempt` counts from 1: an attempt is a pod of the Job of that name, or a restart in place within one.
    `work` says that this is the container a rule without `container` speaks of; `first` that it is the pod's first.
    """

    node: str
    pod: str
    job: str = ""
    cr: str = ""
    package: str = ""
    version: str = ""
    stage: str = ""
    container: str = ""
    attempt: int = 1
    work: bool = True
    first: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a container does; `seconds` None means the step default of the simulation (for PULL_FAILURE: for ever)."""

    kind: Kind = Kind.SUCCEED
    seconds: float | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    stubborn: bool = False
    """Ignores SIGTERM: is killed with 137 only when the grace period is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """An outcome and whom it concerns. Patterns are exact, or regular expressions (full match) when they begin with `~`.

    Without `container` the rule speaks of the stage's work container (`<package>-<stage>`, `interrupt`; of other pods the first
    one), but `succeed` of every container, pull failures and config errors of the first one. `times` bounds how often the rule
    applies, `probability` is drawn once per (seed, job, container, attempt), so that it does not depend on the order of events.
    """

    outcome: Outcome
    cr: str | None = None
    package: str | None = None
    version: str | None = None
    stage: str | None = None
    node: str | None = None
    job: str | None = None
    pod: str | None = None
    container: str | None = None
    attempts: tuple[int, int | None] = (1, None)
    times: int | None = None
    probability: float = 1.0
    seed: int = 0
    text: str = field(default="", compare=False)
    """As it was written."""

    def matches(self, step: Step) -> bool:
        """Whether the rule concerns this step; `times` is not looked at."""
        first, last = self.attempts
        return (
            first <= step.attempt
            and (last is None or step.attempt <= last)
            and self._speaks_of(step)
            and _fits(self.node, step.node)
            and _fits(self.stage, step.stage)
            and _fits(self.package, step.package)
            and _fits(self.version, step.version)
            and _fits(self.cr, step.cr)
            and _fits(self.job, step.job)
            and _fits(self.pod, step.pod)
            and self._drawn(step)
        )

    def _speaks_of(self, step: Step) -> bool:
        kind = self.outcome.kind
        if kind in POD_KINDS or not step.container:
            return kind in POD_KINDS and not step.container
        if self.container is not None:
            return _fits(self.container, step.container)
        if kind is Kind.SUCCEED:
            return True
        return step.first if kind in FIRST_CONTAINER_KINDS else step.work

    def _drawn(self, step: Step) -> bool:
        if self.probability >= 1.0:
            return True
        text = f"{self.seed}/{step.job or step.pod}/{step.container}/{step.attempt}"
        draw = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64
        return draw < self.probability


@dataclass(slots=True)
class RuleSet:
    """Rules in order, and how often each was applied. Replace `rules` at any time: what starts later obeys the new ones."""

    rules: Sequence[Rule] = ()
    _applied: dict[int, int] = field(default_factory=dict, init=False)

    def replace(self, rules: Iterable[Rule]) -> None:
        """Take other rules from now on; their `times` begin anew."""
        self.rules = tuple(rules)
        self._applied.clear()

    def never_applied(self) -> list[Rule]:
        """The rules that concerned nothing so far."""
        return [rule for index, rule in enumerate(self.rules) if not self._applied.get(index)]

    def decide(self, step: Step) -> Outcome | None:
        """The outcome of the first rule that matches and is not used up, which is thereby applied once; None without one."""
        for index, rule in enumerate(self.rules):
            applied = self._applied.get(index, 0)
            if (rule.times is None or applied < rule.times) and rule.matches(step):
                self._applied[index] = applied + 1
                return rule.outcome
        return None


def parse_rule(text: str) -> Rule:
    """Read `key=pattern,...:outcome[=value][,option=value,...]`.

    Keys: cr, package, version, stage, node, job, pod, container, attempt (`2`, `1-3`, `2+`). The outcome's value is the exit code of
    `fail`, the reason of `refuse_admission`, else the seconds. Options: seconds, times, p, seed, reason, message, stubborn.
    An empty match part (`:fail=1`) is everything. Raises ValueError with one sentence.
    """
    match_text, colon, outcome_text = text.rpartition(":")
    if not colon or not outcome_text:
        raise ValueError(f"rule {text!r} has no outcome: write [key=pattern,...]:outcome[=value][,option=value]")
    patterns: dict[str, str] = {}
    for part in filter(None, re.split(rf",(?=(?:{'|'.join(MATCH_KEYS)})=)", match_text)):
        key, equals, pattern = part.partition("=")
        if not equals or key not in MATCH_KEYS:
            raise ValueError(f"rule {text!r}: {part!r} is not one of {', '.join(MATCH_KEYS)} with =pattern")
        if pattern.startswith("~"):
            try:
                re.compile(pattern[1:])
            except re.error as error:
                raise ValueError(f"rule {text!r}: {pattern[1:]!r} is no regular expression ({error})") from None
        patterns[key] = pattern
    head, *option_parts = outcome_text.split(",")
    options = dict(_option(text, part) for part in option_parts)
    try:
        outcome = _outcome(head, options)
        rule = Rule(
            outcome=outcome,
            attempts=_attempts(patterns.pop("attempt", "1+")),
            times=_whole("times", options.pop("times"), least=1) if "times" in options else None,
            probability=_number("p", options.pop("p", "1"), most=1.0),
            seed=_whole("seed", options.pop("seed", "0"), least=0),
            text=text,
            **patterns,
        )
    except ValueError as error:
        raise ValueError(f"rule {text!r}: {error}") from None
    if options:
        raise ValueError(f"rule {text!r}: unknown option {', '.join(sorted(options))}")
    return rule


def _outcome(head: str, options: dict[str, str]) -> Outcome:
    name, _, value = head.partition("=")
    try:
        kind = Kind(name)
    except ValueError:
        raise ValueError(f"{name!r} is not one of the outcomes {', '.join(Kind)}") from None
    seconds = _number("seconds", options.pop("seconds")) if "seconds" in options else None
    exit_code, reason = 0, options.pop("reason", "")
    match kind:
        case Kind.FAIL:
            exit_code = _whole("the exit code", value or "1", least=1, most=255)
        case Kind.REFUSE_ADMISSION:
            reason = value or reason or "OutOfcpu"
        case _:
            seconds = _number("seconds", value) if value else seconds
    stubborn = options.pop("stubborn", "false").lower() == "true"
    message = options.pop("message", "")
    return Outcome(kind=kind, seconds=seconds, exit_code=exit_code, reason=reason, message=message, stubborn=stubborn)


def _whole(what: str, text: str, *, least: int, most: int | None = None) -> int:
    limits = f"of {least} or more" if most is None else f"from {least} to {most}"
    if not re.fullmatch(r"\d{1,15}", text) or int(text) < least or (most is not None and int(text) > most):
        raise ValueError(f"{what} must be a whole number {limits}, not {text!r}")
    return int(text)


def _number(what: str, text: str, *, most: float = 1e9) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= most:  # nan is not, either
        raise ValueError(f"{what} must be a number from 0 to {most:g}, not {text!r}")
    return number


def _option(text: str, part: str) -> tuple[str, str]:
    key, equals, value = part.partition("=")
    if not equals:
        raise ValueError(f"rule {text!r}: option {part!r} has no value")
    return key, value


def _attempts(text: str) -> tuple[int, int | None]:
    found = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
    if not found:
        raise ValueError(f"attempt {text!r} is not N, N-M or N+")
    first = int(found[1])
    last = None if found[2] else int(found[3]) if found[3] else first
    if first < 1 or (last is not None and last < first):
        raise ValueError(f"attempt {text!r} is none: attempts count from 1, the first one is given first")
    return first, last


def _fits(pattern: str | None, value: str) -> bool:
    if pattern is None:
        return True
    if pattern.startswith("~"):
        return re.fullmatch(pattern[1:], value) is not None
    return pattern == value
