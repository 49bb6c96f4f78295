"""Every `kubectl` line of docs/rollouts.md works as written, on a rollout that is over; only names stand in for names."""

import asyncio
import re
import shlex
from functools import partial
from typing import Final

import pytest

from controller_runtime.testing.control_plane import ControlPlaneError
from tests.cluster.observer import NAMESPACE
from tests.cluster.scenario import Scenario, package, scenario
from tests.unit.docs.pages import commands, page

LINES: Final = tuple(dict.fromkeys(each for each in commands(page("rollouts")) if each.startswith("kubectl ")))
"""Those of blocks first, then those within the text."""
NO_LOGS: Final = "containerLogs/.*/tuning-apply|could not find the requested resource"
BY_HAND: Final = ("kubectl edit ",)
"""Open an editor."""


@pytest.mark.needs("kubectl")
@scenario(within=240, exclusive=True)
async def test_the_commands_of_the_page_on_rollouts_work_as_written(s: Scenario) -> None:
    """The last two lines end the NodeWright; `patch` goes first, since the finalizer comes back while the operator is there."""
    (node,) = await s.nodes(1)
    await s.apply({"tuning": package("1.2.3")})
    await s.until_status("complete")
    endings = [each for each in LINES if each.startswith(("kubectl delete nodewright", "kubectl patch nodewright"))]
    orders = {each: each.removesuffix("=true") + "-" for each in LINES if each.endswith("=true")}
    assert set(orders.values()) <= set(LINES), "every order can be taken back"
    lines = [each for each in LINES if not each.startswith(BY_HAND) and each not in (*endings, *orders.values())]
    assert len(lines) >= 10
    assert len(endings) == 2
    (job,) = s.jobs(stage="config")
    for line in (*lines, *sorted(endings, reverse=True)):
        await s.until_status("complete")
        job = next(iter(s.jobs(stage="config")), job)
        await run(s, line, node=node, job=job.name)
        if "nodeState_demo-" in line:
            await s.until(partial(ran_again, s, job.metadata.uid), "it ran again")
        if line in orders:
            await run(s, orders[line], node=node, job="")
    await s.until(lambda: s.cr_or_none() is None, "the NodeWright is gone")


def ran_again(s: Scenario, before: str) -> bool:
    """Whether the last stage's Job is there, and another one than before."""
    return [each for each in s.jobs(stage="config") if each.metadata.uid != before] != []


async def run(s: Scenario, line: str, *, node: str, job: str) -> None:
    """Run a line as it stands, with this scenario's names; kubectl's failure is the test's."""
    names = {"demo": s.name, "node-0000": node, "NODE": node, "JOB": job}
    meant = re.sub("demo|node-0000|NODE|JOB", lambda found: names[found[0]], line)
    try:
        said = await asyncio.to_thread(s.stage.cluster.kubectl, *shlex.split(meant)[1:])
    except ControlPlaneError as error:
        # A simulated node has no logs, and the embedded API server does not serve any; that kubectl came to ask for them shows that
        # pod and container were right.
        if not (line.startswith("kubectl logs") and re.search(NO_LOGS, str(error))):
            raise
        return
    assert said.strip(), f"{meant} says nothing"


@pytest.mark.needs("kubectl")
@scenario(within=120)
async def test_the_command_that_runs_a_failed_stage_again_does(s: Scenario) -> None:
    """JOB-6: the page's way out of a stage that failed for good."""
    (line,) = [each for each in LINES if each.startswith("kubectl delete job")]
    s.rules("stage=apply:fail=1")
    (node,) = await s.nodes(1)
    await s.apply({"tuning": package("1.2.3")})
    await s.until_status("erroring", within=60)
    (job,) = s.jobs()
    s.no_rules()
    await run(s, line, node=node, job=job.name)
    await s.until_status("complete")
    assert NAMESPACE in line
