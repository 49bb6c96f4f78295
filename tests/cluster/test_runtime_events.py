"""What a real API server says to the recorder's events."""

import json
import uuid

import pytest

from controller_runtime.events import EventRecorder, ObjectReference
from controller_runtime.testing.control_plane import Cluster
from controller_runtime.transport import Client, load_config


class Counts:
    """Counts what was written, and notes what was not."""

    def __init__(self) -> None:
        self.written_count = 0
        self.drops: list[str] = []

    def written(self) -> None:
        self.written_count += 1

    def dropped(self, *, reason: str) -> None:
        self.drops.append(reason)


@pytest.mark.needs("kubectl")
@pytest.mark.parametrize("namespace", ["", "kube-system"])
async def test_the_api_server_takes_events_and_their_series(cluster: Cluster, namespace: str) -> None:
    """OBS-6, trap 46: longest note, a series by PATCH, and a series that begins anew."""
    name = f"node-{uuid.uuid4().hex[:8]}"
    counts = Counts()
    config = await load_config(cluster.admin_kubeconfig)
    about = ObjectReference(
        api_version="v1", kind="Pod" if namespace else "Node", name=name, namespace=namespace, uid="u"
    )
    async with Client(config, user_agent="test") as client:
        recorder = EventRecorder(client, "nodewright.nvidia.com/operator", "pod-1", metrics=counts)

        async def say_twice() -> None:
            for note in ("漢" * 1000, "again"):
                recorder.event(about, type="Warning", reason="Interrupt", action="Reboot", note=note, related=about)

        await say_twice()
        await recorder.flush(10)  # one POST that begins as a series of two
        await say_twice()
        await recorder.flush(10)  # one PATCH
        where = namespace or "default"
        listed = cluster.kubectl("get", "events.v1.events.k8s.io", "-n", where, "-o", "json")
        (event,) = [it for it in json.loads(listed)["items"] if it["regarding"].get("name") == name]
        assert event["series"]["count"] == 4
        cluster.kubectl("delete", "event", "-n", where, event["metadata"]["name"])
        await say_twice()
        await recorder.flush(10)
    assert counts.drops == []
    assert counts.written_count == 3
    listed = cluster.kubectl("get", "events.v1.events.k8s.io", "-n", where, "-o", "json")
    (event,) = [it for it in json.loads(listed)["items"] if it["regarding"].get("name") == name]
    assert event["series"]["count"] == 6
    assert len(event["note"].encode()) > 1000
