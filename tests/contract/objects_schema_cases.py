"""Cases of schemas, selectors and tables; see `objects_cases.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, kw_only=True)
class SchemaCase:
    """One create of a widget, as a dry run: what it becomes, or each cause it is refused for."""

    name: str
    spec: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    expect: Mapping[str, Any] = field(default_factory=dict)
    causes: frozenset[tuple[str, str, str]] = frozenset()
    """Field, reason, message."""
    unknown: tuple[str, ...] = ()
    """Fields that strict field validation refuses."""


def _wrong(case: str, spec: Mapping[str, Any], *causes: tuple[str, str, str], **metadata: Any) -> SchemaCase:
    return SchemaCase(name=case, spec=spec, causes=frozenset(causes), metadata=metadata)


INVALID, TYPE = "FieldValueInvalid", "FieldValueTypeInvalid"
_UNCHECKED = (
    "<nil>",
    INVALID,
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)

SCHEMAS: Final = (
    SchemaCase(
        name="defaults, also inside defaults",
        spec={"parts": [{"id": "a"}]},
        expect={
            "spec": {
                "tone": "calm",
                "hue": "red",
                "nested": {"depth": 3},
                "parts": [{"id": "a", "size": 1}],
            }
        },
    ),
    SchemaCase(
        name="an explicit null: default, kept where nullable, dropped otherwise",
        spec={"tone": None, "hue": None, "quiet": None, "nested": None},
        expect={"spec": {"tone": "calm", "hue": None, "nested": {"depth": 3}}},
    ),
    SchemaCase(
        name="unknown fields are dropped where nothing keeps them",
        spec={
            "odd": 1,
            "nested": {"odd": 1, "depth": 4},
            "free": {"odd": {"deep": None}},
            "parts": [{"id": "a", "odd": 1}],
        },
        expect={
            "spec.odd": None,
            "spec.nested": {"depth": 4},
            "spec.free": {"odd": {"deep": None}},
            "spec.parts": [{"id": "a", "size": 1}],
        },
        unknown=("spec.nested.odd", "spec.odd", "spec.parts[0].odd"),
    ),
    SchemaCase(
        name="an embedded resource keeps its metadata",
        spec={
            "template": {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "x"},
                "spec": {"known": "a", "odd": 1},
                "odd": 1,
            }
        },
        expect={
            "spec.template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"known": "a"}}
        },
        unknown=("spec.template.odd", "spec.template.spec.odd"),
    ),
    SchemaCase(name="an unknown field of the metadata", spec={}, metadata={"odd": 1}, unknown=("metadata.odd",)),
    SchemaCase(name="a number or a text", spec={"amount": "10%"}, expect={"spec.amount": "10%"}),
    SchemaCase(name="a whole float is an integer", spec={"replicas": 3.0}, expect={"spec.replicas": 3}),
    _wrong(
        "too small",
        {"replicas": -1},
        ("spec.replicas", INVALID, "Invalid value: -1: spec.replicas in body should be greater than or equal to 0"),
    ),
    _wrong(
        "too big",
        {"replicas": 11},
        ("spec.replicas", INVALID, "Invalid value: 11: spec.replicas in body should be less than or equal to 10"),
    ),
    _wrong(
        "the bound itself",
        {"share": 0},
        ("spec.share", INVALID, "Invalid value: 0: spec.share in body should be greater than 0"),
        # An integer is held against the factor without its fraction.
        ("spec.share", INVALID, "Invalid value: 0: factor MultipleOf declared for spec.share must be positive: 0"),
    ),
    _wrong(
        "no multiple",
        {"share": 0.7},
        ("spec.share", INVALID, "Invalid value: 0.7: spec.share in body should be a multiple of 0.5"),
    ),
    _wrong(
        "the wrong type",
        {"replicas": "3"},
        ("spec.replicas", TYPE, 'Invalid value: "string": spec.replicas in body must be of type integer: "string"'),
        _UNCHECKED,
    ),
    _wrong(
        "neither number nor text",
        {"amount": True},
        (
            "spec.amount",
            TYPE,
            'Invalid value: "boolean": spec.amount in body must be of type integer,string: "boolean"',
        ),
        _UNCHECKED,
    ),
    _wrong(
        "none of the set",
        {"mode": "c"},
        ("spec.mode", "FieldValueNotSupported", 'Unsupported value: "c": supported values: "a", "b"'),
        _UNCHECKED,
    ),
    _wrong(
        "too long, and of a text only the first is said",
        {"name": "ABCDEF"},
        ("spec.name", "FieldValueTooLong", "Too long: may not be more than 5 bytes"),
        _UNCHECKED,
    ),
    _wrong(
        "the wrong letters",
        {"name": "ABC"},
        ("spec.name", INVALID, "Invalid value: \"ABC\": spec.name in body should match '^[a-z]+$'"),
    ),
    _wrong(
        "too short",
        {"name": "a"},
        ("spec.name", INVALID, 'Invalid value: "a": spec.name in body should be at least 2 chars long'),
    ),
    _wrong(
        "no time",
        {"when": "noon"},
        ("spec.when", TYPE, 'Invalid value: "noon": spec.when in body must be of type date-time: "noon"'),
        _UNCHECKED,
    ),
    _wrong(
        "a missing field", {"parts": [{}]}, ("spec.parts[0].id", "FieldValueRequired", "Required value"), _UNCHECKED
    ),
    _wrong(
        "too many items",
        {"parts": [{"id": each} for each in "abcd"]},
        ("spec.parts", "FieldValueTooMany", "Too many: 4: must have at most 3 items"),
        _UNCHECKED,
    ),
    _wrong(
        "the same key twice",
        {"parts": [{"id": "a"}, {"id": "b"}, {"id": "a"}]},
        ("spec.parts[2]", "FieldValueDuplicate", 'Duplicate value: {"id":"a"}'),
    ),
    _wrong(
        "the same keys twice, one of them by default",
        {"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]},
        ("spec.ports[1]", "FieldValueDuplicate", 'Duplicate value: {"port":1,"protocol":"TCP"}'),
    ),
    _wrong(
        "the same value twice, deep down",
        {"parts": [{"id": "a", "tags": ["x", "y", "x"]}]},
        ("spec.parts[0].tags[2]", "FieldValueDuplicate", 'Duplicate value: "x"'),
    ),
    _wrong(
        "a value under a free key",
        {"options": {"k": "long"}},
        ("spec.options.k", "FieldValueTooLong", "Too long: may not be more than 3 bytes"),
        _UNCHECKED,
    ),
    _wrong(
        "both of one",
        {"budget": {"percent": 1, "count": 1}},
        (
            "<nil>",
            INVALID,
            'Invalid value: "": "spec.budget" must validate one and only one schema (oneOf). Found 2 valid alternatives',
        ),
    ),
    _wrong(
        "none of one",
        {"budget": {}},
        (
            "<nil>",
            INVALID,
            'Invalid value: "": "spec.budget" must validate one and only one schema (oneOf). Found none valid',
        ),
        ("spec.budget.percent", "FieldValueRequired", "Required value"),
        _UNCHECKED,
    ),
    _wrong(
        "a CEL rule",
        {},
        ("metadata.name", INVALID, "Invalid value: the name must not be longer than 40 characters"),
        name="x" * 41,
    ),
)


@dataclass(frozen=True, kw_only=True)
class SelectorCase:
    """A list of the config maps of `LABELLED`: the names it gives, or the text of the refusal (400)."""

    text: str
    names: str = ""
    refused: str = ""
    field: bool = False
    kind: str = "configmap"


LABELLED: Final[Mapping[str, Mapping[str, str]]] = {
    "sel-a": {"app": "web", "tier": "1"},
    "sel-b": {"app": "db", "tier": "5"},
    "sel-c": {"app": "", "example.com/x": "y"},
    "sel-d": {},
}
"""By name; the cases' `names` are the last letters. All have the label `contract: selectors` too."""


