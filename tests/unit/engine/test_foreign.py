"""Node metadata ConfigMaps that are not the CR's own: what pods mount must not go under them (CHG-13, CON-16)."""

from nodewright.api import keys
from nodewright.model.objects import ConfigMap, ObjectMeta, OwnerReference
from tests.unit.engine.world import CR_NAME, World, package

NAME = keys.node_metadata_configmap_name(cr=CR_NAME, node="n1")


def warnings(world: World) -> list[str]:
    return [e.reason for e in world.events if e.type.value == "Warning"]


def with_foreign(*owners: OwnerReference) -> World:
    """A CR that has just been made, and a ConfigMap under the name of n1's."""
    world = World("n1", "n2")
    meta = ObjectMeta(name=NAME, uid="cm-old", labels={keys.NODE_META_LABEL: CR_NAME}, owner_references=owners)
    world.configmaps[NAME] = ConfigMap(meta, data={"labels.json": "{}"})
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 1})
    return world


def owner(name: str, kind: str = keys.NODEWRIGHT_KIND) -> OwnerReference:
    return OwnerReference(kind=kind, name=name, uid="of-old", controller=True)


def test_one_of_an_earlier_cr_of_that_name_is_never_written_but_goes_first() -> None:
    """CHG-13: the garbage collector would take it under the pods; without a word to anybody, and n1 keeps its turn."""
    world = with_foreign(owner(CR_NAME))
    plan = world.plan()
    assert [delete.current.metadata.uid for delete in plan.configmap_deletes] == ["cm-old"]
    assert not [n for n in plan.nodes if n.node.name == "n1" and (n.metadata or n.creates)]
    assert plan.status is not None
    assert plan.status.build()["nodeStatus"]["n1"] == "waiting"
    world.run()
    assert set(world.statuses().values()) == {"complete"}
    assert warnings(world) == []


def test_a_member_at_work_keeps_its_slot_while_the_old_configmap_goes() -> None:
    """CHG-13, ROL-10: it goes on by itself."""
    world = World("n1", "n2")
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 1})
    world.settle()
    del world.crs[CR_NAME]
    world.engine.forget(CR_NAME)
    for job in list(world.jobs):
        world.drop(job)
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 1})
    world.step()
    assert world.running() == []
    world.settle()
    assert world.running() == ["n1:kernel-1.0.0:apply"]
    uid = world.crs[CR_NAME].meta.uid
    assert {c.metadata.owner_references[0].uid for c in world.configmaps.values()} == {uid}


def test_one_that_somebody_else_owns_is_left_alone_and_shows_once() -> None:
    """CHG-13, CON-16: its node reads blocked, the others go on; when it is gone the node does too."""
    world = with_foreign(owner("other", kind="Deployment"))
    kept = world.configmaps[NAME]
    world.run()
    assert world.configmaps[NAME] is kept
    assert world.statuses() == {"n1": "blocked", "n2": "complete"}
    assert warnings(world) == ["ConfigMapRefused"]
    del world.configmaps[NAME]
    world.run()
    assert world.status("n1") == "complete"
    assert warnings(world) == ["ConfigMapRefused"]
