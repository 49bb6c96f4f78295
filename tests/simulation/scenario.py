"""What a seed stands for: nodes, NodeWrights, what containers do, and a list of things that happen, as plain JSON.

Everything random is drawn here, before the run; the run itself draws nothing. So a history can be shortened by leaving things out, be
read by a person, and be kept. Relied on by `world`, which plays it, and by `shrink`.
"""

import json
import random
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

Happening = dict[str, Any]
"""`at` (virtual seconds) and `do`; the rest depends on it: see `world.World`."""
PACKAGES = ("aa", "bb", "cc")
FAULTED = ("nodes", "nodewrights", "jobs", "configmaps", "pods", "deploymentpolicies")
EFFECTS = ("lost", "lost-after", "500", "500-after", "503", "429", "409", "slow", "slow-after", "hang")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A whole history before it happens."""

    seed: int
    nodes: list[str]
    crs: dict[str, dict[str, Any]]
    """Name to spec."""
    operators: int = 1
    elect: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    deletes: bool = False
    """Whether the NodeWrights are deleted at the end."""

    def to_json(self) -> str:
        """One happening a line, so that a person can read it."""
        plain = asdict(self)
        happenings = plain.pop("happenings")
        head = json.dumps(plain, indent=1)[:-2]
        lines = ",\n  ".join(json.dumps(one) for one in happenings)
        return f'{head},\n "happenings": [\n  {lines}\n ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The other way."""
        return cls(**json.loads(text))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Of a file."""
        return cls.from_json(path.read_text(encoding="utf-8"))

    def without(self, happenings: list[Happening]) -> "Scenario":
        """The same with these happenings left."""
        return replace(self, happenings=happenings)


def draw(seed: int) -> Scenario:
    """The scenario of a seed."""
    return _Draw(seed).scenario()


class _Draw:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        rnd = self.random
        self.nodes = [f"n{i}" for i in range(rnd.choices(range(1, 11), [10, 14, 14, 12, 8, 5, 4, 3, 2, 2])[0])]
        self.crs: dict[str, dict[str, Any]] = {}
        for index in range(rnd.choices([1, 2, 3], [65, 27, 8])[0] if len(self.nodes) < 7 else 1):
            self.crs[f"cr{index}"] = self._spec(index)
        self.length = rnd.choice([15.0, 30.0, 60.0, 120.0])
        self.operators = rnd.choices([1, 2], [60, 40])[0]

    def scenario(self) -> Scenario:
        rnd = self.random
        happenings = [self._happening() for _ in range(rnd.choices([0, 3, 8, 15, 25], [5, 20, 35, 25, 15])[0])]
        happenings += [self._in_the_dark(one) for one in happenings if one["do"] == "expire" and rnd.random() < 0.6]
        more = _More(self)
        if any(one["do"] in ("freeze", "deaf") for one in happenings) and rnd.random() < 0.7:
            self.operators = 2
        return Scenario(
            seed=self.seed,
            nodes=self.nodes,
            crs=self.crs,
            operators=self.operators,
            elect=self.operators > 1 or rnd.random() < 0.3,
            settings={"job_backoff_limit": rnd.choice([0, 1, 3]), "job_ttl_succeeded": rnd.choice([60.0, 3600.0])},
            rules=self._rules(),
            happenings=sorted(happenings + more.happenings(), key=lambda one: float(one["at"])),
            deletes=rnd.random() < 0.3,
        )

    def _spec(self, index: int) -> dict[str, Any]:
        rnd = self.random
        packages: dict[str, Any] = {}
        for name in PACKAGES[: rnd.choices([1, 2, 3], [50, 35, 15])[0]]:
            packages[name] = self._package({d: p["version"] for d, p in packages.items() if rnd.random() < 0.5})
        spec: dict[str, Any] = {
            "nodeSelectors": {"matchLabels": {"pool": "a"}},
            "packages": packages,
            "priority": 100 + index * rnd.choice([0, 10]),
            "serial": rnd.random() < 0.3,
            "sequencing": rnd.choice(["node", "node", "all"]),
        }
        budget = rnd.choice([None, {"count": 1}, {"count": 1}, {"count": 2}, {"count": 3}, {"percent": 30}])
        if budget is not None:
            spec["interruptionBudget"] = budget
        return spec

    def _package(self, depends: dict[str, str]) -> dict[str, Any]:
        package: dict[str, Any] = {"version": f"1.{self.random.randint(0, 2)}.0", "image": "registry.example/pkg"}
        if depends:
            package["dependsOn"] = depends
        if self.random.random() < 0.3:
            package["configMap"] = {"key": "one"}
        return package

    def _rules(self) -> list[str]:
        rnd = self.random
        rules = []
        for _ in range(rnd.choices([0, 1, 2, 3], [40, 30, 20, 10])[0]):
            where = [f"package={rnd.choice(PACKAGES)}", f"stage={rnd.choice(['apply', 'config'])}"]
            if rnd.random() < 0.6:
                where.append(f"node={rnd.choice(self.nodes)}")
            what = rnd.choice(
                ["attempt=1:fail=1", ":fail=3", "attempt=1:oom", "attempt=1:status_unknown", "attempt=1:evict",
                 "attempt=1:refuse_admission", "attempt=1-2:refuse_admission", "attempt=1:reboot=0.5", ":succeed=8",
                 "attempt=1:pull_failure=12", "attempt=1:fail=1,seconds=4"]
            )  # fmt: skip
            separator = "," if what.startswith("attempt") else ""
            rules.append(",".join(where) + separator + what)
        return rules

    def _at(self) -> float:
        return round(self.random.uniform(0.0, self.length), 2)

    def _operator(self) -> int:
        return self.random.randrange(self.operators)

    def _happening(self) -> Happening:
        moves = [
            (30, self._fault), (14, self._watch), (6, self._expire), (10, self._kill), (3, self._restart),
            (2, self._jump), (5, self._node_gone), (3, self._reboot), (3, self._kubelet), (4, self._taint),
            (4, self._ignore), (2, self._relabel), (5, self._delete), (6, self._edit), (5, self._order),
            (4, self._reset), (4, self._rerun), (4, self._foreign), (5, self._deaf), (7, self._freeze),
        ]  # fmt: skip
        move = self.random.choices([m for _, m in moves], [w for w, _ in moves])[0]
        happening = {"at": self._at(), **move()}
        if happening["do"] == "freeze" and self.random.random() < 0.5:
            happening["at"] = round(self.random.uniform(0.0, 8.0), 2)  # in the thick of it
        return happening

    def _fault(self) -> Happening:
        rnd = self.random
        effect = rnd.choice(EFFECTS)
        who = rnd.choices(["operator", "kubelet", "controllers"], [80, 10, 10])[0]
        if who == "kubelet" and effect == "409":
            effect = (
                "500"  # its patches have no precondition but the UID: a conflict would mean that the pod is another
            )
        return {
            "do": "fault",
            "who": who,
            "method": rnd.choice(["", "PATCH", "PATCH", "POST", "DELETE"]),
            "resource": rnd.choice(["", "", "nodes", "jobs", "nodewrights", "configmaps"]),
            "skip": rnd.choice([0, 0, 1, 2, 5]),
            "times": rnd.choice([1, 1, 2, 4]),
            "effect": effect,
            "seconds": round(rnd.uniform(0.05, 4.0), 2),
        }

    def _watch(self) -> Happening:
        rnd = self.random
        return {
            "do": rnd.choice(["cut", "end", "silence", "lag", "lag"]),
            "operator": self._operator(),
            "resource": rnd.choice(["", *FAULTED]),
            "seconds": round(rnd.uniform(0.5, 25.0), 2),
        }

    def _expire(self) -> Happening:
        return {"do": "expire", "operator": self._operator(), "seconds": self.random.choice([0.1, 3.0, 15.0])}

    def _in_the_dark(self, expire: Happening) -> Happening:
        """Something goes while nobody hears of it: only the list's difference tells."""
        at = round(expire["at"] + 0.4 * expire["seconds"], 2)
        return {"at": at, **self.random.choice([self._node_gone, self._delete, self._delete])()}

    def _deaf(self) -> Happening:
        return {"do": "deaf", "operator": self._operator(), "seconds": self.random.choice([10.0, 35.0, 60.0])}

    def _freeze(self) -> Happening:
        return {
            "do": "freeze",
            "leader": self.random.random() < 0.7,
            "operator": self._operator(),
            "seconds": self.random.choice([5.0, 40.0, 60.0]),
        }

    def _rerun(self) -> Happening:
        return {"do": "rerun", "cr": self._cr(), "node": self._node()}

    def _kill(self) -> Happening:
        rnd = self.random
        return {
            "do": "kill",
            "operator": self._operator(),
            "skip": rnd.choice([0, 0, 1, 2, 3, 5, 8]),
            "when": rnd.choice(["before", "after"]),
            "down": round(rnd.choice([0.0, 0.5, 20.0]) * rnd.random(), 2),
        }

    def _restart(self) -> Happening:
        return {"do": "restart", "operator": self._operator()}

    def _jump(self) -> Happening:
        return {"do": "jump", "operator": self._operator(), "seconds": self.random.choice([-3600, -30, 30, 3600])}

    def _node(self) -> str:
        return self.random.choice(self.nodes)

    def _cr(self) -> str:
        return self.random.choice(sorted(self.crs))

    def _node_gone(self) -> Happening:
        return {"do": "node-gone", "node": self._node(), "back": round(self.random.choice([0.05, 1.0, 30.0, 1e6]), 2)}

    def _reboot(self) -> Happening:
        return {"do": "reboot", "node": self._node(), "seconds": self.random.choice([0.5, 5.0, 30.0])}

    def _kubelet(self) -> Happening:
        return {"do": "kubelet-down", "node": self._node(), "seconds": self.random.choice([2.0, 20.0, 60.0])}

    def _taint(self) -> Happening:
        effect = self.random.choice(["NoSchedule", "NoExecute"])
        return {"do": "taint", "node": self._node(), "effect": effect, "seconds": self.random.choice([3.0, 20.0, 1e6])}

    def _ignore(self) -> Happening:
        return {"do": "ignore", "node": self._node(), "seconds": self.random.choice([3.0, 20.0, 1e6])}

    def _relabel(self) -> Happening:
        return {"do": "relabel", "node": self._node(), "seconds": self.random.choice([3.0, 20.0])}

    def _delete(self) -> Happening:
        return {"do": self.random.choice(["delete-job", "delete-pod"]), "which": self.random.randrange(100)}

    def _edit(self) -> Happening:
        rnd, cr = self.random, self._cr()
        spec = self.crs[cr]
        name = rnd.choice(sorted(spec["packages"]))
        what = rnd.choice(["version", "version", "budget", "serial", "package", "priority"])
        patch: dict[str, Any]
        match what:
            case "version":
                version = f"1.{rnd.randint(0, 3)}.0"
                patch = {"packages": {name: {"version": version}}}
                for other, package in spec["packages"].items():
                    if name in package.get("dependsOn", {}):
                        patch["packages"][other] = {"dependsOn": {name: version}}
            case "budget":
                budget = rnd.choice([{"count": 1, "percent": None}, {"count": 3, "percent": None}])
                patch = {"interruptionBudget": budget}
            case "serial":
                patch = {"serial": rnd.random() < 0.5}
            case "priority":
                patch = {"priority": rnd.choice([50, 100, 150])}
            case _:
                patch = {"packages": {"zz": rnd.choice([None, {"version": "1.0.0", "image": "registry.example/zz"}])}}
        return {"do": "edit", "cr": cr, "spec": patch}

    def _order(self) -> Happening:
        what = self.random.choice(["pause", "disable"])
        return {"do": "order", "cr": self._cr(), "what": what, "seconds": self.random.choice([1.0, 10.0, 40.0])}

    def _reset(self) -> Happening:
        return {"do": "reset", "cr": self._cr(), "node": self._node(), "entry": self.random.random() < 0.5}

    def _foreign(self) -> Happening:
        return {"do": self.random.choice(["touch", "touch-status"]), "cr": self._cr(), "node": self._node()}


