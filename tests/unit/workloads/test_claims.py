"""Whom a Job or pod speaks for (CON-13, CON-14, LIF-12a, JOB-9)."""

import msgspec
import pytest

from nodewright.api import keys
from nodewright.model.node_state import Entry, Stage
from nodewright.model.objects import Job, Node, ObjectMeta, OwnerReference, Pod
from nodewright.model.snapshot import CR, PlanSettings
from nodewright.workloads.claims import claim_of, is_own, node_label, package_label
from nodewright.workloads.jobs import stage_job
from tests.unit.workloads.conftest import MakeCR


@pytest.fixture
def cr(make_cr: MakeCR) -> CR:
    return make_cr()


@pytest.fixture
def job(cr: CR, entry: Entry, node: Node, settings: PlanSettings) -> Job:
    """The Job as the watch shows it after the body was created."""
    assert cr.spec is not None
    body = stage_job(
        cr=cr, package_name="tuning", package=cr.spec.packages["tuning"], entry=entry, node=node, order=0,
        settings=settings, unproven=2,
    )  # fmt: skip
    return msgspec.json.decode(msgspec.json.encode(body), type=Job)


def test_a_created_job_claims_what_it_was_created_for(job: Job, cr: CR) -> None:
    claim = claim_of(job)
    assert claim is not None
    assert (claim.cr, claim.package, claim.stage, claim.node) == (
        "gpu-tuning", package_label("tuning", "1.2.3"), Stage.APPLY, node_label("gpu-node-1"),
    )  # fmt: skip
    assert (claim.run, claim.node_uid, claim.owner_uid, claim.unproven) == ("run-1", "node-uid", "cr-uid", 2)
    assert (claim.interrupt, claim.marked) == (False, False)
    assert is_own(job, cr)


def test_its_pod_claims_the_same_stage_and_run(job: Job) -> None:
    meta = ObjectMeta(labels=job.metadata.labels, annotations={keys.RUN: "run-1"})
    claim = claim_of(Pod(metadata=meta))
    assert claim is not None
    assert (claim.stage, claim.run, claim.node) == (Stage.APPLY, "run-1", "gpu-node-1")


def test_a_job_of_an_older_cr_of_the_same_name_is_not_own(job: Job, cr: CR) -> None:
    """CHG-13."""
    reborn = CR(meta=msgspec.structs.replace(cr.meta, uid="another"), spec=cr.spec)
    assert not is_own(job, reborn)


def test_an_owner_that_does_not_control_proves_nothing(job: Job, cr: CR) -> None:
    owners = (OwnerReference(kind="NodeWright", name=cr.name, uid="cr-uid"),)
    assert not is_own(Job(metadata=msgspec.structs.replace(job.metadata, owner_references=owners)), cr)


@pytest.mark.parametrize("label", [keys.LABEL_NAME, keys.LABEL_NODE, keys.LABEL_PACKAGE, keys.LABEL_STAGE])
def test_a_job_that_lost_a_label_claims_nothing(job: Job, label: str) -> None:
    labels = {key: value for key, value in job.metadata.labels.items() if key != label}
    assert claim_of(Job(metadata=msgspec.structs.replace(job.metadata, labels=labels))) is None


def test_an_unknown_stage_claims_nothing(job: Job) -> None:
    labels = job.metadata.labels | {keys.LABEL_STAGE: "dance"}
    assert claim_of(Job(metadata=msgspec.structs.replace(job.metadata, labels=labels))) is None


@pytest.mark.parametrize("text", ["", "-1", "1.5", "²", "many", "9" * 5000])
def test_a_count_somebody_scribbled_on_reads_as_none(job: Job, text: str) -> None:
    annotations = job.metadata.annotations | {keys.UNPROVEN_FAILURES: text}
    claim = claim_of(Job(metadata=msgspec.structs.replace(job.metadata, annotations=annotations)))
    assert claim is not None
    assert claim.unproven == 0


def test_marks_and_interrupts_are_read_exactly(job: Job) -> None:
    labels = job.metadata.labels | {keys.LABEL_INTERRUPT: "True", keys.LABEL_STAGE: "interrupt"}
    annotations = job.metadata.annotations | {keys.STATE_RECORDED: "true"}
    claim = claim_of(Job(metadata=msgspec.structs.replace(job.metadata, labels=labels, annotations=annotations)))
    assert claim is not None
    assert (claim.interrupt, claim.marked) == (True, True)
