"""Which change concerns which CR (LIF-3): pure functions from changed objects to CR names, and their registration with the controller.

Relied on by the wiring. Whatever is missed here is found at the latest after DEFAULT_INTERVAL; whatever is too much costs a pass
that plans nothing.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Final

from controller_runtime.controller import ChangeView, Controller
from nodewright.api import keys
from nodewright.api.nodewright import Sequencing
from nodewright.model.objects import ConfigMap, ContainerState, DeploymentPolicyObject, Job, Node, NodeWrightObject, Pod
from nodewright.model.snapshot import CR
from nodewright.operator.informers import Stores, by_cr, by_meta_label
from nodewright.operator.snapshots import Catalog

UNHURRIED_SECONDS: Final = 1.0
"""When a pass follows a change that is only progress."""
_READY: Final = "Ready"
_VERDICTS: Final = ("Complete", "Failed", "FailureTarget")
_STARTING: Final = ("", "PodInitializing", "ContainerCreating")


def register(controller: Controller, stores: Stores, catalog: Catalog) -> None:
    """Tell the controller of every change that a pass may depend on. Once per process: stores keep their subscribers."""
    everybody = _everybody(stores)
    controller.watches(stores.nodewrights, _own, predicate=is_status_only, trigger="Status")
    controller.watches(stores.nodewrights, everybody, predicate=is_more_than_status, trigger="NodeWright")
    controller.watches(stores.policies, lambda policy: users_of(policy, catalog.crs()), trigger="DeploymentPolicy")
    controller.watches(
        stores.nodes, lambda node: concerned_by_node(node, catalog.crs()), predicate=node_matters, trigger="Node"
    )
    controller.watches(stores.jobs, by_cr, predicate=job_is_urgent, trigger="Job")
    controller.watches(stores.pods, by_cr, predicate=pod_is_urgent, trigger="Pod")
    stores.jobs.subscribe(lambda change: _soon(controller, change, "Job"))
    stores.pods.subscribe(lambda change: _soon(controller, change, "Pod"))
    controller.watches(stores.configmaps, by_cr, trigger="ConfigMap")
    controller.watches(stores.metadata, by_meta_label, predicate=vanished, trigger="ConfigMap")


# --- NodeWrights and policies -----------------------------------------------------------------------------------------------


def is_status_only(change: ChangeView[NodeWrightObject]) -> bool:
    """Whether nothing but the status changed: then only the CR itself is concerned."""
    return change.old is not None and change.new is not None and _intent(change.old) == _intent(change.new)


def is_more_than_status(change: ChangeView[NodeWrightObject]) -> bool:
    """Whether the CR came, went, or is to be something else: its successors, and those it shares nodes with, are concerned too."""
    return not is_status_only(change)


def _intent(source: NodeWrightObject) -> Hashable:
    meta = source.metadata
    return (
        meta.uid,
        meta.generation,
        meta.deletion_timestamp,
        meta.finalizers,
        tuple(sorted(meta.annotations.items())),
        tuple(sorted(meta.labels.items())),
    )


def _own(source: NodeWrightObject) -> Iterable[str]:
    return (source.metadata.name,)


def _everybody(stores: Stores) -> Callable[[NodeWrightObject], Iterable[str]]:
    def names(source: NodeWrightObject) -> Iterable[str]:
        # One that is gone needs a last pass too, to be forgotten.
        return {source.metadata.name, *stores.nodewrights.keys()}

    return names


def users_of(policy: DeploymentPolicyObject, crs: Iterable[CR]) -> list[str]:
    """The CRs that name this policy."""
    name = policy.metadata.name
    return [cr.name for cr in crs if cr.spec is not None and cr.spec.deployment_policy == name]


# --- nodes ------------------------------------------------------------------------------------------------------------------


def node_matters(change: ChangeView[Node]) -> bool:
    """Whether something changed that a decision may depend on; other software's annotations and conditions are not."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return (
        old.metadata.labels != new.metadata.labels
        or old.spec != new.spec
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.status.node_info != new.status.node_info
        or _own_annotations(old) != _own_annotations(new)
        or _own_conditions(old) != _own_conditions(new)
    )


