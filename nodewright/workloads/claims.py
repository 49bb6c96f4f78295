"""Whom an object in the operator's namespace belongs to: owner reference, and a Job's or pod's claim (CON-13, CON-14).

A name alone proves nothing: a Job speaks for an entry only if its owner, its labels and its run say so (LIF-12a,
JOB-9). Labels and annotations are read here and nowhere else. Pure; the bodies of this package and the engine's
evidence rely on it.
"""

from typing import Any

import msgspec

from nodewright.api import keys
from nodewright.model.node_state import Stage
from nodewright.model.objects import Job, ObjectMeta, Pod, owner_uid
from nodewright.model.snapshot import CR


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """For what a Job, or a pod of one, speaks. Texts that are absent are empty.

    `package` and `node` are label values: `<package>-<version>` and the node's name, or their safe forms (compare with
    `package_label` and `node_label`). `owner_uid` is the CR's for a Job and the Job's for a pod. `unproven` counts
    failures in a row that were not the package's fault (JOB-6); `marked`: node state has the outcome (JOB-3).
    """

    cr: str
    package: str
    stage: Stage
    node: str
    run: str
    node_uid: str
    owner_uid: str
    unproven: int
    interrupt: bool
    marked: bool


def package_label(package: str, version: str) -> str:
    """The value of the label `…/package` (CON-14)."""
    return keys.label_value(package, version)


def node_label(node: str) -> str:
    """The value of the label `…/node` (CON-14)."""
    return keys.label_value(node)


def claim_of(claimant: Job | Pod) -> Claim | None:
    """The claim, or None for an object that carries none: foreign, or its labels were taken away."""
    meta: ObjectMeta = claimant.metadata
    labels, annotations = meta.labels, meta.annotations
    cr, node, package = labels.get(keys.LABEL_NAME), labels.get(keys.LABEL_NODE), labels.get(keys.LABEL_PACKAGE)
    stage = _STAGES.get(labels.get(keys.LABEL_STAGE, ""))
    if not cr or not node or not package or stage is None:
        return None
    return Claim(
        cr=cr,
        package=package,
        stage=stage,
        node=node,
        run=annotations.get(keys.RUN, ""),
        node_uid=annotations.get(keys.NODE_UID, ""),
        owner_uid=owner_uid(meta),
        unproven=_count(annotations.get(keys.UNPROVEN_FAILURES)),
        interrupt=labels.get(keys.LABEL_INTERRUPT) == "True",
        marked=annotations.get(keys.STATE_RECORDED) == "true",
    )


def is_own(job: Job, cr: CR) -> bool:
    """Whether the Job is this very CR's: owned by its UID and labelled with its name; one of an older CR of that name is not (CHG-13)."""
    return owner_uid(job.metadata) == cr.meta.uid and job.metadata.labels.get(keys.LABEL_NAME) == keys.label_value(
        cr.name
    )


def owner_reference(cr: CR) -> dict[str, Any]:
    """The reference on everything that is created for the CR.

    Without `blockOwnerDeletion`: a foreground deletion of the CR must not take what its uninstall needs (JOB-1).
    """
    return {
        "apiVersion": keys.API_VERSION,
        "kind": keys.NODEWRIGHT_KIND,
        "name": cr.name,
        "uid": cr.meta.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


_STAGES = {stage.value: stage for stage in Stage}
_MAX_COUNT_DIGITS = 9


def _count(text: str | None) -> int:
    return int(text) if text and len(text) <= _MAX_COUNT_DIGITS and text.isascii() and text.isdigit() else 0
