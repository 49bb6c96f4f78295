"""Whatever the rules and whenever somebody interferes: what the pod machine never does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from nodewright.simulator.kubelets.timing import Cause, Timing
from nodewright.simulator.ledger import Event
from tests.unit.simulator.pods import Driver, interrupt_pod, package_pod, workload_pod

KINDS = ["succeed=0", "succeed=3", "fail=1", "hang", "hang,stubborn=true", "oom=1", "status_unknown=0", "evict=1"]
WAITS = ["pull_failure=15", "pull_failure", "config_error", "refuse_admission", "never_ack", "reboot=1"]
RULES = st.lists(
    st.builds(
        lambda container, attempt, outcome: f"{container}attempt={attempt}:{outcome}",
        st.sampled_from(["", "container=~.*check,", "container=done,", "container=interrupt,"]),
        st.sampled_from(["1", "2", "1+", "3+"]),
        st.sampled_from(KINDS + WAITS),
    ),
    max_size=4,
)
ACTS = st.lists(
    st.tuples(st.floats(0, 40), st.sampled_from(["delete", "delete now", "power loss", "volumes"])),
    max_size=4,
)
PODS = st.sampled_from([package_pod(), package_pod(activeDeadlineSeconds=20), interrupt_pod(), workload_pod()])


@settings(max_examples=300, deadline=None)
@given(pod=PODS, rules=RULES, acts=ACTS, speed=st.sampled_from([1.0, 50.0]), held=st.booleans())
def test_containers_run_one_after_another_and_each_start_ends_once(pod, rules, acts, speed, held) -> None:  # type: ignore[no-untyped-def]
    driver = Driver(pod, *rules, timing=Timing(speed=speed), held=held)
    for wait, act in acts:
        driver.go(wait)
        match act:
            case "delete":
                driver.run.stop(driver.now, Cause.DELETED, grace=30)
            case "delete now":
                driver.run.stop(driver.now, Cause.DELETED, grace=0)
            case "power loss":
                driver.run.lose_containers(driver.now)
            case "volumes":
                driver.run.volumes_missing = False
    driver.go(100)
    driver.run.stop(driver.now, Cause.DELETED, grace=30)
    driver.go(31)
    assert driver.run.ended or driver.run.never_acknowledged
    assert driver.phase in ("Succeeded", "Failed") or driver.run.never_acknowledged
    _check_order(driver)
    written = [patch["status"].get("phase") for patch in driver.patches if patch["status"].get("phase")]
    assert all(phase not in ("Succeeded", "Failed") for phase in written[:-1]), "a terminal phase is the last"


def _check_order(driver: Driver) -> None:
    running: set[str] = set()
    inits = [run.spec.name for run in driver.run.inits]
    last_end: dict[str, str] = {}
    for event, name, _, outcome in driver.records:
        if event is Event.START:
            assert not running, "one container at a time in these pods"
            before = inits[: inits.index(name)] if name in inits else inits
            assert all(last_end.get(other) == "succeeded" for other in before), f"{name} began before its time"
            running.add(name)
        elif event is Event.END:
            running.remove(name)
            last_end[name] = outcome
    assert not running, "what started has ended"
