"""The row of a pod in `kubectl get`: readiness, the one word that says how it is, restarts. `built_in_tables.py` relies on it."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from controller_runtime.testing.api_server.objects.ages import age, parse_time
from controller_runtime.testing.api_server.objects.columns import name_of
from controller_runtime.testing.api_server.objects.values import JsonObject, JsonValue

_NEVER: Final = datetime.min.replace(tzinfo=UTC)
Container = Mapping[str, Any]


def pod_cells(obj: JsonObject, now: datetime) -> list[JsonValue]:
    """The cells in the order of the columns: name, ready, status, restarts, age, IP, node, nominated node, readiness gates."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    created = parse_time(obj.get("metadata", {}).get("creationTimestamp"))
    gates = [each.get("conditionType") for each in spec.get("readinessGates") or ()]
    passed = sum(_holds(status, gate) for gate in gates)
    ready, word, restarts = _state(obj, spec, status, now)
    addresses = [each.get("ip") for each in status.get("podIPs") or ()]
    return [
        name_of(obj),
        f"{ready}/{len(spec.get('containers') or ()) + len(_sidecars(spec))}",
        word,
        restarts,
        age(created, now),
        (addresses[0] if addresses else "") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        f"{passed}/{len(gates)}" if gates else "<none>",
    ]


def _sidecars(spec: JsonObject) -> set[str]:
    return {each["name"] for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"}


def _holds(status: JsonObject, kind: str | None) -> bool:
    conditions = status.get("conditions") or ()
    return next((each.get("status") == "True" for each in conditions if each.get("type") == kind), False)


def _state(obj: JsonObject, spec: JsonObject, status: JsonObject, now: datetime) -> tuple[int, str, str]:
    """How many containers are ready, the status word, and the restarts with the time of the last."""
    sidecars = _sidecars(spec)
    word = status.get("reason") or status.get("phase") or ""
    for each in status.get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated":
            word = "SchedulingGated"
    init, main = status.get("initContainerStatuses") or [], status.get("containerStatuses") or []
    started = [each for each in init if each["name"] in sidecars and each.get("started")]
    stuck, counted = _stuck(init, sidecars, len(spec.get("initContainers") or ()))
    waiting = stuck is not None and not _holds(status, "Initialized")
    seen = init[:counted]
    ready = sum(bool(each.get("ready")) for each in started if each in seen)
    if waiting:
        word, restarted = stuck or word, seen
    else:
        word = _main_word(stuck or word, main, status)
        ready += sum(_is_serving(each) for each in main)
        restarted = [*(each for each in seen if each["name"] in sidecars), *main]
    if obj.get("metadata", {}).get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            word = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            word = "Terminating"
    return ready, word, _restarts(restarted, now)


def _stuck(init: list[Container], sidecars: set[str], total: int) -> tuple[str | None, int]:
    """The word for the init container that holds the pod up, if one does, and how many statuses were looked at."""
    for at, each in enumerate(init):
        state = each.get("state") or {}
        ended, waits = state.get("terminated"), state.get("waiting") or {}
        if ended and ended.get("exitCode", 0) == 0:
            continue
        if each["name"] in sidecars and each.get("started"):
            continue
        if ended:
            return f"Init:{_end(ended)}", at + 1
        if waits.get("reason") and waits["reason"] != "PodInitializing":
            return f"Init:{waits['reason']}", at + 1
        return f"Init:{at}/{total}", at + 1
    return None, len(init)


def _end(ended: Container) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _is_serving(container: Container) -> bool:
    state = container.get("state") or {}
    quiet = not (state.get("waiting") or {}).get("reason") and not state.get("terminated")
    return bool(container.get("ready")) and bool(quiet) and state.get("running") is not None


def _main_word(word: str, main: list[Container], status: JsonObject) -> str:
    failure = ""
    for each in reversed(main):
        state = each.get("state") or {}
        ended = state.get("terminated")
        if (state.get("waiting") or {}).get("reason"):
            word = state["waiting"]["reason"]
        elif ended:
            word = _end(ended)
            if ended.get("exitCode", 0) != 0:
                failure = word
    serving = any(map(_is_serving, main))
    if word != "Completed":
        return word
    if serving and _holds(status, "Ready"):
        return "Running"
    return failure or ("NotReady" if serving else word)


def _ends(containers: list[Container]) -> Iterator[datetime]:
    for each in containers:
        ended = (each.get("lastState") or {}).get("terminated") or {}
        yield parse_time(ended.get("finishedAt")) or _NEVER


def _restarts(containers: list[Container], now: datetime) -> str:
    count = sum(each.get("restartCount", 0) for each in containers)
    last = max(_ends(containers), default=_NEVER)
    return f"{count} ({age(last, now)} ago)" if count and last != _NEVER else str(count)
