"""Random histories of a cluster: people, kubelets and crashes at any moment, and what must hold all along
(invariants 1 to 5, 7 of the reports).

A `History` is made from a seed, takes steps, checks after each one, and at the end mends everything and expects completion and silence.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nodewright.api import keys
from nodewright.api.nodewright import NodeWrightSpec
from nodewright.engine.plan import Engine
from nodewright.model.node_state import Stage, State
from nodewright.model.objects import Job, Node, owner_uid
from nodewright.model.plan import Plan
from tests.unit.engine.world import World, package

NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
PACKAGES = ("aa", "bb", "cc")
FOREIGN = {"example.com/owner": "somebody", "example.com/nodeState_tuning": "{}"}


class History:
    """One run of a cluster under a seed. `wild` allows what may rightly exceed the budget for a moment (ROL-2, ROL-13)."""

    def __init__(self, seed: int, *, wild: bool, crs: tuple[str, ...] = ("tuning",)) -> None:
        self.random = random.Random(seed)
        self.wild = wild
        self.crs = crs
        self.world = World(*NAMES[: self.random.randint(1, 8)])
        self.done: set[tuple[str, str, str, str]] = set()
        self.complete: set[tuple[str, str, str]] = set()
        self.trace: list[str] = []
        self.pictures: list[tuple[Node, ...]] = [()]  # the nodes as they were after the latest steps
        self.unseen: set[tuple[str, str]] = set()  # (CR, package): edited, and no whole pass since
        self.versions = {name: self.random.randint(0, 2) for name in PACKAGES[: self.random.randint(1, 3)]}
        self.budget = self.random.choice(
            [None, {"count": 1}, {"count": 2}, {"count": 3}, {"percent": 30}, {"percent": 60}]
        )
        self.serial = self.random.random() < 0.3
        for name in self.world.nodes:
            self._foreign(name)
        for index, cr in enumerate(crs):
            self._write_spec(cr, index)

    def _foreign(self, node: str) -> None:
        self.world.annotate(node, **FOREIGN)
        self.world.label(node, pool="a", **{"example.com/mine": "yes"})

    def _write_spec(self, cr: str, index: int) -> None:
        packages: dict[str, Any] = {}
        for position, (name, minor) in enumerate(self.versions.items()):
            depends = {d: packages[d]["version"] for d in list(packages)[:position] if self.random.random() < 0.4}
            packages[name] = package(f"1.{minor}.0", dependsOn=depends)
        self.world.cr(
            cr,
            packages=packages,
            interruptionBudget=self.budget,
            serial=self.serial,
            priority=100 + index,
            nodeSelectors={"matchLabels": {"pool": "a"}},
            settled=False,
        )

    # --- moves --------------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One random thing happens, then everything is checked."""
        moves: list[tuple[int, Callable[[], None]]] = [
            (40, self._pass),
            (40, self._job_moves),
            (5, self._lagging_pass),
            (6, self._time),
            (3, self._lose_status),
            (2, self._edit_version),
            (2, self._reset),
            (3, self._delete_job),
            (2, self._delete_pod),
            (2, self._order),
            (2, self._taint),
            (2, self._node_gone_or_back),
        ]
        if self.wild:
            moves += [(3, self._ignore), (3, self._relabel), (1, self._edit_packages), (1, self._edit_budget)]
        move = self.random.choices([m for _, m in moves], [w for w, _ in moves])[0]
        self.trace.append(move.__name__)
        move()
        self.pictures = [*self.pictures[-3:], tuple(self.world.nodes.values())]
        self.check()

    def _pass(self) -> None:
        cr = self.random.choice(self.crs)
        writes = self.random.randint(0, 6) if self.random.random() < 0.25 else None
        self.trace.append(f"pass of {cr}, {writes}")
        self.apply(cr, writes)

    def apply(self, cr: str, writes: int | None = None) -> int:
        """A pass whose plan equals that of an engine that remembers nothing."""
        world = self.world
        plan = world.plan(cr)
        fresh = Engine(world.settings).plan(world.snapshot(cr), world.now)
        assert comparable(plan) == comparable(fresh)
        if writes is None:
            self.unseen = {one for one in self.unseen if one[0] != cr}
        return self._carry_out(cr, plan, writes)

    def _carry_out(self, cr: str, plan: Plan, writes: int | None) -> int:
        world = self.world
        before = len(world.started)
        written = world.apply(cr, plan, writes=writes)
        self.trace += [f"  {line}" for line in world.log[len(world.log) - written :]]
        for what, run in world.started[before:]:
            node, label, stage = what.split(":")
            if node in world.nodes:
                key = (world.nodes[node].metadata.uid, cr, label, stage)
                assert key not in self.done, f"{what} ran to its end before, and again as {run}"
        return written

    def _lagging_pass(self) -> None:
        """A pass that sees the nodes as they were some steps ago: its patches are refused wherever that matters (CON-11)."""
        cr = self.random.choice(self.crs)
        plan = self.world.engine.plan(
            replace(self.world.snapshot(cr), nodes=self.random.choice(self.pictures)), self.world.now
        )
        self._carry_out(cr, plan, None)

    def _job_moves(self) -> None:
        world = self.world
        jobs = [
            j
            for j in world.jobs.values()
            if j.metadata.deletion_timestamp is not None or not (j.finished or j.spec.suspend)
        ]
        for job in self.random.sample(jobs, min(len(jobs), self.random.randint(1, 4))):
            name = job.metadata.name
            if job.metadata.deletion_timestamp is not None:
                world.finish_deletions(name)
                continue
            end = self.random.choices(
                ["start", "succeed", "attempt", "disrupt", "fail", "refuse"], [30, 60, 10, 5, 4, 3]
            )[0]
            if job.condition("FailureTarget") is not None:
                world.end_failed(name)
            elif world.pod_of(job) is None:
                world.start(name)
            elif end == "succeed":
                self._succeed(job)
            elif end != "start":
                {"attempt": world.fail_attempt, "disrupt": world.disrupt, "fail": world.fail, "refuse": world.refuse}[
                    end
                ](name)

    def _succeed(self, job: Job) -> None:
        world = self.world
        world.succeed(job.metadata.name)
        node, label, stage = world.describe(job).split(":")
        cr = job.metadata.labels[keys.LABEL_NAME]
        live = world.nodes.get(node)
        if live is None or job.metadata.annotations[keys.NODE_UID] != live.metadata.uid:
            return
        for entry in world.state(node, cr).values():
            if (
                f"{entry.name}-{entry.version}" == label
                and entry.stage == stage
                and entry.run == job.metadata.annotations[keys.RUN]
            ):
                self.done.add((live.metadata.uid, cr, label, stage))

    def _time(self) -> None:
        self.world.now += self.random.choice([1, 5, 20, 90])

    def _lose_status(self) -> None:
        self.world.status_lost = not self.world.status_lost

    def _edit_version(self) -> None:
        name = self.random.choice(sorted(self.versions))
        self.versions[name] = self.random.randint(0, 3)
        self._rewrite()
        self._signal(package=name)

    def _rewrite(self) -> None:
        for index, cr in enumerate(self.crs):
            self._write_spec(cr, index)

    def _edit_packages(self) -> None:
        name = self.random.choice(PACKAGES)
        if name in self.versions and len(self.versions) > 1:
            del self.versions[name]
        else:
            self.versions.setdefault(name, 0)
        self._rewrite()
        self._signal(package=name)

    def _edit_budget(self) -> None:
        self.budget = self.random.choice([None, {"count": 1}, {"count": 2}, {"percent": 50}])
        self._rewrite()

    def _reset(self) -> None:
        node, cr = self._node(), self.random.choice(self.crs)
        if node is None:
            return
        entries = sorted(self.world.state(node, cr))
        entry = self.random.choice(entries) if entries and self.random.random() < 0.5 else None
        self.world.reset(node, entry, cr)
        self._signal(node=node)

    def _signal(self, *, node: str | None = None, package: str | None = None, label: str | None = None) -> None:
        """From now on what was complete may run again."""
        uid = self.world.nodes[node].metadata.uid if node else None

        def kept(one: tuple[str, ...], packages: str) -> bool:
            return (
                (uid is not None and one[0] != uid)
                or (package is not None and not packages.startswith(package))
                or (label is not None and packages != label)
            )

        self.unseen |= {(cr, package) for cr in self.crs if package is not None}
        self.done = {d for d in self.done if kept(d, d[2])}
        self.complete = {c for c in self.complete if kept(c, c[2])}

    def _delete_job(self) -> None:
        if self.world.jobs:
            job = self.random.choice(sorted(self.world.jobs.values(), key=lambda j: j.metadata.name))
            node, label, _ = self.world.describe(job).split(":")
            if node in self.world.nodes and not job.metadata.annotations.get(keys.STATE_RECORDED):
                self.done = {d for d in self.done if (d[0], d[2]) != (self.world.nodes[node].metadata.uid, label)}
            self.world.delete_job(job.metadata.name)

    def _delete_pod(self) -> None:
        if self.world.pods:
            del self.world.pods[self.random.choice(sorted(self.world.pods))]

    def spec(self, cr: str) -> NodeWrightSpec:
        """The CR's spec as it stands."""
        spec = self.world.crs[cr].spec
        assert spec is not None
        return spec

    def _order(self) -> None:
        what = self.random.choice(["pause", "disable"])
        self.world.order(self.random.choice(self.crs), **{what: self.random.choice(["true", None, "false"])})

    def _taint(self) -> None:
        node = self._node()
        if node is not None:
            choice = self.random.choice(
                [(), (("network", "NoSchedule"),), (("node.kubernetes.io/not-ready", "NoExecute"),)]
            )
            self.world.taint(node, *choice)

    def _node_gone_or_back(self) -> None:
        node = self.random.choice(NAMES)
        if node in self.world.nodes:
            self.world.delete_node(node)
        elif self.random.random() < 0.5:
            self.world.add_node(node)
            self._foreign(node)

    def _ignore(self) -> None:
        node = self._node()
        if node is not None:
            self.world.ignore(node, on=self.random.random() < 0.5)

    def _relabel(self) -> None:
        node = self._node()
        if node is not None:
            self.world.label(node, pool=self.random.choice(["a", "a", "b"]))
            self._signal(node=node)
            self.unseen |= {(cr, package) for cr in self.crs for package in PACKAGES}

    def _node(self) -> str | None:
        return self.random.choice(sorted(self.world.nodes)) if self.world.nodes else None

    # --- what must hold -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """The invariants, at this moment."""
        for cr in self.crs:
            if not self.wild:
                self._within_budget(cr)
            self._orders_differ(cr)
            self._completion_stays(cr)
        for name, node in self.world.nodes.items():
            assert FOREIGN.items() <= node.metadata.annotations.items(), name
            assert node.metadata.labels["example.com/mine"] == "yes"
            assert node.status.conditions[0].type == "Ready"

    def _within_budget(self, cr: str) -> None:
        world = self.world
        under_way = set()
        for job in world.jobs.values():
            node = world.nodes.get(job.metadata.labels[keys.LABEL_NODE])
            ours = (
                owner_uid(job.metadata) == world.crs[cr].meta.uid
                and not job.finished
                and job.condition("FailureTarget") is None
            )
            if ours and node is not None and job.metadata.annotations[keys.NODE_UID] == node.metadata.uid:
                under_way.add(node.name)
        assert len(under_way) <= self._ceiling(), sorted(under_way)

    def _ceiling(self) -> int:
        most = len(NAMES)  # nodes come and go: percent of the most there can be
        if self.budget is None:
            return most
        return self.budget["count"] if "count" in self.budget else max(1, most * self.budget["percent"] // 100)

    def _orders_differ(self, cr: str) -> None:
        picks = [
            p
            for n in self.world.nodes
            if (p := self.world.pick(n, cr)) is not None and not p.over and self.world.state(n, cr)
        ]
        assert len({p.order for p in picks}) == len(picks), picks

    def _completion_stays(self, cr: str) -> None:
        world = self.world
        for node in world.nodes:
            uid = world.nodes[node].metadata.uid
            entries = {f"{e.name}-{e.version}": e for e in world.state(node, cr).values()}
            for was in [c for c in self.complete if c[:2] == (uid, cr)]:
                entry = entries.get(was[2])
                stays = entry is not None and entry.at(Stage.CONFIG, State.COMPLETE)
                assert stays, f"{was[2]} on {node} was complete and is {entry}"
            wanted = {
                f"{name}-{p.version}" for name, p in self.spec(cr).packages.items() if (cr, name) not in self.unseen
            }
            self.complete |= {
                (uid, cr, label) for label in wanted & entries.keys() if entries[label].at(Stage.CONFIG, State.COMPLETE)
            }

    # --- the end ------------------------------------------------------------------------------------------------------------

    def mend(self) -> None:
        """People set everything right; then the rollout must end, and end in silence (invariants 3 and 9)."""
        world = self.world
        world.status_lost = False
        for cr in self.crs:
            world.order(cr, pause=None, disable=None)
        for node in world.nodes:
            world.taint(node)
            world.ignore(node, on=False)
            world.label(node, pool="a")
        for _ in range(400):
            moved = sum(self.apply(cr) for cr in self.crs)
            failed = [
                j
                for j in world.jobs.values()
                if j.condition("Failed") and j.metadata.annotations.get(keys.STATE_RECORDED)
            ]
            for job in failed:
                world.delete_job(job.metadata.name)  # the explicit signal (JOB-6)
            moved += world.turn()
            self.check()
            if not moved:
                world.now += 700
                if not sum(self.apply(cr) for cr in self.crs):
                    break
        else:
            raise AssertionError("no end")
        for cr in self.crs:
            assert set(world.statuses(cr).values()) <= {"complete"}, world.statuses(cr)
            assert world.crs[cr].published["status"] == "complete"
        assert not [j for j in world.jobs.values() if not j.finished]


def comparable(plan: Plan) -> tuple[Any, ...]:
    """All of a plan but its events, which tell what is new since the last pass."""
    status = plan.status.build() if plan.status is not None else None
    return (plan.finalizer, plan.configmaps, plan.nodes, plan.job_deletes, plan.configmap_deletes, status, plan.wake_at)
