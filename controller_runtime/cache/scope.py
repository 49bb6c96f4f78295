"""Which objects an informer's selectors select, told from the object alone.

An own write may take an object out of the scope, or make one that never was in it; the watch would send a DELETED, or
nothing at all. So the store asks before it takes in an answer (trap 37). Fields other than name and namespace are not
known here: of those it says yes.
"""

import re
from collections.abc import Callable, Mapping

from controller_runtime.cache.objects import ObjectMeta

Check = Callable[[ObjectMeta], bool]

_SET = re.compile(r"^(?P<key>\S+)\s+(?P<how>in|notin)\s*\((?P<values>[^)]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^=!\s]+)\s*(?P<how>==|=|!=)\s*(?P<value>[^=!\s]*)$")


def scope(namespace: str | None, label_selector: str | None, field_selector: str | None) -> Check | None:
    """The check for these selectors; None if they select everything.

    Raises:
        ValueError: a selector that the API server would refuse, too.
    """
    checks: list[Check] = []
    if namespace:
        checks.append(lambda metadata: metadata.namespace == namespace)
    for requirement in _split(label_selector or ""):
        checks.append(_label_check(requirement))
    for requirement in _split(field_selector or ""):
        checks.append(_field_check(requirement))
    if not checks:
        return None
    return lambda metadata: all(check(metadata) for check in checks)


def _split(selector: str) -> list[str]:
    """The requirements of a selector; commas within parentheses separate values."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", selector) if part.strip()]


def _label_check(requirement: str) -> Check:
    if match := _SET.match(requirement):
        key, values = match["key"], frozenset(value.strip() for value in match["values"].split(","))
        if match["how"] == "in":
            return lambda metadata: metadata.labels.get(key) in values
        return lambda metadata: metadata.labels.get(key) not in values
    if match := _EQUAL.match(requirement):
        return _equality(match["how"], match["key"], match["value"], lambda metadata: metadata.labels)
    if re.fullmatch(r"!\s*[^\s=!,()]+", requirement):
        absent = requirement[1:].strip()
        return lambda metadata: absent not in metadata.labels
    if re.fullmatch(r"[^\s=!,()]+", requirement):
        return lambda metadata: requirement in metadata.labels
    raise ValueError(f"{requirement!r} is no label selector")


def _field_check(requirement: str) -> Check:
    match = _EQUAL.match(requirement)
    if match is None:
        raise ValueError(f"{requirement!r} is no field selector")
    if match["key"] not in ("metadata.name", "metadata.namespace"):
        return lambda _: True
    return _equality(
        match["how"],
        match["key"],
        match["value"],
        lambda metadata: {"metadata.name": metadata.name, "metadata.namespace": metadata.namespace},
    )


def _equality(how: str, key: str, value: str, fields: Callable[[ObjectMeta], Mapping[str, str]]) -> Check:
    if how == "!=":
        return lambda metadata: fields(metadata).get(key) != value
    return lambda metadata: fields(metadata).get(key) == value
