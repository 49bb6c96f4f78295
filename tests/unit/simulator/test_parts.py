"""Timers, the ledger and node bodies."""

import asyncio
import json
from pathlib import Path

from nodewright.simulator.kubelets.node_body import NodeTemplate, address_of, heartbeat, registration, status_patch
from nodewright.simulator.kubelets.pod_view import asks_for_reboot, labels_of
from nodewright.simulator.kubelets.timers import Timers
from nodewright.simulator.ledger import Entry, Event, Ledger, read_ledger
from tests.unit.simulator.pods import REBOOT_ARGS, package_pod, pod, workload_pod


async def test_timers_fire_in_order_once_and_a_new_time_replaces_the_old() -> None:
    fired: list[str] = []
    timers = Timers(fired.append)
    now = asyncio.get_running_loop().time()
    for key, after in (("late", 0.06), ("early", 0.02), ("moved", 0.01), ("dropped", 0.01), ("sooner", 9.0)):
        timers.set(key, now + after)
    timers.set("moved", now + 0.04)
    timers.set("sooner", now + 0.03)
    timers.drop("dropped")
    await asyncio.sleep(0.15)
    assert fired == ["early", "sooner", "moved", "late"]


async def test_a_timer_set_while_firing_fires_too_and_closed_timers_are_silent() -> None:
    fired: list[str] = []

    def fire(key: str) -> None:
        fired.append(key)
        if len(fired) < 3:
            timers.set(key, asyncio.get_running_loop().time())

    timers = Timers(fire)
    timers.set("again", asyncio.get_running_loop().time())
    await asyncio.sleep(0.05)
    assert fired == ["again"] * 3
    timers.set("never", asyncio.get_running_loop().time() + 0.01)
    timers.close()
    await asyncio.sleep(0.03)
    assert fired == ["again"] * 3


def test_a_ledger_file_holds_what_the_ledger_holds_but_for_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with Ledger(path) as ledger:
        ledger.record(Entry(time=1.5, event=Event.START, node="n", container="c", attempt=1))
        ledger.record(Entry(time=2.5, event=Event.END, node="n", container="c", attempt=1, outcome="succeeded"))
    with path.open("ab") as file:
        file.write(b'{"time": 3')
    assert read_ledger(path) == ledger.entries
    with Ledger(path):  # a second process appends
        pass
    assert len(read_ledger(path)) == 2


def test_a_registration_carries_what_the_template_says() -> None:
    template = NodeTemplate(labels={"pool": "x"}, taints=[{"key": "k", "effect": "NoSchedule"}], capacity={"cpu": "2"})
    body = registration("n1", template, boot_id="b", address=address_of(0), now=0.0)
    assert body["metadata"]["labels"] == {
        "kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "pool": "x",
    }  # fmt: skip
    assert body["spec"]["taints"] == [{"key": "k", "effect": "NoSchedule"}]
    assert body["status"]["nodeInfo"]["bootID"] == "b"
    assert body["status"]["allocatable"] == {"cpu": "2"}


def test_a_heartbeat_changes_times_only_and_a_boot_the_boot_id() -> None:
    conditions = json.loads(heartbeat(0.0))["status"]["conditions"]
    assert {key for one in conditions for key in one} == {"type", "lastHeartbeatTime"}
    boot = json.loads(status_patch("False", ("a", "b"), now=0.0, boot_id="new"))["status"]
    assert boot["nodeInfo"] == {"bootID": "new"}
    assert boot["conditions"][0]["lastTransitionTime"] == "1970-01-01T00:00:00Z"


def test_addresses_do_not_repeat() -> None:
    assert len({address_of(number) for number in range(100_000)}) == 100_000


def test_a_stage_pod_says_what_it_is_and_other_pods_say_nothing() -> None:
    labels = labels_of(package_pod())
    assert (labels.package, labels.version, labels.stage, labels.run, labels.job) == (
        "drivers",
        "1.0",
        "apply",
        "r1",
        "job-1",
    )
    assert labels_of(workload_pod()).package == ""
    broken = pod({"containers": [{"name": "c"}]}, job="j")
    broken.metadata.annotations["nodewright.nvidia.com/package"] = "[not json"
    assert labels_of(broken).package == ""


def test_only_a_node_restart_asks_for_a_reboot() -> None:
    assert asks_for_reboot(tuple(REBOOT_ARGS))
    assert not asks_for_reboot(())
    assert not asks_for_reboot(("interrupt", "no base64!"))
    assert not asks_for_reboot((*REBOOT_ARGS[:-1], "eyJ0eXBlIjogIm5vX29wIn0="))
