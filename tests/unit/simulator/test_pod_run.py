"""The pod machine: what a kubelet reports of a pod, over time, by rule."""

import itertools
import math
from typing import Any

import msgspec
import pytest

from nodewright.simulator.kubelets.pod_view import LivePod
from nodewright.simulator.kubelets.timing import Cause, Timing
from nodewright.simulator.ledger import Event
from tests.unit.simulator.pods import Driver, interrupt_pod, package_pod, workload_pod


def exit_codes(driver: Driver) -> list[int | None]:
    both = driver.status["initContainerStatuses"] + driver.status["containerStatuses"]
    return [one["state"].get("terminated", {}).get("exitCode") for one in both]


def test_a_stage_pod_runs_its_containers_in_order_and_succeeds() -> None:
    driver = Driver(package_pod())
    assert driver.phase == "Pending"
    assert driver.state("drivers-init") == {"waiting": {"reason": "PodInitializing"}}
    driver.go(0.7)
    assert driver.phase == "Pending"
    assert exit_codes(driver) == [0, 0, 0, None]
    assert driver.condition("Initialized") == ("True", "")
    driver.go(0.2)
    assert driver.phase == "Succeeded"
    assert driver.run.ended
    assert driver.condition("Ready") == ("False", "PodCompleted")
    started = [name for event, name, _, _ in driver.records if event is Event.START]
    assert started == ["drivers-init", "drivers-apply", "drivers-applycheck", "done"]


def test_addresses_replace_those_an_earlier_node_of_that_name_wrote() -> None:
    """The API server merges these lists by address, and refuses a pod with two of one family."""
    driver = Driver(package_pod())
    driver.go(5)
    written = [
        patch["status"][key] for patch in driver.patches for key in ("hostIPs", "podIPs") if key in patch["status"]
    ]
    assert written
    assert all(one == [{"$patch": "replace"}, {"ip": "10.0.0.1"}] for one in written)


def test_containers_that_end_before_the_kubelet_looks_cost_one_patch_each() -> None:
    driver = Driver(package_pod())
    driver.go(5)
    assert len(driver.patches) == 5  # acknowledged, then one for each container's end
    assert all(
        "running" not in one["state"]
        for patch in driver.patches
        for one in patch["status"].get("initContainerStatuses", [])
    )


def test_a_container_that_goes_on_is_seen_running_after_a_look() -> None:
    driver = Driver(package_pod(), "container=drivers-apply:succeed=30")
    driver.go(1.1)
    assert "waiting" in driver.state("drivers-apply")
    driver.go(0.2)
    assert "running" in driver.state("drivers-apply")
    assert len(driver.patches) == 3


def test_a_failed_step_fails_the_pod_and_starts_nothing_more() -> None:
    driver = Driver(package_pod(), "attempt=1:fail=3")
    driver.go(5)
    assert driver.phase == "Failed"
    assert exit_codes(driver) == [0, 3, None, None]
    assert driver.state("drivers-apply")["terminated"]["reason"] == "Error"
    assert driver.condition("Ready") == ("False", "PodFailed")
    assert (Event.END, "drivers-apply", 1, "failed:3") in driver.records
    assert driver.records[-1][1] == "drivers-apply"


def test_a_condition_that_loses_its_message_says_so() -> None:
    """Strategic merge keeps what a patch does not name."""
    driver = Driver(package_pod(), ":fail")
    driver.go(5)
    ready = next(one for one in driver.status["conditions"] if one["type"] == "Ready")
    assert "message" not in ready


def test_a_later_pod_of_the_job_is_a_later_attempt() -> None:
    driver = Driver(package_pod(), "attempt=1:fail", earlier_attempts=1)
    driver.go(5)
    assert driver.phase == "Succeeded"