def _labels(text: str, names: str = "", refused: str = "") -> SelectorCase:
    return SelectorCase(text=text, names=names, refused=refused)


def _fields(text: str, names: str = "", refused: str = "", kind: str = "configmap") -> SelectorCase:
    return SelectorCase(text=text, names=names, refused=refused, field=True, kind=kind)


_LETTERS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

SELECTORS: Final = (
    _labels("", "abcd"),
    _labels("app=web", "a"),
    _labels("app==web", "a"),
    _labels(" app = web ", "a"),
    _labels("app!=web", "bcd"),
    _labels("app=", "c"),
    _labels("app", "abc"),
    _labels("!app", "d"),
    _labels("app in (web, db)", "ab"),
    _labels("app in ()", "c"),
    _labels("app in (web,)", "ac"),
    _labels("app notin (web)", "bcd"),
    _labels("tier>1", "b"),
    _labels("tier<5", "a"),
    _labels("app,!tier", "c"),
    _labels("app,tier notin (1),", refused="found '', expected: identifier after ','"),
    _labels("example.com/x=y", "c"),
    _labels("in=in", ""),
    _labels("app in web", refused="unable to parse requirement: found 'web' expected: '('"),
    _labels("app in (web", refused="unable to parse requirement: found '', expected: ',' or ')'"),
    _labels("=web", refused="found '=', expected: !, identifier, or 'end of string'"),
    _labels("app web", refused="unable to parse requirement: found 'web', expected: in, notin, =, ==, !=, gt, lt"),
    _labels("!app=web", refused="found '=', expected: ',' or 'end of string'"),
    _labels(
        "tier>x",
        refused='unable to parse requirement: values[0]: Invalid value: "x": '
        "for 'Gt', 'Lt' operators, the value must be an integer",
    ),
    _labels("-app=web", refused=f'unable to parse requirement: <nil>: Invalid value: "-app": name part {_LETTERS}'),
    _labels("app=-web", refused=f'unable to parse requirement: values[0][app]: Invalid value: "-web": {_VALUE}'),
    _labels(
        "a/b/c",
        refused=f'unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label key {_LETTERS} '
        "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
    ),
    _fields("metadata.name=sel-a", "a"),
    _fields("metadata.name==sel-a,metadata.namespace=default", "a"),
    _fields("metadata.name!=sel-a", "bcd"),
    _fields(r"metadata.name=sel\,a", ""),
    _fields(
        "data.x=1",
        refused='"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
    ),
    _fields("metadata.name", refused="invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
    _fields(r"metadata.name=a\b", refused=r"invalid field selector: invalid escape sequence: \b"),
    _fields("spec.taints=1", refused="field label not supported: spec.taints", kind="node"),
    _fields("spec.containers=1", refused="field label not supported: spec.containers", kind="pod"),
)
