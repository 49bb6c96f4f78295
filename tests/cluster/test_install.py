"""Packages are installed on nodes, in the order their spec asks for, as a person sees it with kubectl."""

from datetime import datetime

from tests.cluster.observer import Recorder, Thing
from tests.cluster.scenario import Scenario, package, scenario


@scenario()
async def test_one_package_goes_through_apply_and_config_to_complete(s: Scenario) -> None:
    """LIF-5, LIF-6, LIF-9, CON-10: each stage once, the work step before its check."""
    (node,) = await s.nodes(1)
    await s.apply({"tuning": package("1.2.3")})
    await s.until_status("complete")
    assert s.entry(node, "tuning|1.2.3") == ("config", "complete")
    ended = [entry.container for entry in s.ledger(event="end")]
    assert ended[:4] == ["tuning-init", "tuning-apply", "tuning-applycheck", "done"]
    assert ended[4:] == ["tuning-init", "tuning-config", "tuning-configcheck", "done"]


@scenario()
async def test_a_package_waits_for_those_it_depends_on(s: Scenario) -> None:
    """LIF-7: `drivers` starts on a node when `tuning` is complete there."""
    await s.nodes(1)
    await s.apply({"drivers": package("2.0.0", dependsOn={"tuning": "1.0.0"}), "tuning": package()})
    await s.until_status("complete", within=45)
    order = [(entry.package, entry.stage) for entry in s.ledger(container="-init")]
    assert order == [("tuning", "apply"), ("tuning", "config"), ("drivers", "apply"), ("drivers", "config")]


@scenario()
async def test_packages_without_dependencies_run_in_parallel(s: Scenario) -> None:
    """LIF-7: both are started in the same pass, before either has ended."""
    (node,) = await s.nodes(1)
    s.rules("container=~.*-apply:succeed=4")
    await s.apply({"aa": package(), "bb": package(), "cc": package()})
    await s.until(lambda: len(s.jobs(node=node, stage="apply")) == 3, "three Jobs at once")
    assert not any(job.finished for job in s.jobs(node=node))
    await s.until_status("complete", within=45)


@scenario()
async def test_serial_carries_one_package_to_its_end_before_another_starts(s: Scenario) -> None:
    """LIF-7: at most one Job a node, and no package between two stages of another."""
    await s.nodes(2)
    at_once: dict[str, str] = {}

    def unfinished(job: Thing, *, gone: bool) -> int:
        if gone or job.finished:
            at_once.pop(job.metadata.uid, None)
        else:
            at_once[job.metadata.uid] = job.label("node") or ""
        return max((list(at_once.values()).count(node) for node in at_once.values()), default=0)

    with Recorder(
        s.observer.jobs,
        lambda change: (
            unfinished(thing, gone=change.new is None)
            if (thing := change.new or change.old) is not None and thing.label("name") == s.name
            else None
        ),
    ) as recorder:
        await s.apply({"aa": package(), "bb": package(), "cc": package()}, serial=True)
        await s.until_status("complete", within=75)
    assert max(recorder.seen) == 1
    for node in ("n0", "n1"):
        order = [e.package for e in s.ledger(container="-init") if e.node.endswith(node)]
        assert order == sorted(order, key=order.index), order
        assert len(order) == 6


@scenario()
async def test_a_node_that_joins_later_is_installed_too(s: Scenario) -> None:
    """ROL-1, ROL-5, ROL-19: the selector is evaluated on every pass; without a budget it is picked at once."""
    await s.nodes(1)
    await s.apply({"tuning": package()})
    await s.until_status("complete")
    (second,) = await s.nodes(1)
    await s.until(lambda: s.node_status(second) == "complete", "the new node is complete")
    await s.until(lambda: s.cr().status.get("completeNodes") == "2/2", "two of two")
    assert s.ran("apply") == 2


@scenario()
async def test_a_nodewright_that_selects_no_node_is_complete(s: Scenario) -> None:
    """ROL-21: complete with zero nodes; 0/0 in the column."""
    await s.apply({"tuning": package()})
    await s.until_status("complete")
    assert s.cr().status["completeNodes"] == "0/0"


@scenario()
async def test_a_selector_of_expressions_is_obeyed(s: Scenario) -> None:
    """ROL-1: In, NotIn, Exists, DoesNotExist."""
    chosen, other = await s.nodes(1, tier="gold"), await s.nodes(1, tier="tin")
    third = await s.nodes(1, tier="gold", legacy="yes")
    expressions = [
        {"key": "tier", "operator": "In", "values": ["gold", "silver"]},
        {"key": "legacy", "operator": "DoesNotExist"},
        {"key": "scenario", "operator": "Exists"},
        {"key": "tier", "operator": "NotIn", "values": ["tin"]},
    ]
    await s.apply({"tuning": package()}, nodeSelectors={**s.selector, "matchExpressions": expressions})
    await s.until_status("complete")
    assert list(s.cr().status["nodeStatus"]) == chosen
    assert all(s.node_status(node) is None for node in (*other, *third))


@scenario()
async def test_a_nodes_conditions_tell_when_all_is_installed(s: Scenario) -> None:
    """CON-8: NotReady is True from the node's first write until all packages are complete; both come together."""
    (node,) = await s.nodes(1)
    not_ready, erroring = f"nodewright.nvidia.com/{s.name}/NotReady", f"nodewright.nvidia.com/{s.name}/Erroring"
    s.rules("container=~.*-apply:succeed=2")
    await s.apply({"tuning": package()})
    await s.until(lambda: s.node(node).condition(not_ready), "the condition is there")
    shown = s.node(node).condition(not_ready) or {}
    assert (shown["status"], shown["reason"]) == ("True", "Incomplete")
    assert (s.node(node).condition(erroring) or {})["reason"] == "NotErroring"
    await s.until_status("complete")
    await s.until(lambda: not s.node(node).is_true(not_ready), "NotReady is False")
    shown = s.node(node).condition(not_ready) or {}
    assert (shown["status"], shown["reason"]) == ("False", "Complete")
    assert datetime.fromisoformat(shown["lastTransitionTime"]).tzinfo is not None
