"""The engine as a function: no input makes it raise, the same input gives the same bytes, and a plan carried out
leaves nothing to plan (trap 60)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewright.api import keys
from nodewright.api.shape import Fault
from nodewright.engine.plan import Engine
from nodewright.model import node_state, pick
from nodewright.model.node_state import Malformed, Stage, State
from nodewright.model.objects import (
    Condition,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    Job,
    JobSpec,
    JobStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodStatus,
)
from nodewright.model.snapshot import CR, Answer
from tests.unit.engine.histories import comparable
from tests.unit.engine.machines import replace
from tests.unit.engine.world import CR_NAME, SETTINGS, World, package

text = st.text(max_size=12)
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda x: st.lists(x, max_size=3) | st.dictionaries(text, x, max_size=3),
    max_leaves=6,
)
times = st.sampled_from(
    [None, "", "x", "0001-01-01T00:00:00", "9999-12-31T23:59:59Z", "2026-01-01T00:00:00Z", "2026-02-30T00:00:00Z"]
)
entries = st.fixed_dictionaries(
    {},
    optional={
        "version": st.sampled_from(["1.0.0", "2.0.0", "x"]) | json,
        "stage": st.sampled_from([s.value for s in Stage]) | json,
        "state": st.sampled_from([s.value for s in State]) | json,
        "run": text | json,
        "restarts": json,
        "generation": st.integers(-5, 5) | json,
        "configKeys": json,
        "interruptPending": json,
        "uninstallInterrupt": json,
        "other": json,
    },
)
states = st.dictionaries(
    st.sampled_from(["aa|1.0.0", "aa|2.0.0", "bb|1.0.0", "old|0.1.0", "aa", "|"]), entries | json, max_size=3
)
picks = st.fixed_dictionaries(
    {
        "rollout": st.integers(-1, 3) | json,
        "batch": st.integers(-1, 3) | json,
        "compartment": st.just("__default__") | json,
        "order": st.integers(-1, 5) | json,
    },
    optional={
        "time": text,
        "completed": st.booleans() | json,
        "outcome": st.sampled_from(["erroring", "blocked", "x"]) | json,
    },
)


def encoded(values: st.SearchStrategy[Any]) -> st.SearchStrategy[str | None]:
    return st.none() | text | values.map(lambda v: msgspec.json.encode(v).decode())


conditions = st.lists(
    st.builds(
        Condition,
        type=st.sampled_from(["Complete", "Failed", "FailureTarget", "Suspended", "Ready", "x"]),
        status=st.sampled_from(["True", "False", "Unknown", ""]),
        reason=text,
        last_transition_time=times,
    ),
    max_size=3,
).map(tuple)
published = st.dictionaries(
    st.sampled_from(
        ["rollout", "nodeOrderOffset", "packageList", "compartmentStatuses", "conditions", "status", "nodeStatus", "x"]
    ),
    json
    | st.just([{"type": "Ready", "status": "True"}])
    | st.just({"__default__": {"batchState": {"currentBatch": 2, "evaluated": True}}}),
    max_size=4,
)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    stage = draw(st.sampled_from([*(s.value for s in Stage), "nap"]))
    version = draw(st.sampled_from(["1.0.0", "2.0.0"]))
    labels = {
        keys.LABEL_NAME: CR_NAME,
        keys.LABEL_NODE: "n1",
        keys.LABEL_PACKAGE: f"aa-{version}",
        keys.LABEL_STAGE: stage,
    }
    annotations = draw(
        st.dictionaries(
            st.sampled_from(
                [
                    keys.RUN,
                    keys.INPUTS,
                    keys.STATE_RECORDED,
                    keys.NODE_UID,
                    keys.UNPROVEN_FAILURES,
                    keys.ANNOTATION_PACKAGE,
                ]
            ),
            st.sampled_from(["true", "r", "{}", "3", '{"name": "aa"}', "x"]),
            max_size=4,
        )
    )
    name = keys.job_name(cr=CR_NAME, package="aa", version=version, stage=stage, node="n1")
    owner = draw(st.sampled_from(["cr-2", "cr-9"]))
    meta = ObjectMeta(
        name=name, uid="job", labels=labels, annotations=annotations, owner_references=(OwnerReference(uid=owner, controller=True),),
        deletion_timestamp=draw(times), creation_timestamp=draw(times),
    )  # fmt: skip
    status = JobStatus(
        active=draw(st.integers(0, 1)),
        failed=draw(st.integers(-1, 9)),
        conditions=draw(conditions),
        completion_time=draw(times),
    )
    return Job(meta, JobSpec(suspend=draw(st.booleans())), status)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    meta = ObjectMeta(
        uid=draw(text), labels={keys.LABEL_NAME: CR_NAME, keys.LABEL_NODE: "n1"}, creation_timestamp=draw(times),
        owner_references=(OwnerReference(uid="job", controller=True),), deletion_timestamp=draw(times),
    )  # fmt: skip
    ended = ContainerState(terminated=ContainerTerminated(exit_code=draw(st.integers(-1, 2))))
    steps = draw(st.sampled_from([(), (ContainerStatus(state=ended),), (ContainerStatus(),)]))
    return Pod(
        meta,
        status=PodStatus(
            phase=draw(st.sampled_from(["Pending", "Running", "Failed", "", "x"])),
            start_time=draw(times),
            init_container_statuses=steps,
        ),
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A CR and a node on which anything may stand."""
    world = World("n1", "n2")
    budget = draw(st.sampled_from([None, {"count": 1}, {"count": 0}, {"percent": 50}]))
    version = draw(st.sampled_from(["1.0.0", "2.0.0", "v1"]))
    cr = world.cr(
        packages={"aa": package(version), "bb": package(dependsOn={"aa": version})},
        interruptionBudget=budget,
        serial=draw(st.booleans()),
    )
    meta = replace(
        cr.meta,
        uid="cr-2",
        annotations=draw(st.dictionaries(st.sampled_from([keys.PAUSE, keys.DISABLE]), st.sampled_from(["true", "x"]))),
    )
    meta = replace(meta, deletion_timestamp=draw(st.sampled_from([None, None, None, "2026-01-01T00:00:00Z"])))
    spec = draw(st.sampled_from([cr.spec, cr.spec, cr.spec, None]))
    world.crs[CR_NAME] = CR(meta, spec, cr.faults if spec else (Fault("spec", 7, "is not an object"),), draw(published))
    world.annotate(
        "n1",
        **{
            keys.node_state_key(CR_NAME): draw(encoded(states)),
            keys.pick_key(CR_NAME): draw(encoded(picks)),
            keys.status_key(CR_NAME): draw(st.none() | text),
            keys.cordon_key(CR_NAME): draw(st.sampled_from([None, "true", "x"])),
        },
    )
    world.label("n1", **{keys.IGNORE_LABEL: draw(st.sampled_from([None, "true", "x"]))})
    world.taint(
        "n1",
        *draw(
            st.lists(
                st.tuples(
                    st.sampled_from(["node.kubernetes.io/not-ready", "x"]),
                    st.sampled_from(["NoSchedule", "NoExecute", "x"]),
                ),
                max_size=2,
            )
        ),
    )
    for job in draw(st.lists(jobs(), max_size=3)):
        world.jobs[job.metadata.name] = job
    for index, pod in enumerate(draw(st.lists(pods(), max_size=3))):
        world.pods[f"pod-{index}"] = replace(pod, metadata=replace(pod.metadata, name=f"pod-{index}"))
    if draw(st.booleans()):
        world.refused = {f"Job/{name}": Answer("no", world.now, draw(st.integers(0, 2000))) for name in world.jobs}
    world.busy = {"n2": pick.parse(draw(encoded(picks)))} if draw(st.booleans()) else {}
    return world


