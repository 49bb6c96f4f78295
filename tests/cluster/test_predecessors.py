"""The order between NodeWrights on a node (ROL-17, ROL-18). Priorities are high, so that nothing here holds other scenarios."""

from tests.cluster.observer import KEY
from tests.cluster.scenario import Scenario, package, scenario


def pair(s: Scenario) -> tuple[str, str]:
    """The names of an earlier and a later NodeWright."""
    return f"{s.name}-a", f"{s.name}-b"


@scenario()
async def test_a_later_nodewright_waits_on_a_node_until_the_earlier_is_complete_there(s: Scenario) -> None:
    """ROL-17, ROL-20: node by node; meanwhile it reads waiting. The order is that of priority, not of creation."""
    quick, slow = await s.nodes(2)
    first, second = pair(s)
    s.rules(f"node={slow},container=~.*-apply:succeed=4", cr=second)
    await s.apply({"later": package()}, cr=first, priority=802)
    await s.delete_cr(first)
    await s.apply({"early": package()}, cr=second, priority=801)
    await s.apply({"later": package()}, cr=first, priority=802)
    await s.until(lambda: s.ran("apply", node=slow, cr=second) == 1, "the earlier works on the slow node")
    await s.until_node(slow, "waiting", cr=first)
    assert not s.jobs(first, node=slow)
    await s.until_node(quick, "complete", cr=first)
    await s.until_status("complete", cr=second)
    await s.until_status("complete", cr=first)
    ends = [e.time for e in s.ledger(cr=second, event="end") if e.node == slow]
    starts = [e.time for e in s.ledger(cr=first) if e.node == slow]
    assert max(ends) < min(starts)


@scenario()
async def test_the_name_decides_between_equal_priorities(s: Scenario) -> None:
    """ROL-17."""
    await s.nodes(1)
    first, second = pair(s)
    s.rules("container=~.*-apply:succeed=2", cr=first)
    await s.apply({"early": package()}, cr=first, priority=803)
    await s.apply({"later": package()}, cr=second, priority=803)
    await s.until_status("complete", cr=second, within=45)
    assert max(e.time for e in s.ledger(cr=first, event="end")) < min(e.time for e in s.ledger(cr=second))


@scenario()
async def test_a_paused_predecessor_holds_and_a_disabled_one_does_not(s: Scenario) -> None:
    """ROL-18, LIF-3: what is cleared on the predecessor moves the successor at once."""
    (node,) = await s.nodes(1)
    first, second = pair(s)
    await s.apply({"early": package()}, cr=first, priority=804, annotations={f"{KEY}/pause": "true"})
    await s.apply({"later": package()}, cr=second, priority=805)
    await s.until_status("paused", cr=first)
    await s.until_node(node, "waiting", cr=second)
    await s.never(lambda: s.jobs(second), "the successor starts behind a paused predecessor", during=3)
    await s.annotate(cr=first, disable="true")
    await s.until_status("disabled", cr=first)
    await s.until_status("complete", cr=second)
    assert not s.jobs(first)


@scenario()
async def test_with_sequencing_all_the_later_waits_for_every_node_of_the_earlier(s: Scenario) -> None:
    """ROL-17, ROL-21: also on a node that the earlier does not select."""
    shared, slow = await s.nodes(2, group="both")
    (own,) = await s.nodes(1, group="later")
    first, second = pair(s)
    s.rules(f"node={slow},container=~.*-config:succeed=4", cr=first)
    labels = {"matchLabels": {"scenario": s.name, "group": "both"}}
    await s.apply({"early": package()}, cr=first, priority=901, sequencing="all", nodeSelectors=labels)
    await s.apply({"later": package()}, cr=second, priority=902)
    await s.until_node(shared, "complete", cr=first)
    await s.until(lambda: s.ran("config", node=slow, cr=first) == 1, "the slow one is under way")
    await s.until_status("waiting", cr=second)
    assert [s.node_status(node, second) for node in (shared, own)] == ["waiting", "waiting"]
    assert not s.jobs(second)
    await s.until_status("complete", cr=first)
    await s.until_status("complete", cr=second)
    assert max(e.time for e in s.ledger(cr=first, event="end")) < min(e.time for e in s.ledger(cr=second))


@scenario()
async def test_a_predecessor_that_appears_lets_the_running_stage_end_and_starts_no_next(s: Scenario) -> None:
    """ROL-17: slot kept, the node reads waiting, and it goes on afterwards."""
    (node,) = await s.nodes(1)
    first, second = pair(s)
    s.rules("container=~.*-apply:succeed=3", cr=second)
    s.rules("container=~.*-apply:succeed=4", cr=first)
    await s.apply({"later": package()}, cr=second, priority=807)
    await s.until(lambda: s.ran("apply", cr=second) == 1, "the later one works")
    await s.apply({"early": package()}, cr=first, priority=806)
    await s.until(lambda: s.entry(node, "later|1.0.0", second) == ("apply", "complete"), "its stage ends")
    assert not s.jobs(second, stage="config")
    await s.until_node(node, "waiting", cr=second)
    await s.until_status("complete", cr=first)
    await s.until_status("complete", cr=second)
    assert s.ran("apply", cr=second) == 1


@scenario()
async def test_deleting_the_predecessor_opens_the_way(s: Scenario) -> None:
    """ROL-17: in deletion it holds a node only while it has a Job there."""
    (node,) = await s.nodes(1)
    first, second = pair(s)
    s.rules("stage=apply:hang", cr=first)
    await s.apply({"early": package()}, cr=first, priority=808)
    await s.apply({"later": package()}, cr=second, priority=809)
    await s.until_node(node, "waiting", cr=second)
    await s.delete_cr(first)
    await s.until_status("complete", cr=second)
