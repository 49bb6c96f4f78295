"""Cases of server-side apply and of who owns what; see `objects_cases.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.contract.objects_cases import ABSENT


@dataclass(frozen=True, kw_only=True)
class Step:
    """One write: `apply`, `create` or `merge` (a merge patch), by a manager."""

    verb: str
    manager: str
    fields: Mapping[str, Any]
    force: bool = False
    subresource: str = ""
    refused: tuple[int, str] | None = None
    invalid: bool = False
    """Whether validation refuses what comes of it."""


@dataclass(frozen=True, kw_only=True)
class ApplyCase:
    """Writes one after the other on one object; what it is then, and what each manager owns."""

    name: str
    kind: str = "widget"
    steps: tuple[Step, ...]
    expect: Mapping[str, Any] = field(default_factory=dict)
    owned: Mapping[str, Any] | None = None
    """FieldsV1 by `OPERATION manager[/subresource]`, all of them; metadata apart, unless `metadata` is set."""
    metadata: bool = False
    untimed: tuple[str, ...] = ()
    """Managers whose entry has no time."""


def _apply(manager: str, spec: Mapping[str, Any], **rest: Any) -> Step:
    return Step(verb="apply", manager=manager, fields={"spec": spec}, **rest)


def _merge(manager: str, spec: Mapping[str, Any], **rest: Any) -> Step:
    return Step(verb="merge", manager=manager, fields={"spec": spec}, **rest)


def _create(manager: str, spec: Mapping[str, Any]) -> Step:
    return Step(verb="create", manager=manager, fields={"spec": spec})


_BARE = {"tone": "calm", "hue": "red", "nested": {"depth": 3}}
"""All defaults given, so that defaults play no part in who owns what."""
_PART_A, _PART_B = 'k:{"id":"a"}', 'k:{"id":"b"}'
_EMPTY: dict[str, Any] = {}

APPLIES: Final = (
    ApplyCase(
        name="an apply creates, and owns what it says",
        steps=(
            _apply(
                "one",
                {"replicas": 1, "words": ["x"], "parts": [{"id": "a"}], "selector": {"k": "v"}, "options": {"o": "1"}},
            ),
        ),
        expect={"spec.replicas": 1, "spec.tone": "calm"},
        owned={
            "Apply one": {
                "f:spec": {
                    "f:replicas": {},
                    "f:words": {},
                    "f:selector": {},
                    "f:parts": {_PART_A: {".": {}, "f:id": {}}},
                    "f:options": {"f:o": {}},
                }
            }
        },
    ),
    ApplyCase(
        name="a create owns containers and defaults too",
        steps=(_create("one", {**_BARE, "replicas": 1, "parts": [{"id": "a", "size": 1}], "free": {"x": {"y": 1}}}),),
        owned={
            "Update one": {
                "f:spec": {
                    ".": {},
                    "f:tone": {},
                    "f:hue": {},
                    "f:nested": {".": {}, "f:depth": {}},
                    "f:replicas": {},
                    "f:parts": {".": {}, _PART_A: {".": {}, "f:id": {}, "f:size": {}}},
                    "f:free": {".": {}, "f:x": {".": {}, "f:y": {}}},
                }
            }
        },
    ),
    ApplyCase(
        name="a conflict with an applier",
        steps=(
            _apply("one", {"replicas": 1}),
            _apply(
                "two",
                {"replicas": 2},
                refused=(409, 'Apply failed with 1 conflict: conflict with "one": .spec.replicas'),
            ),
        ),
        expect={"spec.replicas": 1},
        owned={"Apply one": {"f:spec": {"f:replicas": {}}}},
    ),
    ApplyCase(
        name="conflicts with several, of updates with the version",
        steps=(
            _apply("one", {"replicas": 1, "parts": [{"id": "a", "size": 1}]}),
            _merge("two", {"mode": "a"}),
            _apply(
                "three",
                {"replicas": 2, "mode": "b", "parts": [{"id": "a", "size": 2}]},
                refused=(
                    409,
                    'Apply failed with 3 conflicts: conflicts with "one":\n- .spec.replicas\n- .spec.parts[id="a"].size\n'
                    'conflicts with "two" using contract.example.com/v1:\n- .spec.mode',
                ),
            ),
        ),
    ),
    ApplyCase(
        name="a conflict with a status writer",
        steps=(
            _apply("one", {"replicas": 1}),
            Step(verb="merge", manager="two", fields={"status": {"phase": "Up"}}, subresource="status"),
            Step(
                verb="apply",
                manager="three",
                fields={"status": {"phase": "Down"}},
                subresource="status",
                refused=(
                    409,
                    'Apply failed with 1 conflict: conflict with "two" with subresource "status" using '
                    "contract.example.com/v1: .status.phase",
                ),
            ),
        ),
        owned={
            "Apply one": {"f:spec": {"f:replicas": {}}},
            "Update two/status": {"f:status": {".": {}, "f:phase": {}}},
        },
    ),
    ApplyCase(
        name="force takes over",
        steps=(_apply("one", {"replicas": 1, "mode": "a"}), _apply("two", {"replicas": 2}, force=True)),
        expect={"spec.replicas": 2, "spec.mode": "a"},
        owned={"Apply one": {"f:spec": {"f:mode": {}}}, "Apply two": {"f:spec": {"f:replicas": {}}}},
    ),
    ApplyCase(
        name="force that takes all ends the other's entry",
        steps=(_apply("one", {"replicas": 1}), _apply("two", {"replicas": 2}, force=True)),
        owned={"Apply two": {"f:spec": {"f:replicas": {}}}},
    ),
    ApplyCase(
        name="the same value is owned together",
        steps=(_apply("one", {"replicas": 1}), _apply("two", {"replicas": 1})),
        owned={"Apply one": {"f:spec": {"f:replicas": {}}}, "Apply two": {"f:spec": {"f:replicas": {}}}},
        untimed=("two",),
    ),
    ApplyCase(
        name="what is left out goes",
        steps=(
            _apply("one", {"replicas": 1, "mode": "a", "options": {"o": "1"}, "parts": [{"id": "a"}, {"id": "b"}]}),
            _apply("one", {"replicas": 1, "parts": [{"id": "b"}]}),
        ),
        expect={"spec.mode": None, "spec.options": None, "spec.parts.*id": ["b"], "spec.replicas": 1},
        owned={"Apply one": {"f:spec": {"f:replicas": {}, "f:parts": {_PART_B: {".": {}, "f:id": {}}}}}},
    ),
    ApplyCase(
        name="what is left out stays where another owns it",
        steps=(
            _apply("one", {"replicas": 1, "mode": "a"}),
            _apply("two", {"mode": "a"}),
            _apply("one", {"replicas": 1}),
        ),
        expect={"spec.mode": "a"},
        owned={"Apply one": {"f:spec": {"f:replicas": {}}}, "Apply two": {"f:spec": {"f:mode": {}}}},
        untimed=("two",),
    ),
    ApplyCase(
        name="a list that loses its last element is null, which validation refuses",
        steps=(
            _apply("one", {"parts": [{"id": "a"}]}),
            _merge("two", {"parts": [{"id": "a", "size": 7}]}),
            _apply("one", {"replicas": 1}, invalid=True),
        ),
        expect={"spec.parts": [{"id": "a", "size": 7}]},
        owned={
            "Apply one": {"f:spec": {"f:parts": {_PART_A: {".": {}, "f:id": {}}}}},
            "Update two": {"f:spec": {"f:parts": {_PART_A: {"f:size": {}}}}},
        },
    ),
    ApplyCase(
        name="an emptied spec keeps what nobody owns",
        steps=(_apply("one", {"replicas": 1}), _apply("one", {})),
        expect={"spec": {"tone": "calm", "hue": "red", "nested": {"depth": 3}}},
        owned={"Apply one": {"f:spec": {}}},
    ),
    ApplyCase(
        name="a map emptied by its owner is null, which validation refuses",
        steps=(
            _apply("one", {"replicas": 1, "options": {"o": "1"}}),
            _apply("one", {"replicas": 1, "options": {}}, invalid=True),
        ),
    ),
    ApplyCase(
        name="a list emptied by its owner is gone",
        steps=(_apply("one", {"replicas": 1, "colours": ["red"]}), _apply("one", {"replicas": 1, "colours": []})),
        expect={"spec.colours": ABSENT},
        owned={"Apply one": {"f:spec": {"f:replicas": {}}}},
    ),
    ApplyCase(
        name="an emptied map with a default gets it",
        steps=(
            _apply("one", {"replicas": 1, "nested": {"depth": 5}}),
            _merge("two", {"nested": {"note": "n"}}),
            _apply("one", {"replicas": 1}),
        ),
        expect={"spec.nested": {"depth": 3, "note": "n"}},
        owned={
            "Apply one": {"f:spec": {"f:replicas": {}}},
            "Update two": {"f:spec": {"f:nested": {"f:note": {}}}},
        },
    ),
    ApplyCase(
        name="nobody owns an empty list, everybody an empty map",
        steps=(_apply("one", {"parts": [], "words": [], "options": {}, "nested": {}, "selector": {}}),),
        owned={"Apply one": {"f:spec": {"f:words": {}, "f:options": {}, "f:nested": {}, "f:selector": {}}}},
    ),
    ApplyCase(
        name="an apply that owns nothing leaves no record, so that the next starts one for what is there",
        steps=(_apply("one", {"parts": []}), _apply("one", {"replicas": 1})),
        expect={"spec.replicas": 1, "spec.parts": []},
        owned={
            "Apply one": {"f:spec": {"f:replicas": {}}},
            "Update before-first-apply": {
                "f:spec": {
                    ".": {},
                    "f:parts": {},
                    "f:tone": {},
                    "f:hue": {},
                    "f:nested": {".": {}, "f:depth": {}},
                }
            },
        },
    ),
    ApplyCase(
        name="null in an apply leaves a container to its owners",
        steps=(_apply("one", {"options": {"o": "1"}}), _apply("two", {"options": None, "mode": "a"})),
        expect={"spec.options": {"o": "1"}},
        owned={
            "Apply one": {"f:spec": {"f:options": {"f:o": {}}}},
            "Apply two": {"f:spec": {"f:options": {}, "f:mode": {}}},
        },
    ),
    ApplyCase(
        name="a deep change of an atomic container and of free fields",
        steps=(
            _apply("one", {"free": {"f": {"h": 1, "i": [1]}}}),
            _merge("two", {"free": {"f": {"h": 2}, "g": {}}}),
            _apply("one", {"free": {"f": {"i": [1]}}}),
        ),
        expect={"spec.free": {"f": {"h": 2, "i": [1]}, "g": {}}},
        owned={
            "Apply one": {"f:spec": {"f:free": {"f:f": {".": {}, "f:i": {}}}}},
            "Update two": {"f:spec": {"f:free": {"f:f": {"f:h": {}}, "f:g": {}}}},
        },
    ),
    ApplyCase(
        name="an element stays for what another applied into it",
        steps=(
            _apply("one", {"parts": [{"id": "a"}, {"id": "b"}]}),
            _apply("two", {"parts": [{"id": "b", "tags": ["x"]}]}),
            _apply("one", {"parts": [{"id": "a"}]}),
        ),
        expect={"spec.parts.*id": ["a", "b"]},
        owned={
            "Apply one": {"f:spec": {"f:parts": {_PART_A: {".": {}, "f:id": {}}}}},
            "Apply two": {"f:spec": {"f:parts": {_PART_B: {".": {}, "f:id": {}, "f:tags": {'v:"x"': {}}}}}},
        },
    ),
    ApplyCase(
        name="sets are shared by value",
        steps=(
            _apply("one", {"colours": ["red", "blue"]}),
            _apply("two", {"colours": ["blue", "green"]}),
            _apply("one", {"colours": ["red"]}),
        ),
        expect={"spec.colours": ["red", "blue", "green"]},
        owned={
            "Apply one": {"f:spec": {"f:colours": {'v:"red"': {}}}},
            "Apply two": {"f:spec": {"f:colours": {'v:"blue"': {}, 'v:"green"': {}}}},
        },
    ),
    ApplyCase(
        name="an applied order wins, what others have stays near its neighbours",
        steps=(
            _apply("one", {"parts": [{"id": "a"}, {"id": "b"}, {"id": "c"}]}),
            _apply("two", {"parts": [{"id": "c"}, {"id": "a"}]}),
        ),
        expect={"spec.parts.*id": ["b", "c", "a"]},
    ),
    ApplyCase(
        name="atomic lists and maps are one field",
        steps=(
            _apply("one", {"words": ["x"], "selector": {"k": "v"}}),
            _apply(
                "two",
                {"words": ["x", "y"], "selector": {"l": "w"}},
                refused=(
                    409,
                    'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.selector\n- .spec.words',
                ),
            ),
            _apply("two", {"words": ["y"], "selector": {"l": "w"}}, force=True),
        ),
        expect={"spec.words": ["y"], "spec.selector": {"l": "w"}},
        owned={"Apply two": {"f:spec": {"f:words": {}, "f:selector": {}}}},
    ),
    ApplyCase(
        name="a list's key has a default",
        steps=(
            _apply("one", {"ports": [{"port": 1}]}),
            _apply("two", {"ports": [{"port": 1, "protocol": "TCP", "name": "x"}]}),
        ),
        expect={"spec.ports": [{"port": 1, "protocol": "TCP", "name": "x"}]},
        owned={
            "Apply one": {"f:spec": {"f:ports": {'k:{"port":1,"protocol":"TCP"}': {".": {}, "f:port": {}}}}},
            "Apply two": {
                "f:spec": {
                    "f:ports": {
                        'k:{"port":1,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}}
                    }
                }
            },
        },
    ),
    ApplyCase(
        name="an update takes what it changes from an applier",
        steps=(_apply("one", {"replicas": 1, "mode": "a"}), _merge("two", {"replicas": 2})),
        owned={"Apply one": {"f:spec": {"f:mode": {}}}, "Update two": {"f:spec": {"f:replicas": {}}}},
    ),
    ApplyCase(
        name="an update that changes nothing owns nothing",
        steps=(_apply("one", {"replicas": 1}), _merge("two", {"replicas": 1})),
        owned={"Apply one": {"f:spec": {"f:replicas": {}}}},
    ),
    ApplyCase(
        name="what an update removes is nobody's",
        steps=(_apply("one", {"replicas": 1, "mode": "a"}), _merge("two", {"mode": None})),
        owned={"Apply one": {"f:spec": {"f:replicas": {}}}},
    ),
    ApplyCase(
        name="a status in an apply of the object is not owned",
        steps=(Step(verb="apply", manager="one", fields={"spec": {"replicas": 1}, "status": {"phase": "Up"}}),),
        expect={"status": None},
        owned={"Apply one": {"f:spec": {"f:replicas": {}}}},
    ),
    ApplyCase(
        name="one empty entry ends the record",
        steps=(
            _apply("one", {"replicas": 1}),
            Step(verb="merge", manager="two", fields={"metadata": {"managedFields": [{}]}}),
            _merge("two", {"replicas": 2}),
        ),
        owned={},
    ),
    ApplyCase(
        name="an empty record changes nothing",
        steps=(
            _apply("one", {"replicas": 1}),
            Step(verb="merge", manager="two", fields={"metadata": {"managedFields": []}}),
        ),
        owned={"Apply one": {"f:spec": {"f:replicas": {}}}},
    ),
    ApplyCase(
        name="the first apply after the record ended",
        steps=(
            _apply("one", {**_BARE, "replicas": 1}),
            Step(verb="merge", manager="two", fields={"metadata": {"managedFields": [{}]}}),
            _apply("three", {"mode": "a"}),
        ),
        owned={
            "Apply three": {"f:spec": {"f:mode": {}}},
            "Update before-first-apply": {
                "f:spec": {
                    ".": {},
                    "f:replicas": {},
                    "f:tone": {},
                    "f:hue": {},
                    "f:nested": {".": {}, "f:depth": {}},
                }
            },
        },
    ),
    ApplyCase(
        name="an element without its key",
        steps=(
            _apply(
                "one",
                {"parts": [{"size": 1}]},
                refused=(
                    500,
                    "failed to create typed patch object (/NAME; contract.example.com/v1, Kind=Widget): .spec.parts: element 0: "
                    'associative list with keys has an element that omits all key fields ["id"] '
                    "(and doesn't have default values for any key fields)",
                ),
            ),
        ),
    ),
    ApplyCase(
        name="the same element twice",
        steps=(
            _apply(
                "one",
                {"parts": [{"id": "a"}, {"id": "a"}]},
                refused=(
                    500,
                    "failed to create typed patch object (/NAME; contract.example.com/v1, Kind=Widget): .spec.parts: "
                    'duplicate entries for key [id="a"]',
                ),
            ),
        ),
    ),
    ApplyCase(
        name="an unknown field",
        steps=(
            _apply(
                "one",
                {"odd": 1},
                refused=(
                    500,
                    "failed to create typed patch object (/NAME; contract.example.com/v1, Kind=Widget): "
                    ".spec.odd: field not declared in schema",
                ),
            ),
        ),
    ),
    ApplyCase(
        name="a record in an apply",
        steps=(
            Step(
                verb="apply",
                manager="one",
                fields={"metadata": {"managedFields": []}},
                refused=(400, "metadata.managedFields must be nil"),
            ),
        ),
    ),
    ApplyCase(
        name="a pod's containers, and the parts it always has",
        kind="pod",
        metadata=True,
        steps=(
            Step(
                verb="apply",
                manager="one",
                fields={
                    "metadata": {
                        "finalizers": ["example.com/x"],
                        "annotations": {"a": "1"},
                    },
                    "spec": {
                        "containers": [
                            {
                                "name": "one",
                                "image": "i",
                                "ports": [{"containerPort": 1}],
                                "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                                "resources": {"requests": {"cpu": "1"}},
                            }
                        ],
                        "nodeSelector": {"a": "b"},
                        "tolerations": [{"operator": "Exists"}],
                        "securityContext": {"runAsUser": 1},
                    },
                },
            ),
            Step(verb="merge", manager="two", fields={"metadata": {"annotations": {"b": "2"}}}),
            Step(verb="merge", manager="three", fields={"status": {"phase": "Running"}}, subresource="status"),
        ),
        owned={
            "Apply one": {
                "f:metadata": {"f:annotations": {"f:a": {}}, "f:finalizers": {'v:"example.com/x"': {}}},
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"one"}': {
                            ".": {},
                            "f:env": {'k:{"name":"E"}': {".": {}, "f:name": {}, "f:valueFrom": {"f:fieldRef": {}}}},
                            "f:image": {},
                            "f:name": {},
                            "f:ports": {'k:{"containerPort":1,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
                            "f:resources": {"f:requests": {"f:cpu": {}}},
                        }
                    },
                    "f:nodeSelector": {},
                    "f:securityContext": {"f:runAsUser": {}},
                    "f:tolerations": {},
                },
            },
            "Update two": {"f:metadata": {"f:annotations": {"f:b": {}}}},
            "Update three/status": {"f:status": {"f:phase": {}}},
        },
    ),
    ApplyCase(
        name="labels and finalizers of a config map",
        kind="configmap",
        metadata=True,
        steps=(
            Step(
                verb="create",
                manager="one",
                fields={"metadata": {"labels": {"a": "1"}, "finalizers": ["example.com/x"]}, "data": {"k": "v"}},
            ),
            Step(verb="apply", manager="two", fields={"metadata": {"labels": {"b": "2"}}, "data": {"l": "w"}}),
        ),
        expect={"data": {"k": "v", "l": "w"}, "metadata.labels": {"a": "1", "b": "2"}},
        owned={
            "Update one": {
                "f:data": {".": {}, "f:k": {}},
                "f:metadata": {
                    "f:labels": {".": {}, "f:a": {}},
                    "f:finalizers": {".": {}, 'v:"example.com/x"': {}},
                },
            },
            "Apply two": {"f:data": {"f:l": {}}, "f:metadata": {"f:labels": {"f:b": {}}}},
        },
    ),
)
