"""What people and other software do to the cluster, at once and below all faults; the claims are told where a rule makes it a signal."""

from typing import Any, Final

import msgspec

from controller_runtime.testing.api_server import ApiRequest, ApiServer
from tests.faults.reading import KEY
from tests.simulation.claims import Claims
from tests.simulation.journal import Journal

MERGE: Final = "application/merge-patch+json"
PLANTED: Final = {"example.com/owner": "somebody else", "nodewright.nvidia.com.example/near": "not ours"}
COUNTER: Final = "example.com/counter"
TAINT: Final = "example.com/network"
NODEWRIGHTS: Final = f"/apis/{KEY}/v1alpha1/nodewrights"
JOBS: Final = "/apis/batch/v1/namespaces/nodewright/jobs"
CONFIGMAPS: Final = "/api/v1/namespaces/nodewright/configmaps"
PODS: Final = "/api/v1/namespaces/nodewright/pods"


class Hand:
    """Each method is one act."""

    def __init__(self, server: ApiServer, journal: Journal, claims: Claims) -> None:
        self._server = server
        self._journal = journal
        self._claims = claims
        self._count = 0

    def ask(self, method: str, path: str, body: Any = None, content_type: str = MERGE, **query: str) -> dict[str, Any]:
        """One request; the answer's body, with `code` in a refusal."""
        encoded = b"" if body is None else msgspec.json.encode(body)
        answer = self._server.handle(
            ApiRequest(
                method=method, path=path, query=query, body=encoded, content_type=content_type, user_agent="hand"
            )
        )
        decoded: dict[str, Any] = msgspec.json.decode(answer.body)
        return decoded

    def create_cr(self, name: str, spec: dict[str, Any]) -> None:
        """`kubectl create`."""
        body = {"apiVersion": f"{KEY}/v1alpha1", "kind": "NodeWright", "metadata": {"name": name}, "spec": spec}
        answer = self.ask("POST", NODEWRIGHTS, body, "application/json")
        assert answer.get("kind") == "NodeWright", answer

    def delete_cr(self, name: str) -> None:
        """`kubectl delete`."""
        self.ask("DELETE", f"{NODEWRIGHTS}/{name}")

    def edit(self, name: str, spec: dict[str, Any]) -> None:
        """Merge into the spec."""
        self.ask("PATCH", f"{NODEWRIGHTS}/{name}", {"spec": spec})

    def order(self, name: str, **orders: str | None) -> None:
        """Set or remove `pause` and `disable`."""
        annotations = {f"{KEY}/{key}": value for key, value in orders.items()}
        self.ask("PATCH", f"{NODEWRIGHTS}/{name}", {"metadata": {"annotations": annotations}})

    def touch_status(self, name: str) -> None:
        """Write what is only published (LIF-1)."""
        self.ask(
            "PATCH", f"{NODEWRIGHTS}/{name}/status",
            {"status": {"status": "complete", "nodeStatus": {"n0": "complete", "nobody": "erroring"}, "completeNodes": "7/7"}},
        )  # fmt: skip

    def is_there(self, name: str) -> bool:
        """Whether a NodeWright of that name is, in deletion or not."""
        return name in self._journal.now.crs

    def delete_configmap(self, which: int) -> None:
        """`kubectl delete configmap` of one of a package; nodes' metadata too."""
        found = self.ask("GET", CONFIGMAPS).get("items") or ()
        names = sorted(one["metadata"]["name"] for one in found)
        if names:
            self.ask("DELETE", f"{CONFIGMAPS}/{names[which % len(names)]}")

    # --- nodes

    def node(self, name: str, patch: dict[str, Any]) -> None:
        """Merge into a node; one that is away is left alone."""
        self.ask("PATCH", f"/api/v1/nodes/{name}", patch)

    def taint(self, name: str, effect: str) -> None:
        """A taint that packages do not tolerate."""
        self._taints(name, [{"key": TAINT, "value": "down", "effect": effect}])

    def untaint(self, name: str) -> None:
        """Take it off."""
        self._claims.rejoined(name, self._journal)
        self._taints(name, [])

    def _taints(self, name: str, ours: list[dict[str, str]]) -> None:
        found = self.ask("GET", f"/api/v1/nodes/{name}")
        if found.get("kind") == "Node":
            kept = [taint for taint in found["spec"].get("taints") or () if taint["key"] != TAINT]
            self.node(name, {"spec": {"taints": [*kept, *ours] or None}})

    def cordon(self, name: str, *, on: bool) -> None:
        """`kubectl cordon` and `uncordon`."""
        self.node(name, {"spec": {"unschedulable": True if on else None}})

    def ignore(self, name: str, *, on: bool) -> None:
        """ROL-2."""
        self._claims.rejoined(name, self._journal)
        self.label(name, **{f"{KEY}/ignore": "true" if on else None})

    def label(self, name: str, **labels: str | None) -> None:
        """Set labels."""
        self._claims.rejoined(name, self._journal)
        self.node(name, {"metadata": {"labels": labels}})

    def touch(self, name: str) -> None:
        """Another writer counts up its own annotation."""
        self._count += 1
        self.node(name, {"metadata": {"annotations": {COUNTER: str(self._count)}}})

    def mend_node(self, name: str) -> None:
        """As it should be."""
        self.untaint(name)
        self.cordon(name, on=False)
        self.label(name, pool="a", **{f"{KEY}/ignore": None})

    def reset(self, cr: str, node: str, *, one_entry: bool) -> None:
        """CHG-14 by hand: remove node state, or its first entry."""
        found = self._journal.now.nodes.get(node)
        key = f"{KEY}/nodeState_{cr}"
        text = found.metadata.annotations.get(key) if found is not None else None
        if not text:
            return
        self._claims.was_reset(cr, node, self._journal)
        state = msgspec.json.decode(text)
        if one_entry:
            state.pop(min(state), None)
        rest = msgspec.json.encode(state).decode() if one_entry and state else None
        self.node(node, {"metadata": {"annotations": {key: rest}}})

    def rerun(self, cr: str, node: str) -> None:
        """By hand: send the first entry back to its stage's start, without a run (LIF-12a)."""
        found = self._journal.now.nodes.get(node)
        key = f"{KEY}/nodeState_{cr}"
        text = found.metadata.annotations.get(key) if found is not None else None
        if not text:
            return
        self._claims.was_reset(cr, node, self._journal)
        state = msgspec.json.decode(text)
        entry = state[min(state)]
        entry.update(stage="apply", state="in_progress")
        entry.pop("run", None)
        self.node(node, {"metadata": {"annotations": {key: msgspec.json.encode(state).decode()}}})

    # --- Jobs and pods

    def delete_job(self, name: str) -> None:
        """`kubectl delete job`."""
        job = self._journal.now.jobs.get(name)
        if job is not None:
            self._claims.signals.deleted.add(job.metadata.uid)
        self.ask("DELETE", f"{JOBS}/{name}", {"propagationPolicy": "Background"}, "application/json")

    def delete_pod(self, name: str) -> None:
        """`kubectl delete pod`."""
        self.ask("DELETE", f"{PODS}/{name}")