def test_restarts_in_place_back_off_ten_then_twenty_seconds() -> None:
    driver = Driver(interrupt_pod(), "attempt=1-3:fail=1")
    driver.go(40)
    starts = [at for name, at in driver.starts if name == "interrupt"]
    assert [round(late - early) for early, late in itertools.pairwise(starts)] == [0, 10, 20]
    assert driver.phase == "Succeeded"
    assert driver.status["initContainerStatuses"][0]["restartCount"] == 3
    assert driver.status["initContainerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


def test_a_waiting_restart_is_reported_as_crash_loop() -> None:
    driver = Driver(interrupt_pod(), ":fail")
    driver.go(2)
    waiting = driver.state("interrupt")["waiting"]
    assert waiting["reason"] == "CrashLoopBackOff"
    assert waiting["message"].startswith("back-off 10s restarting failed container=interrupt")
    assert driver.phase == "Pending"


def test_speed_divides_the_back_off() -> None:
    driver = Driver(interrupt_pod(), "attempt=1-3:fail=1", timing=Timing(speed=100))
    driver.go(2)
    assert driver.phase == "Succeeded"


def test_the_deadline_fails_the_pod_and_kills_what_runs() -> None:
    """JOB-1, JOB-5: the stage timeout of a package stage is enforced by the kubelet only."""
    driver = Driver(package_pod(activeDeadlineSeconds=5), "stage=apply:hang")
    driver.go(4.9)
    assert driver.phase == "Pending"
    driver.go(0.3)
    assert (driver.phase, driver.status["reason"]) == ("Failed", "DeadlineExceeded")
    assert driver.state("drivers-apply")["terminated"]["exitCode"] == 143
    assert driver.records[-1][3] == "killed:deadline"


@pytest.mark.parametrize(("rule", "seconds", "code"), [(":hang", 0.1, 143), (":hang,stubborn=true", 30, 137)])
def test_deletion_waits_for_the_container_or_the_grace(rule: str, seconds: float, code: int) -> None:
    driver = Driver(package_pod(), rule)
    driver.go(2)
    driver.run.stop(driver.now, Cause.DELETED, grace=30)
    driver.go(seconds - 0.05)
    assert not driver.run.ended
    driver.go(0.1)
    assert driver.run.ended
    assert driver.state("drivers-apply")["terminated"]["exitCode"] == code
    assert driver.phase == "Failed"


def test_a_shorter_grace_counts_and_a_longer_one_does_not() -> None:
    driver = Driver(package_pod(), ":hang,stubborn=true")
    driver.go(2)
    driver.run.stop(driver.now, Cause.DELETED, grace=30)
    driver.run.stop(driver.now, Cause.DELETED, grace=1)
    driver.run.stop(driver.now, Cause.DELETED, grace=300)
    driver.go(1.1)
    assert driver.run.ended


def test_a_refused_pod_has_no_container_statuses() -> None:
    """JOB-5: such a pod is no evidence."""
    driver = Driver(package_pod(), ":refuse_admission=UnexpectedAdmissionError")
    assert (driver.phase, driver.status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert "startTime" in driver.status
    assert "initContainerStatuses" not in driver.status
    assert driver.records == [(Event.REFUSED, "", 0, "UnexpectedAdmissionError")]


def test_a_pod_that_is_never_acknowledged_gets_no_status_and_is_never_stopped() -> None:
    """JOB-15."""
    driver = Driver(package_pod(), ":never_ack")
    driver.run.stop(driver.now, Cause.DELETED, grace=0)
    driver.go(100)
    assert (driver.status, driver.run.ended, driver.run.wake_at) == ({}, False, math.inf)


def test_an_image_that_cannot_be_pulled_alternates_and_appears_later() -> None:
    """JOB-14."""
    driver = Driver(package_pod(), ":pull_failure=25")
    reasons: list[str] = []
    for _ in range(60):
        driver.go(0.5)
        reason = driver.state("drivers-init").get("waiting", {}).get("reason", "pulled")
        if reasons[-1:] != [reason]:
            reasons.append(reason)
    assert reasons == ["ErrImagePull", "ImagePullBackOff", "ErrImagePull", "ImagePullBackOff"]
    driver.go(5)
    assert driver.phase == "Succeeded"
    assert len([one for one in driver.records if one[0] is Event.START]) == 4


def test_a_missing_volume_holds_all_containers_until_it_is_there() -> None:
    """JOB-15a."""
    held = Driver(package_pod(), held=True)
    held.go(50)
    assert held.phase == "Pending"
    assert held.records == []
    held.run.volumes_missing = False
    held.go(5)
    assert held.phase == "Succeeded"


def test_a_config_error_lasts_as_long_as_its_rule() -> None:
    driver = Driver(package_pod(), ":config_error")
    driver.go(30)
    assert driver.state("drivers-init")["waiting"]["reason"] == "CreateContainerConfigError"
    assert len(driver.patches) == 1
    driver.rules.replace([])
    driver.go(5)
    assert driver.phase == "Succeeded"


def test_an_evicted_pod_carries_the_disruption_target() -> None:
    """JOB-5."""
    driver = Driver(package_pod(), "attempt=1:evict=1")
    driver.go(3)
    assert (driver.phase, driver.status["reason"]) == ("Failed", "Evicted")
    assert driver.condition("DisruptionTarget") == ("True", "TerminationByKubelet")
    assert driver.state("drivers-apply")["terminated"]["exitCode"] == 137


@pytest.mark.parametrize(("rule", "reason"), [(":oom=1", "OOMKilled"), (":status_unknown=1", "ContainerStatusUnknown")])
def test_other_ends_have_their_reason(rule: str, reason: str) -> None:
    driver = Driver(package_pod(), rule)
    driver.go(3)
    terminated = driver.state("drivers-apply")["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (137, reason)


def test_a_reboot_fails_a_package_pod_for_an_unknown_reason() -> None:
    driver = Driver(package_pod(), ":hang")
    driver.go(2)
    driver.run.lose_containers(driver.now)
    driver.go(5)
    terminated = driver.state("drivers-apply")["terminated"]
    assert (driver.phase, terminated["exitCode"], terminated["reason"]) == ("Failed", 255, "Unknown")
    assert driver.records[-1] == (Event.END, "drivers-apply", 1, "lost")


def test_a_reboot_interrupt_asks_for_a_reboot_once_and_succeeds_after_it() -> None:
    """RTR-6, CON-19: the interrupt container of `node_restart` takes its node down and runs again on the next boot."""
    driver = Driver(interrupt_pod())
    driver.go(1)
    assert driver.run.reboot_wanted
    driver.run.reboot_wanted = False
    driver.run.lose_containers(driver.now)
    driver.go(5)
    assert driver.phase == "Succeeded"
    assert not driver.run.reboot_wanted
    assert [record for record in driver.records if record[1] == "interrupt"] == [
        (Event.START, "interrupt", 1, ""),
        (Event.END, "interrupt", 1, "lost"),
        (Event.START, "interrupt", 2, ""),
        (Event.END, "interrupt", 2, "succeeded"),
    ]


def test_a_workload_becomes_ready_and_runs_until_it_is_stopped() -> None:
    driver = Driver(workload_pod())
    driver.go(100)
    assert (driver.phase, driver.condition("Ready")) == ("Running", ("True", ""))
    assert len(driver.patches) == 2
    driver.run.stop(driver.now, Cause.DELETED, grace=30)
    driver.go(1)
    assert driver.run.ended
    assert driver.condition("Ready")[0] == "False"


def test_a_lost_patch_is_said_again_in_full() -> None:
    driver = Driver(package_pod())
    driver.go(0.3)
    driver.report.forget()
    driver.flush()
    assert set(driver.patches[-1]["status"]) >= {"phase", "startTime", "initContainerStatuses", "containerStatuses"}


def test_a_restarted_kubelet_goes_on_and_starts_nothing_twice() -> None:
    first = Driver(package_pod(), "container=drivers-apply:succeed=30")
    first.go(2)
    second = resumed(first.status)
    second.go(5)
    assert second.phase == "Succeeded"
    assert [name for event, name, _, _ in second.records if event is Event.START] == ["drivers-applycheck", "done"]


def resumed(status: dict[str, Any]) -> Driver:
    live = msgspec.convert({"metadata": {"name": "pod-1", "uid": "uid-1"}, "status": status}, type=LivePod)

    class Resumed(Driver):
        def touch(self) -> None:
            if self.run.acknowledged_at is None:
                self.run.resume(live, now=self.now, acknowledged_at=self.now - 2)
            super().touch()

    return Resumed(package_pod())
