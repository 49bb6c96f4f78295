"""Paths of resources."""

import pytest

from controller_runtime.transport import Resource

JOBS = Resource("batch", "v1", "jobs", "Job", namespaced=True)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)


def test_paths_follow_group_namespace_name_and_subresource() -> None:
    assert NODES.api_version == "v1"
    assert JOBS.api_version == "batch/v1"
    assert NODES.path() == "/api/v1/nodes"
    assert NODES.path("n1", subresource="status") == "/api/v1/nodes/n1/status"
    assert JOBS.path() == "/apis/batch/v1/jobs"
    assert JOBS.path(namespace="ns") == "/apis/batch/v1/namespaces/ns/jobs"
    assert JOBS.path("j", namespace="ns", subresource="status") == "/apis/batch/v1/namespaces/ns/jobs/j/status"


def test_a_name_cannot_leave_its_place_in_the_path() -> None:
    assert NODES.path("a/b?c") == "/api/v1/nodes/a%2Fb%3Fc"
    for name in ("", ".", ".."):
        with pytest.raises(ValueError, match="no name"):
            NODES.path(name)


def test_a_namespace_that_is_missing_or_too_much_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a namespace"):
        JOBS.path("j")
    with pytest.raises(ValueError, match="no namespace"):
        NODES.path("n", namespace="ns")
