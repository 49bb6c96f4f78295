"""What a simulation asks of its embedded cluster: counts, since seconds depend on the machine (CLI-13, a thousand nodes in a minute)."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from controller_runtime.testing.api_server import ApiRequest, ApiResponse, ApiServer
from nodewright.cli.main import main
from tests.benchmarks.simulation import JOBS_A_NODE, MANIFEST

NODES = 40


@pytest.fixture(scope="module")
def requests(tmp_path_factory: pytest.TempPathFactory) -> Counter[tuple[str, str, str]]:
    """Requests by agent, method and resource, of one run."""
    manifest: Path = tmp_path_factory.mktemp("cost") / "fleet.yaml"
    manifest.write_text(MANIFEST, encoding="utf-8")
    seen: Counter[tuple[str, str, str]] = Counter()
    handle = ApiServer.handle

    def counted(server: ApiServer, request: ApiRequest) -> ApiResponse:
        parts = request.path.strip("/").split("/")
        plural = (
            parts[parts.index("namespaces") + 2] if "namespaces" in parts else parts[3 if parts[0] == "apis" else 2]
        )
        seen[request.user_agent, request.method, plural] += 1
        return handle(server, request)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ApiServer, "handle", counted)
        patched.setattr("sys.argv", ["nodewright", "simulate", str(manifest), "--nodes", str(NODES)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == 0
    return seen


def of(requests: Counter[tuple[str, str, str]], **wanted: Any) -> int:
    keys = ("agent", "method", "plural")
    chosen = [
        number
        for key, number in requests.items()
        if all(dict(zip(keys, key, strict=True))[name] == value for name, value in wanted.items())
    ]
    return sum(chosen)


def test_a_job_costs_at_most_fourteen_requests(requests: Counter[tuple[str, str, str]]) -> None:
    """Three of its controller's and one for its pod's finalizer, three of the kubelet's, and what the operator writes of it and its node.

    The status is written at a pace of its own, whatever the number of Jobs.
    """
    jobs = NODES * JOBS_A_NODE
    assert jobs * 10 < sum(requests.values()) - of(requests, plural="nodewrights") <= jobs * 14, requests


def test_no_controller_reads_a_nodewright_for_each_of_its_objects(requests: Counter[tuple[str, str, str]]) -> None:
    """Its status is what a thousand nodes say: the garbage collector knows owners by their watch."""
    assert of(requests, agent="controllers", plural="nodewrights") == 0, requests
    assert of(requests, method="GET") <= NODES + 10, requests
