"""One scenario of the suite: its nodes, its NodeWrights, and the words to arrange, wait and look.

``@scenario`` makes a test of an async function that takes a ``Scenario``. All scenarios of a run begin when the first is asked for,
side by side; a test waits for its own, so that each claim is reported by itself and the suite takes as long as its slowest part.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from controller_runtime.transport import ApiError, Client, NotFound, PatchType, Resource
from nodewright.simulator.kubelets import NodeTemplate
from nodewright.simulator.ledger import Entry
from tests.cluster.observer import CONFIG_MAP, JOB, KEY, NAMESPACE, NODE, NODEWRIGHT, POD, Observer, Thing

if TYPE_CHECKING:
    from tests.cluster.harness import Stage

SOON: Final = 30.0
"""Seconds that anything which takes a few API calls may take on a busy machine."""
Propagation = Literal["Background", "Foreground", "Orphan"]
Body = Callable[["Scenario"], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Play:
    """A scenario as declared: ``within`` seconds in all, ``exclusive`` for one that needs the operator for itself."""

    body: Body
    within: float
    exclusive: bool

    @property
    def name(self) -> str:
        """Unique in the run."""
        return f"{self.body.__module__}.{self.body.__name__}"

    @property
    def short_name(self) -> str:
        """For objects: short enough for a CR's name with a suffix, and for a person to recognise."""
        words = self.body.__name__.removeprefix("test_").replace("_", "-")
        return f"{words[:28].strip('-')}-{hashlib.sha256(self.name.encode()).hexdigest()[:4]}"


def scenario(*, within: float = 90.0, exclusive: bool = False) -> Callable[[Body], Callable[["Stage"], None]]:
    """Make a test of ``async def body(s: Scenario)``."""

    def decorate(body: Body) -> Callable[["Stage"], None]:
        play = Play(body=body, within=within, exclusive=exclusive)

        def test(stage: "Stage") -> None:
            stage.wait_for(play)

        test.__name__, test.__doc__, test.__module__ = body.__name__, body.__doc__, body.__module__
        test.play = play  # type: ignore[attr-defined]
        return test

    return decorate


def package(version: str = "1.0.0", **fields: Any) -> dict[str, Any]:
    """A package as in a spec."""
    return {"version": version, "image": "ghcr.io/example/packages/sample", **fields}