def _own_annotations(node: Node) -> dict[str, str]:
    return {key: value for key, value in node.metadata.annotations.items() if key.startswith(keys.PREFIX)}


def _own_conditions(node: Node) -> set[tuple[str, str, str]]:
    return {
        (each.type, each.status, each.reason)
        for each in node.status.conditions
        if each.type == _READY or each.type.startswith(keys.PREFIX)
    }


def concerned_by_node(node: Node, crs: Collection[CR]) -> set[str]:
    """The CRs that select this node or have a key on it; with a `sequencing: all` CR among them, all its successors too (ROL-17)."""
    labels, bearers = node.metadata.labels, _bearers(node)
    concerned = [
        cr for cr in crs if cr.name in bearers or (cr.spec is not None and cr.spec.node_selectors.matches(labels))
    ]
    names = {cr.name for cr in concerned}
    first = min(
        (_rank(cr) for cr in concerned if cr.spec is not None and cr.spec.sequencing is Sequencing.ALL), default=None
    )
    if first is not None:
        names |= {cr.name for cr in crs if _rank(cr) > first}
    return names


def _bearers(node: Node) -> set[str]:
    """Names of the CRs that have a bookkeeping key on the node."""
    return {
        key[len(prefix) :]
        for key in node.metadata.annotations
        for prefix in keys.PER_CR_PREFIXES
        if key.startswith(prefix)
    }


def _rank(cr: CR) -> tuple[int, str]:
    return (cr.spec.priority if cr.spec is not None else 0, cr.name)


# --- what is in the operator's namespace --------------------------------------------------------------------------------------


def _soon(controller: Controller, change: ChangeView[Job] | ChangeView[Pod], trigger: str) -> None:
    """Ask for a pass in a moment: healthy progress decides nothing by itself, and most passes of a rollout would be about it.

    An urgent change asks for one at once besides, and the queue keeps the earlier of both.
    """
    for item in (change.old, change.new):
        if item is not None:
            for name in by_cr(item):
                controller.queue.add(name, after=UNHURRIED_SECONDS, trigger=trigger)


def job_is_urgent(change: ChangeView[Job]) -> bool:
    """Whether a Job went, ended, failed an attempt, or is to be something else. One that was just made or marked can wait."""
    old, new = change.old, change.new
    if new is None:
        return True
    if old is None:
        return new.finished
    return _outcome(old) != _outcome(new)


def _outcome(job: Job) -> Hashable:
    # Not the deletion's beginning: until the Job is gone its name is not free (JOB-8).
    verdicts = frozenset(
        each.type for each in job.status.conditions if each.status == "True" and each.type in _VERDICTS
    )
    return (job.metadata.uid, job.spec.suspend, job.status.failed, verdicts, tuple(sorted(job.metadata.labels.items())))


def pod_is_urgent(change: ChangeView[Pod]) -> bool:
    """Whether a pod says that something is wrong, or is not wrong any more."""
    return _trouble(change.old) != _trouble(change.new)


def _trouble(pod: Pod | None) -> Hashable:
    """What of a pod may be evidence or news for people (JOB-5, JOB-14, JOB-15a); None for one that is well."""
    if pod is None:
        return None
    status = pod.status
    containers = tuple(
        (each.name, _wrong(each.state), _wrong(each.last_state), each.restart_count)
        for each in (*status.init_container_statuses, *status.container_statuses)
        if _wrong(each.state) or _wrong(each.last_state) or each.restart_count
    )
    disrupted = any(each.type == "DisruptionTarget" and each.status == "True" for each in status.conditions)
    if not (containers or disrupted or status.phase == "Failed" or status.reason):
        return None
    return (pod.metadata.uid, containers, disrupted, status.phase == "Failed", status.reason)


def _wrong(state: ContainerState) -> str:
    """The fault of a container, empty while it starts, runs, or has ended well."""
    if state.terminated is not None and state.terminated.exit_code != 0:
        return f"{state.terminated.reason} {state.terminated.exit_code}"
    if state.waiting is not None and state.waiting.reason not in _STARTING:
        return state.waiting.reason
    return ""


def vanished(change: ChangeView[ConfigMap]) -> bool:
    """Whether a node metadata ConfigMap went: its content concerns nobody before the next Job (CON-16)."""
    return change.new is None