@settings(max_examples=400, deadline=None)
@given(worlds())
def test_no_input_makes_a_plan_raise_and_equal_inputs_give_equal_plans(world: World) -> None:
    """Design: total, deterministic; invariant 5."""
    snapshot = world.snapshot()
    first, second = Engine(SETTINGS).plan(snapshot, world.now), Engine(SETTINGS).plan(snapshot, world.now)
    assert comparable(first) == comparable(second)
    if first.status is not None:
        assert msgspec.json.encode(first.status.build()) == msgspec.json.encode(second.status.build())  # type: ignore[union-attr]
        first.status.long_lists()


@settings(max_examples=200, deadline=None)
@given(worlds())
def test_a_plan_carried_out_leaves_nothing_to_do(world: World) -> None:
    """Trap 60, invariant 3: whatever stood there, some passes later the operator is silent."""
    world.busy = {}
    world.settle(CR_NAME)
    if CR_NAME in world.crs:
        assert world.step() == 0


@given(encoded(states))
def test_node_state_is_read_or_refused_and_written_as_it_was_read(found: str | None) -> None:
    """LIF-4, CON-10: byte-deterministic, keys of others kept."""
    state = node_state.parse(found)
    if not isinstance(state, Malformed):
        written = node_state.dump(state)
        assert node_state.parse(written) == state
        assert node_state.dump(node_state.parse(written)) == written  # type: ignore[arg-type]
        node_state.to_plain(state)


@pytest.mark.parametrize("depth", [900, 5_000, 100_000])
def test_json_nested_too_deep_is_malformed(depth: int) -> None:
    """LIF-4: an annotation may hold 256 KiB of brackets."""
    nest = "[" * depth + "]" * depth
    for found in (
        nest,
        f'{{"aa|1.0.0": {nest}}}',
        f'{{"aa|1.0.0": {{"version": "1.0.0", "stage": "apply", "x": {nest}}}}}',
    ):
        state = node_state.parse(found)
        if not isinstance(state, Malformed):
            node_state.dump(state)
            node_state.to_plain(state)
    assert pick.parse(f'{{"rollout": {nest}}}') is None


@pytest.mark.parametrize("field", ["rollout", "batch", "order"])
@pytest.mark.parametrize("value", [-1, 2**31, 10**30])
def test_a_pick_with_an_impossible_number_reads_as_none(field: str, value: int) -> None:
    """LIF-1."""
    good = {"rollout": 1, "batch": 1, "compartment": "__default__", "order": 0, "time": "t"}
    assert pick.parse(msgspec.json.encode(good).decode()) is not None
    text = msgspec.json.encode(good | {field: 0}).decode().replace(f'"{field}":0', f'"{field}":{value}')
    assert pick.parse(text) is None