class Scenario:
    """What a scenario arranges and sees. ``name`` is the name of its first CR and the start of its nodes' names."""

    def __init__(self, stage: "Stage", name: str) -> None:
        self.stage = stage
        self.name = name
        self._crs: list[str] = []
        self._nodes: list[str] = []
        self.picture = ""

    @property
    def client(self) -> Client:
        """The administrator's."""
        return self.stage.client

    @property
    def observer(self) -> Observer:
        """The live picture."""
        return self.stage.observer

    # --- arrange -------------------------------------------------------------------------------------------------

    async def nodes(self, count: int, **labels: str) -> list[str]:
        """Nodes of this scenario, ``<name>-n0`` and on, with the label that ``selector`` selects."""
        template = self.template(**labels)
        names = [f"{self.name}-n{len(self._nodes) + number}" for number in range(count)]
        self._nodes += names
        for name in names:
            await self.stage.kubelets.add_node(name, template)
        await self.until(lambda: all(self._is_ready(name) for name in names), "the cluster calls the new nodes ready")
        return names

    def _is_ready(self, name: str) -> bool:
        """Whether the node is there without the taint that every new node gets for a moment."""
        node = self.observer.nodes.get(name)
        taints = () if node is None else node.spec.get("taints", ())
        return node is not None and all(taint["key"] != "node.kubernetes.io/not-ready" for taint in taints)

    def template(self, **labels: str) -> NodeTemplate:
        """What a node of this scenario is like."""
        return NodeTemplate(labels={"scenario": self.name, **labels})

    @property
    def selector(self) -> dict[str, Any]:
        """Selects this scenario's nodes."""
        return {"matchLabels": {"scenario": self.name}}

    async def apply(
        self,
        packages: Mapping[str, Mapping[str, Any]],
        *,
        cr: str | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Create a NodeWright on this scenario's nodes."""
        name = cr or self.name
        self._crs.append(name)
        body = {
            "apiVersion": f"{KEY}/v1alpha1",
            "kind": "NodeWright",
            "metadata": {"name": name, "annotations": dict(annotations or {})},
            "spec": {"nodeSelectors": self.selector, "packages": packages, **spec},
        }
        self.observer.crs.observe(await self.client.create(NODEWRIGHT, body))

    async def edit(self, *, cr: str | None = None, **spec: Any) -> None:
        """Merge into the spec."""
        await self.merge(NODEWRIGHT, cr or self.name, {"spec": spec})

    async def annotate(self, *, cr: str | None = None, **keys: str | None) -> None:
        """Set or remove annotations of ours (``pause``, ``disable``) on the CR."""
        body = {"metadata": {"annotations": {f"{KEY}/{key}": value for key, value in keys.items()}}}
        await self.merge(NODEWRIGHT, cr or self.name, body)

    async def merge(self, resource: Resource, name: str, body: Mapping[str, Any], *, status: bool = False) -> None:
        """Merge patch as the administrator."""
        namespace = NAMESPACE if resource.namespaced else None
        subresource = "status" if status else None
        answer = await self.client.patch(
            resource, name, body, PatchType.MERGE, namespace=namespace, subresource=subresource
        )
        self.observer.take(resource, answer)  # what is awaited next is about the object as it is now

    async def patch_node(
        self,
        name: str,
        annotations: Mapping[str, str | None] | None = None,
        *,
        labels: Mapping[str, str | None] | None = None,
    ) -> None:
        """Merge annotations of ours by their name part, and labels."""
        keys = {f"{KEY}/{key}": value for key, value in (annotations or {}).items()}
        await self.merge(NODE, name, {"metadata": {"labels": dict(labels or {}), "annotations": keys}})

    async def taint(self, node: str, *taints: Mapping[str, str]) -> None:
        """Replace the node's taints."""
        await self.merge(NODE, node, {"spec": {"taints": list(taints)}})

    async def delete(self, resource: Resource, name: str, *, propagation: Propagation = "Background") -> None:
        """Delete, as the administrator."""
        namespace = NAMESPACE if resource.namespaced else None
        await self.client.delete(resource, name, namespace=namespace, propagation=propagation)

    async def delete_cr(
        self, cr: str | None = None, *, propagation: Propagation = "Background", within: float = SOON
    ) -> None:
        """Delete the CR and wait until it is gone."""
        await self.delete(NODEWRIGHT, cr or self.name, propagation=propagation)
        await self.until(lambda: self.cr_or_none(cr) is None, "the CR is gone", within=within)

    def rules(self, *texts: str, cr: str | None = None) -> None:
        """Behaviour of this CR's containers, e.g. ``stage=apply,attempt=1:fail=1``."""
        self.stage.add_rules(*(f"cr={cr or self.name}{',' * (not text.startswith(':'))}{text}" for text in texts))

    def no_rules(self, cr: str | None = None) -> None:
        """Containers that start from now on behave."""
        self.stage.drop_rules(cr or self.name)

    # --- look ----------------------------------------------------------------------------------------------------

    def cr_or_none(self, cr: str | None = None) -> Thing | None:
        """The CR, if it is there."""
        return self.observer.crs.get(cr or self.name)

    def cr(self, cr: str | None = None) -> Thing:
        """The CR."""
        found = self.cr_or_none(cr)
        assert found is not None, f"there is no NodeWright {cr or self.name}"
        return found

    def status(self, cr: str | None = None) -> str:
        """The CR's published Status, "" before the first."""
        return str(self.cr(cr).status.get("status", ""))

    def node(self, name: str) -> Thing:
        """The node."""
        found = self.observer.nodes.get(name)
        assert found is not None, f"there is no node {name}"
        return found

    def node_status(self, node: str, cr: str | None = None) -> str | None:
        """The node's Status for the CR, as annotated."""
        return self.node(node).key(f"status_{cr or self.name}")

    def node_state(self, node: str, cr: str | None = None) -> dict[str, Any]:
        """Node state, {} when there is none."""
        text = self.node(node).key(f"nodeState_{cr or self.name}")
        return dict(json.loads(text)) if text else {}

    def entry(self, node: str, key: str, cr: str | None = None) -> tuple[str, str] | None:
        """(stage, state) of the entry ``package|version``."""
        found = self.node_state(node, cr).get(key)
        return (found["stage"], found["state"]) if found else None

    def jobs(self, cr: str | None = None, *, node: str | None = None, stage: str | None = None) -> list[Thing]:
        """The CR's Jobs, those in deletion included."""
        jobs = self.observer.jobs.by_index("cr", cr or self.name)
        return [j for j in jobs if node in (None, j.label("node")) and stage in (None, j.label("stage"))]

    def job(self, *, node: str | None = None, stage: str | None = None, cr: str | None = None) -> Thing:
        """The only Job of that node and stage."""
        (found,) = self.jobs(cr, node=node, stage=stage)
        return found

    def pods(self, cr: str | None = None, *, node: str | None = None) -> list[Thing]:
        """The CR's pods."""
        return [p for p in self.observer.pods.by_index("cr", cr or self.name) if node in (None, p.label("node"))]

    def config_maps(self, cr: str | None = None) -> list[Thing]:
        """The CR's ConfigMaps, those with node metadata included."""
        return list(self.observer.config_maps.by_index("cr", cr or self.name))

    def events(self, about: str | None = None, *, reason: str | None = None) -> list[Thing]:
        """Events about the object of that name (default: the CR)."""
        events = self.observer.events.by_index("regarding", about or self.name)
        return [e for e in events if reason in (None, e.reason)]

    def ledger(self, *, event: str = "start", cr: str | None = None, container: str = "") -> list[Entry]:
        """What really ran for the CR: entries of that kind, of containers whose name ends so."""
        entries = self.stage.kubelets.ledger.entries
        return [
            e for e in entries if e.cr == (cr or self.name) and e.event == event and e.container.endswith(container)
        ]

    def ran(self, stage: str, *, node: str | None = None, package: str | None = None, cr: str | None = None) -> int:
        """How often that stage's work container was started."""
        starts = self.ledger(cr=cr, container=f"-{stage}")
        return sum(1 for e in starts if node in (None, e.node) and package in (None, e.package))

    # --- wait ----------------------------------------------------------------------------------------------------

    async def until(self, true: Callable[[], object], what: str, *, within: float = SOON) -> None:
        """Wait until ``true()`` is; AssertionError with a picture of the scenario after ``within`` seconds."""
        if not await self.observer.until(true, within=within):
            raise AssertionError(f"{self.name}: not within {within:.0f} s: {what}")

    async def until_status(self, status: str, *, cr: str | None = None, within: float = SOON) -> None:
        """Wait until the CR's Status is that, for its current generation."""

        def reached() -> bool:
            seen = self.cr_or_none(cr)
            if seen is None or seen.status.get("observedGeneration") != seen.metadata.generation:
                return False
            return seen.status.get("status") == status

        await self.until(reached, f"{cr or self.name} is {status}", within=within)

    async def until_node(self, node: str, status: str, *, cr: str | None = None, within: float = SOON) -> None:
        """Wait until the node's Status for the CR is that."""
        await self.until(lambda: self.node_status(node, cr) == status, f"{node} is {status}", within=within)

    async def never(self, wrong: Callable[[], object], what: str, *, during: float) -> None:
        """AssertionError as soon as ``wrong()`` is true within the next ``during`` seconds."""
        if await self.observer.until(wrong, within=during):
            raise AssertionError(f"{self.name}: {what}")

    async def until_condition(
        self, type_: str, *, is_true: bool = True, cr: str | None = None, within: float = SOON
    ) -> dict[str, Any]:
        """Wait for the CR's condition, and give it."""
        await self.until(
            lambda: self.cr(cr).is_true(type_) is is_true, f"condition {type_} is {is_true}", within=within
        )
        return self.cr(cr).condition(type_) or {}

    async def until_event(self, reason: str, about: str | None = None, *, within: float = SOON) -> Thing:
        """Wait for an event, and give it."""
        await self.until(lambda: self.events(about, reason=reason), f"event {reason}", within=within)
        return self.events(about, reason=reason)[0]

    # --- end -----------------------------------------------------------------------------------------------------

    async def clean_up(self) -> None:
        """Take the picture for a failure's message, then remove everything; a CR that does not go loses its finalizer."""
        self.picture = self._take_picture()
        left: list[str] = []
        for cr in self._crs:
            self.no_rules(cr)
            try:
                await self.delete(NODEWRIGHT, cr)
            except NotFound:
                continue
        for cr in self._crs:
            if not await self.observer.until(lambda cr=cr: self.cr_or_none(cr) is None, within=15):  # type: ignore[misc]
                left.append(cr)
                await self._quietly(self.merge(NODEWRIGHT, cr, {"metadata": {"finalizers": None}}))
        for node in self._nodes:
            await self._quietly(self.stage.kubelets.delete_node(node))
        for resource, things in ((JOB, self.jobs), (POD, self.pods), (CONFIG_MAP, self.config_maps)):
            for cr in self._crs if left else ():
                for thing in things(cr):
                    await self._quietly(self.delete(resource, thing.name))
        assert not left, f"NodeWrights that did not go within 15 s of their deletion: {left}"

    async def _quietly(self, work: Awaitable[object]) -> None:
        try:
            await work
        except (ApiError, KeyError):
            await asyncio.sleep(0)

    def _take_picture(self) -> str:
        lines = ["", f"--- {self.name} at its end"]
        for cr in self._crs:
            found = self.cr_or_none(cr)
            if found is None:
                lines.append(f"NodeWright {cr}: gone")
                continue
            shown = {key: value for key, value in found.status.items() if key not in ("nodeState", "conditions")}
            lines.append(f"NodeWright {cr}: generation {found.metadata.generation} {json.dumps(shown)}")
            lines += [
                f"  {c['type']}={c['status']} {c['reason']}: {c['message']}" for c in found.status.get("conditions", ())
            ]
            for job in (job for job in self.jobs(cr) if not job.is_true("Complete")):
                conditions = [c["type"] for c in job.status.get("conditions", ()) if c["status"] == "True"]
                lines.append(f"  Job {job.name} {conditions} suspend={job.spec.get('suspend')} going={job.terminating}")
            for pod in (pod for pod in self.pods(cr) if pod.status.get("phase") != "Succeeded"):
                lines.append(f"  Pod {pod.name} {pod.status.get('phase')} going={pod.terminating}")
            lines += [f"  Event {e.type} {e.reason}: {e.note}" for e in self.events(cr)]
        for name in self._nodes:
            node = self.observer.nodes.get(name)
            ours = (
                {}
                if node is None
                else {k.removeprefix(KEY): v for k, v in node.annotations.items() if k.startswith(KEY)}
            )
            lines.append(f"Node {name}: {'gone' if node is None else ours}")
        return "\n".join(lines)
