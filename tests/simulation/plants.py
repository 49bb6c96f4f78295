"""Bugs to plant, by name: each is a mutation of the product for the time of a run. The tests prove that each is found.

Each takes away one thing that the design relies on, and says which.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final
from unittest import mock

from controller_runtime.cache import Store
from controller_runtime.cache.store import _number
from controller_runtime.cache.tombstones import Tombstones
from controller_runtime.election import Fence
from nodewright.engine import facts, jobviews, record, rollout, stages
from nodewright.engine import members as members_module
from nodewright.engine import memory as memory_module
from nodewright.engine import plan as plan_module
from nodewright.engine import status as status_module
from nodewright.engine.facts import Outcome
from nodewright.engine.jobviews import JobView
from nodewright.engine.members import Members
from nodewright.engine.stages import PackageFacts, Progress
from nodewright.model.node_state import Entry
from nodewright.model.objects import Node, Pod
from nodewright.model.plan import JobDelete, NodePatch, NodePlan
from nodewright.operator import node_patch, status_writer
from nodewright.operator.job_writes import JobWrites
from nodewright.operator.memory import CRMemory
from nodewright.operator.node_sequence import NodeSequence
from nodewright.operator.node_writes import NodeWrites
from nodewright.operator.status_writer import StatusWriter

Plant = Callable[[], AbstractContextManager[object]]


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """With that bug; "" is none."""
    if not name:
        yield
        return
    with PLANTS[name]():
        yield


def _mark_before_state() -> AbstractContextManager[object]:
    """JOB-3: state first, mark second."""
    carry_out = NodeSequence.carry_out

    async def turned(self: NodeSequence, cr: Any, plan: NodePlan, memory: Any, tally: Any) -> float | None:
        for mark in plan.marks:
            await self._jobs.mark(mark, tally)
        return await carry_out(self, cr, replace(plan, marks=()), memory, tally)

    return mock.patch.object(NodeSequence, "carry_out", turned)


def _job_before_entry() -> AbstractContextManager[object]:
    """LIF-12: the entry with its run comes before the Job."""
    carry_out = NodeSequence.carry_out

    async def turned(self: NodeSequence, cr: Any, plan: NodePlan, memory: Any, tally: Any) -> float | None:
        for create in plan.creates:
            await self._jobs.create(cr, create, memory, tally)
        return await carry_out(self, cr, replace(plan, creates=()), memory, tally)

    return mock.patch.object(NodeSequence, "carry_out", turned)


def _blind_patches() -> AbstractContextManager[object]:
    """CON-11: each patch tests the UID and the old values."""
    operations = node_patch.operations

    def blind(node: Node, patch: NodePatch, *, resource_version: str) -> list[dict[str, Any]]:
        tested = operations(node, patch, resource_version=resource_version)
        return [one for one in tested if one["op"] != "test"]

    return mock.patch.object(node_patch, "operations", blind)


def _forgotten_dead() -> AbstractContextManager[object]:
    """Trap 36: a late answer about an object that is gone revives nothing."""

    def observe(self: Store[Any], raw: bytes) -> Any:
        item = self._decoder.decode(raw)
        self._notify(self._accept(item.metadata.key, item, _number(item.metadata.resource_version)))
        return self._objects.get(item.metadata.key, item)

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(Tombstones, "refuses", return_value=False))
    stack.enter_context(mock.patch.object(Store, "observe", observe))
    return stack


def _no_relist_difference() -> AbstractContextManager[object]:
    """Traps 5, 6: what a list does not hold any more is gone."""
    replaced = Store.replace

    def keeping(self: Store[Any], items: Mapping[str, Any], resource_version: str, **options: Any) -> None:
        replaced(self, items, resource_version, unreadable=list(self.keys()))

    return mock.patch.object(Store, "replace", keeping)


def _own_writes_unseen() -> AbstractContextManager[object]:
    """Trap 35, B160: every answer goes into the store at once."""
    return mock.patch.object(Store, "observe", lambda self, raw: self._decoder.decode(raw))


def _waiting_not_counted() -> AbstractContextManager[object]:
    """ROL-10, B11: a member between two of its stages keeps its slot."""
    sort_members = members_module.sort_members

    def sorted_badly(*arguments: Any) -> Members:
        members = sort_members(*arguments)
        waiting = sum(1 for one in members.under_way if not one.unfinished)
        members.slots -= waiting
        members.undecided = max(0, members.undecided - waiting)
        return members

    return mock.patch.object(rollout, "sort_members", sorted_badly)


def _no_fence() -> AbstractContextManager[object]:
    """Trap 33: whoever writes asks first whether it still leads."""
    return mock.patch.object(Fence, "check")


def _terminating_is_gone() -> AbstractContextManager[object]:
    """JOB-8, B22: a Job that is being deleted still has its name, and perhaps a pod."""
    view_jobs = jobviews.view_jobs

    def without(scope: Any, node: Node, jobs: Any, pods: Any) -> jobviews.NodeJobs:
        return view_jobs(scope, node, tuple(j for j in jobs if j.metadata.deletion_timestamp is None), pods)

    return mock.patch.object(facts, "view_jobs", without)


def _fresh_run_each_time() -> AbstractContextManager[object]:
    """LIF-12: an entry that is due keeps its run, so that the same Job is made again."""
    package_facts = stages.package_facts

    def forgetful(*arguments: Any, **options: Any) -> PackageFacts:
        found = package_facts(*arguments, **options)
        return replace(found, run="") if found.progress is Progress.DUE else found

    return mock.patch.object(facts, "package_facts", forgetful)


def _any_run_speaks() -> AbstractContextManager[object]:
    """LIF-12a: a Job speaks only for the entry with its run."""

    def speaks(view: JobView, entry: Entry) -> bool:
        return entry.stage is view.claim.stage

    stack = contextlib.ExitStack()
    for module in (record, stages, facts):
        if hasattr(module, "speaks_for"):
            stack.enter_context(mock.patch.object(module, "speaks_for", speaks))
    return stack


def _pick_apart() -> AbstractContextManager[object]:
    """ROL-13: the pick comes in the same patch as the first entry."""
    patch = NodeWrites.patch

    async def without(self: NodeWrites, plan: NodePlan, tally: Any) -> None:
        if plan.patch is not None and plan.creates:
            kept = {k: v for k, v in plan.patch.annotations.items() if "/pick_" not in k}
            plan = replace(plan, patch=replace(plan.patch, annotations=kept))
        await patch(self, plan, tally)

    return mock.patch.object(NodeWrites, "patch", without)


def _refusal_is_failure() -> AbstractContextManager[object]:
    """JOB-5: what the kubelet refused or lost proves nothing."""

    def genuine(pod: Pod) -> bool:
        return pod.status.phase == "Failed"

    return mock.patch("nodewright.engine.evidence.is_genuine_failure", genuine)


def _orphaned_marks() -> AbstractContextManager[object]:
    """JOB-3: a finished Job is marked, by whichever operator finds it."""
    mark = JobWrites.mark

    async def once(self: JobWrites, one: Any, tally: Any) -> None:
        if one.job.metadata.labels.get("nodewright.nvidia.com/stage") == "apply":
            await mark(self, one, tally)

    return mock.patch.object(JobWrites, "mark", once)


def _turns_ignored() -> AbstractContextManager[object]:
    """ROL-17: what comes first is finished first."""
    return mock.patch.object(plan_module, "_turns", return_value={})


def _alone_worked_on() -> AbstractContextManager[object]:
    """ROL-2, ROL-3: nothing is started on ignored and tainted nodes."""
    evaluate = memory_module.evaluate  # type: ignore[attr-defined]

    def blind(*arguments: Any) -> Any:
        found = evaluate(*arguments)
        outcome = None if found.outcome is Outcome.BLOCKED else found.outcome
        return replace(found, ignored=False, untolerated=(), outcome=outcome)

    return mock.patch.object(memory_module, "evaluate", blind)


def _serial_forgotten() -> AbstractContextManager[object]:
    """LIF-7: under `serial` one package at a time."""
    startable = facts._startable
    return mock.patch.object(facts, "_startable", lambda packages, serial: startable(packages, serial=False))


def _conditions_restamped() -> AbstractContextManager[object]:
    """ROL-22, B08: a condition that reads as before keeps its time."""
    merge = status_module.merge  # type: ignore[attr-defined]

    def stamped(published: object, wanted: Any, **options: Any) -> list[dict[str, Any]]:
        return merge([], wanted, **options)

    return mock.patch.object(status_module, "merge", stamped)


def _orders_from_live_members() -> AbstractContextManager[object]:
    """ROL-14, B13: a number is above every one that was ever given."""
    read = plan_module.read_rollout  # type: ignore[attr-defined]

    def forgetful(*arguments: Any, **options: Any) -> Any:
        found = read(*arguments, **{**options, "given": {}, "leaving": ()})
        return replace(found, next_order=found.order_after_reset)

    return mock.patch.object(plan_module, "read_rollout", forgetful)


def _same_patch_again() -> AbstractContextManager[object]:
    """Invariant 3: a status that is there already is not sent again, although the server would change nothing."""
    difference = status_writer.difference  # type: ignore[attr-defined]

    def always(before: Any, after: Any) -> Any:
        return difference(before, after) or {"status": after["status"]}

    async def publish(self: StatusWriter, name: str, lane: Any, *rest: Any) -> None:
        lane.fruitless = b""
        await original(self, name, lane, *rest)

    original = StatusWriter._publish
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(status_writer, "difference", always))
    stack.enter_context(mock.patch.object(StatusWriter, "_publish", publish))
    return stack


def _swept_before_recorded() -> AbstractContextManager[object]:
    """JOB-8, B25: a finished Job that is not recorded is never deleted."""

    async def sweep(self: JobWrites, one: Any, tally: Any) -> None:
        await self.delete(JobDelete(one.job, "swept"), CRMemory(), tally)

    return mock.patch.object(JobWrites, "mark", sweep)


PLANTS: Final[dict[str, Plant]] = {
    "mark-before-state": _mark_before_state,
    "job-before-entry": _job_before_entry,
    "blind-patches": _blind_patches,
    "forgotten-dead": _forgotten_dead,
    "no-relist-difference": _no_relist_difference,
    "own-writes-unseen": _own_writes_unseen,
    "waiting-not-counted": _waiting_not_counted,
    "no-fence": _no_fence,
    "terminating-is-gone": _terminating_is_gone,
    "fresh-run-each-time": _fresh_run_each_time,
    "any-run-speaks": _any_run_speaks,
    "pick-apart": _pick_apart,
    "refusal-is-failure": _refusal_is_failure,
    "no-marks": _orphaned_marks,
    "turns-ignored": _turns_ignored,
    "alone-worked-on": _alone_worked_on,
    "serial-forgotten": _serial_forgotten,
    "conditions-restamped": _conditions_restamped,
    "orders-from-live-members": _orders_from_live_members,
    "same-patch-again": _same_patch_again,
    "swept-before-recorded": _swept_before_recorded,
}