class _More:
    """What came later, drawn from numbers of its own, so that everything else of a seed stays as it was."""

    def __init__(self, drawn: _Draw) -> None:
        self._drawn = drawn
        self.random = random.Random(f"more of {drawn.seed}")

    def happenings(self) -> list[Happening]:
        rnd = self.random
        moves = [
            self._reading, self._refused, self._cordon, self._burst, self._recreate, self._edit, self._configmap, self._apart,
        ]  # fmt: skip
        count = rnd.choices([0, 1, 2, 4], [35, 30, 20, 15])[0]
        chosen = rnd.choices(moves, [25, 15, 12, 12, 14, 16, 6, 16], k=count)
        return [{"at": round(rnd.uniform(0.0, self._drawn.length), 2), **move()} for move in chosen]

    def _reading(self) -> Happening:
        """Lists and live reads fail, and a list's past is forgotten."""
        effect = self.random.choice(["410", "410", "lost", "500", "503", "429", "slow-after", "hang"])
        return {
            "do": "fault", "who": "operator", "method": "GET",
            "resource": self.random.choice(["", "nodes", "jobs", "nodewrights", "pods"]),
            "skip": self.random.choice([0, 1, 3]), "times": self.random.choice([1, 2, 4]), "effect": effect,
            "seconds": round(self.random.uniform(0.05, 4.0), 2),
        }  # fmt: skip

    def _refused(self) -> Happening:
        """A quota or an admission webhook says no for a while: to pods (B112), or to a write of the operator."""
        who, method, resource = self.random.choice(
            [("controllers", "POST", "pods"), ("operator", "POST", "jobs"), ("operator", "PATCH", "nodes"),
             ("operator", "", "configmaps"), ("operator", "PATCH", "nodewrights")]
        )  # fmt: skip
        return {
            "do": "fault", "who": who, "method": method, "resource": resource, "skip": self.random.choice([0, 1, 3]),
            "times": self.random.choice([1, 3, 6]), "effect": self.random.choice(["403", "403", "422"]), "seconds": 0.0,
        }  # fmt: skip

    def _node(self) -> str:
        return self.random.choice(self._drawn.nodes)

    def _cr(self) -> str:
        return self.random.choice(sorted(self._drawn.crs))

    def _cordon(self) -> Happening:
        return {"do": "cordon", "node": self._node(), "seconds": self.random.choice([3.0, 20.0, 60.0])}

    def _burst(self) -> Happening:
        """Somebody writes the same node many times a second."""
        return {"do": "burst", "node": self._node(), "seconds": self.random.choice([2.0, 8.0])}

    def _recreate(self) -> Happening:
        return {"do": "recreate", "cr": self._cr(), "after": self.random.choice([0.0, 0.5, 10.0])}

    def _edit(self) -> Happening:
        cr = self._cr()
        package = self.random.choice(sorted(self._drawn.crs[cr]["packages"]))
        patch: dict[str, Any] = self.random.choice(
            [{"packages": {package: {"image": "registry.example/other"}}},
             {"packages": {package: {"env": [{"name": "LEVEL", "value": "2"}]}}},
             {"sequencing": "all"}, {"sequencing": "node"}, {"interruptionBudget": None},
             {"interruptionBudget": {"percent": 50, "count": None}}]
        )  # fmt: skip
        return {"do": "edit", "cr": cr, "spec": patch}

    def _apart(self) -> Happening:
        """A node is left alone from the beginning, for longer than others need: it still has all its work before it."""
        one: Happening = {"at": round(self.random.uniform(0.0, 0.5), 2), "node": self._node(), "seconds": 60.0}
        return self.random.choice([{"do": "ignore", **one}, {"do": "taint", "effect": "NoSchedule", **one}])

    def _configmap(self) -> Happening:
        return {"do": "delete-configmap", "which": self.random.randrange(100)}
