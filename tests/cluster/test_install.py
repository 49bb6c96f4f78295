"""Packages are installed on nodes, as a person sees it with kubectl."""

from tests.cluster.scenario import Scenario, package, scenario


@scenario()
async def test_one_package_goes_through_apply_and_config_to_complete(s: Scenario) -> None:
    """LIF-5, LIF-6, LIF-9, CON-10: each stage once, the work step before its check."""
    (node,) = await s.nodes(1)
    await s.apply({"tuning": package("1.2.3")})
    await s.until_status("complete")
    assert s.entry(node, "tuning|1.2.3") == ("config", "complete")
    ended = [entry.container for entry in s.ledger(event="end")]
    assert ended == [
        "tuning-init",
        "tuning-apply",
        "tuning-applycheck",
        "done",
        "tuning-init",
        "tuning-config",
        "tuning-configcheck",
        "done",
    ]


@scenario()
async def test_a_package_waits_for_those_it_depends_on(s: Scenario) -> None:
    """LIF-7: `drivers` starts on a node when `tuning` is complete there."""
    await s.nodes(1)
    await s.apply({"drivers": package("2.0.0", dependsOn={"tuning": "1.0.0"}), "tuning": package()})
    await s.until_status("complete", within=45)
    order = [(entry.package, entry.stage) for entry in s.ledger(container="-init")]
    assert order == [("tuning", "apply"), ("tuning", "config"), ("drivers", "apply"), ("drivers", "config")]


@scenario()
async def test_a_failing_attempt_is_repeated_and_the_node_completes(s: Scenario) -> None:
    """LIF-11, ROL-20: the entry reads erroring between the attempts, the node stays in_progress."""
    (node,) = await s.nodes(1)
    s.rules("stage=apply,attempt=1:fail=3")
    await s.apply({"tuning": package()})
    await s.until(lambda: s.entry(node, "tuning|1.0.0") == ("apply", "erroring"), "the entry is erroring")
    assert s.node_status(node) == "in_progress"
    await s.until_status("complete", within=60)
    assert s.ran("apply") == 2
