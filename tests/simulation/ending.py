"""What must be true once everything has converged: complete everywhere, nothing left over, nothing of others lost."""

from collections.abc import Iterator

from tests.faults.journal import Picture
from tests.faults.reading import KEY, entries, pick, spec, status
from tests.simulation.hand import PLANTED, Hand
from tests.simulation.scenario import Scenario


def faults_at_the_end(now: Picture, scenario: Scenario, hand: Hand) -> Iterator[str]:
    """Everything that is not as it should be."""
    for name in scenario.crs:
        cr = now.crs[name]
        wanted = {f"{package}|{fields['version']}" for package, fields in spec(cr)["packages"].items()}
        for node in now.nodes.values():
            state = entries(node, name)
            for key in sorted(wanted):
                entry = state.get(key)
                if entry is None or (entry["stage"], entry["state"]) != ("config", "complete"):
                    yield f"{name} {key} on {node.name} reads {entry}"
            found = (
                node.metadata.annotations.get(f"{KEY}/status_{name}"),
                node.metadata.labels.get(f"{KEY}/status_{name}"),
                next((c.status for c in node.status.conditions if c.type == f"{KEY}/{name}/NotReady"), None),
                next((c.status for c in node.status.conditions if c.type == f"{KEY}/{name}/Erroring"), None),
            )
            if found != ("complete", "complete", "False", "False"):
                yield f"{node.name} of {name}: status, label, NotReady, Erroring read {found}"
            place = pick(node, name)
            if place is not None and not place.get("completed"):
                yield f"{node.name} of {name}: its pick is open: {place}"
            if node.metadata.annotations.get(f"{KEY}/cordon_{name}"):
                yield f"{node.name} keeps the cordon of {name}"
        true = {c["type"] for c in status(cr).get("conditions") or () if c["status"] == "True"}
        if true != {"Ready"}:
            yield f"{name}: conditions {sorted(true)} are True"
        for package, fields in spec(cr)["packages"].items():
            if fields.get("configMap"):
                path = f"/api/v1/namespaces/nodewright/configmaps/{name}-{package}-{fields['version']}"
                answer = hand.ask("GET", path)
                if answer.get("data") != fields["configMap"]:
                    yield f"ConfigMap of {name} {package}: {answer.get('data')}"
    for node in now.nodes.values():
        for key, value in PLANTED.items():
            if node.metadata.annotations.get(key) != value:
                yield f"{node.name}: foreign annotation {key} reads {node.metadata.annotations.get(key)}"
        if node.spec.unschedulable:
            yield f"{node.name} is cordoned"
