"""What a pass sees, and that it keeps its identity while it says the same."""

from typing import Any

import msgspec

from nodewright.model.objects import DeploymentPolicyObject, NodeWrightObject
from nodewright.operator import resources
from nodewright.operator.informers import Stores
from nodewright.operator.published import PublishedStatus
from nodewright.operator.snapshots import Catalog, Snapshots
from tests.unit.operator.benchtop import Bench, job_body, make_stores

PACKAGES = {"pkg": {"version": "1.0.0", "image": "i"}}


class Cluster:
    """Stores that a test changes as a watch would."""

    def __init__(self) -> None:
        self.stores: Stores = make_stores()
        self.catalog = Catalog(self.stores)
        self._version = 0

    def nodewright(self, name: str = "cr", *, spec: Any = None, status: Any = None, **meta: Any) -> NodeWrightObject:
        self._version += 1
        meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self._version), **meta}
        body = {"metadata": meta, "spec": {"packages": PACKAGES} if spec is None else spec, "status": status or {}}
        return self.stores.nodewrights.observe(msgspec.json.encode(body))

    def policy(self, name: str, *, spec: Any) -> DeploymentPolicyObject:
        self._version += 1
        meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self._version)}
        return self.stores.policies.observe(msgspec.json.encode({"metadata": meta, "spec": spec}))


def test_the_parsed_spec_is_the_same_object_until_the_spec_changes() -> None:
    # the engine memoises on it
    cluster = Cluster()
    cluster.nodewright()
    first = cluster.catalog.cr("cr")
    assert first is not None
    assert cluster.catalog.cr("cr") is first
    cluster.nodewright(status={"status": "complete"})
    second = cluster.catalog.cr("cr")
    assert second is not None
    assert second is not first
    assert second.spec is first.spec
    assert second.published["status"] == "complete"
    cluster.nodewright(generation=2, annotations={"a": "b"}, deletionTimestamp="2026-01-01T00:00:00Z")
    third = cluster.catalog.cr("cr")
    assert third is not None
    assert third.spec is first.spec
    cluster.nodewright(spec={"packages": PACKAGES, "priority": 5}, generation=3)
    fourth = cluster.catalog.cr("cr")
    assert fourth is not None
    assert fourth.spec is not first.spec


def test_a_cr_recreated_under_its_name_is_parsed_anew() -> None:
    # CHG-13
    cluster = Cluster()
    cluster.nodewright()
    first = cluster.catalog.cr("cr")
    cluster.nodewright(uid="another")
    second = cluster.catalog.cr("cr")
    assert first is not None
    assert second is not None
    assert (second.meta.uid, second.spec is first.spec) == ("another", False)


def test_a_spec_whose_shape_cannot_be_read_is_none_with_the_faults_and_hides_no_other_cr() -> None:
    # LIF-4
    cluster = Cluster()
    cluster.nodewright("bad", spec={"nodeSelectors": "everything", "packages": PACKAGES})
    cluster.nodewright("good")
    bad, good = cluster.catalog.crs()
    assert bad.spec is None
    assert [fault.path for fault in bad.faults] == ["spec.nodeSelectors"]
    assert good.spec is not None
    assert good.faults == ()


def test_what_admission_would_reject_is_kept_as_faults_beside_the_spec() -> None:
    cluster = Cluster()
    cluster.nodewright(spec={"packages": {"p": {"version": "v1", "image": "i"}}})
    cr = cluster.catalog.cr("cr")
    assert cr is not None
    assert cr.spec is not None
    assert cr.faults


def test_a_cr_that_went_is_not_listed() -> None:
    cluster = Cluster()
    cluster.nodewright()
    assert [cr.name for cr in cluster.catalog.crs()] == ["cr"]
    cluster.stores.nodewrights.observe_deleted("cr", "uid-cr")
    assert cluster.catalog.crs() == []
    assert cluster.catalog.cr("cr") is None


def test_a_policy_keeps_its_identity_until_its_spec_changes_and_a_misshapen_one_has_no_spec() -> None:
    cluster = Cluster()
    cluster.policy("p", spec={"default": {"budget": {"count": 1}}})
    cluster.policy("bad", spec={"default": 3})
    first = cluster.catalog.policies()
    assert first["bad"].spec is None
    assert cluster.catalog.policies()["p"] is first["p"]
    cluster.policy("p", spec={"default": {"budget": {"count": 2}}})
    assert cluster.catalog.policies()["p"] is not first["p"]


async def test_a_snapshot_gives_jobs_by_cr_and_node_as_the_same_tuple_until_one_changes(bench: Bench) -> None:
    cr = bench.add_cr()
    bench.add_job("j1")
    bench.add_job("j2", node="n2")
    snapshot = Snapshots(bench.stores, bench.catalog).of(cr, busy={}, refused={}, unproven={}, given={3: 7})
    assert snapshot.given == {3: 7}
    on_n1 = snapshot.jobs_on("cr", "n1")
    assert [job.metadata.name for job in on_n1] == ["j1"]
    assert len(snapshot.jobs_of("cr")) == 2
    bench.add_job("j3", node="n2")
    assert snapshot.jobs_on("cr", "n1") is on_n1
    assert snapshot.jobs_on("cr", "n3") == ()


async def test_a_job_without_our_labels_is_in_no_index(bench: Bench) -> None:
    bench.api.put(resources.JOB, {**job_body("j1"), "metadata": {"name": "j1"}})
    bench.stores.jobs.observe(bench.api.raw(resources.JOB, "j1"))
    assert bench.stores.jobs.by_index("cr", "cr") == ()


def test_a_status_is_decoded_where_it_is_read_and_no_object_reads_as_empty() -> None:
    status = PublishedStatus(msgspec.Raw(b'{"rollout":3,"conditions":[{"type":"Ready"}]}'))
    assert status["rollout"] == 3
    assert status.get("nodeStatus") is None
    assert dict(status) == {"rollout": 3, "conditions": [{"type": "Ready"}]}
    for raw in (b"[]", b"3", b"null", b'"x"'):
        assert dict(PublishedStatus(msgspec.Raw(raw))) == {}
