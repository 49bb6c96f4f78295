"""The tables of `kubectl get`: which columns a kind has and what is in them for an object.

`layout_of` is the door. A custom resource's columns come from its CRD, those of built-in kinds from `built_in_tables.py`; a built-in kind
that is not there has name and age, like the real server's answer for kinds without a printer. All columns are always filled: kubectl
shows those with a priority only for `-o wide`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from controller_runtime.testing.api_server.objects.ages import age, parse_time
from controller_runtime.testing.api_server.objects.built_in_tables import BUILT_IN
from controller_runtime.testing.api_server.objects.columns import AGE, NAME, Column, name_of
from controller_runtime.testing.api_server.objects.jsonpath import JsonPath
from controller_runtime.testing.api_server.objects.values import JsonObject, JsonValue, go_float

__all__ = ["Column", "TableLayout", "layout_of"]

Cells: TypeAlias = Callable[[JsonObject, datetime], list[JsonValue]]
_FINISHED: Final = {
    "Succeeded": ("Succeeded", "The pod has completed successfully."),
    "Failed": ("Failed", "The pod failed."),
}


@dataclass(frozen=True)
class TableLayout:
    """The table of one kind."""

    columns: tuple[Column, ...]
    cells: Cells
    """Of one object at a moment; as many as there are columns."""

    def definitions(self) -> list[JsonObject]:
        """`columnDefinitions` of a `meta.k8s.io/v1` Table."""
        return [column.definition() for column in self.columns]

    def row(self, obj: JsonObject, now: datetime) -> JsonObject:
        """A row's `cells`, and for finished pods the `conditions`; the caller adds `object`."""
        row: JsonObject = {"cells": self.cells(obj, now)}
        phase = (obj.get("status") or {}).get("phase")
        if obj.get("kind", "Pod") == "Pod" and self is BUILT_IN_LAYOUTS.get(("", "Pod")) and phase in _FINISHED:
            reason, message = _FINISHED[phase]
            row["conditions"] = [{"type": "Completed", "status": "True", "reason": reason, "message": message}]
        return row


def layout_of(group: str, kind: str, printer_columns: Sequence[JsonObject] | None = None) -> TableLayout:
    """Of a kind.

    `printer_columns` are a CRD version's `additionalPrinterColumns` (empty: the age alone), None for a built-in kind. Raises
    `JsonPathError` for a column that cannot be read.
    """
    if printer_columns is not None:
        return _custom(printer_columns)
    return BUILT_IN_LAYOUTS.get((group, kind)) or _PLAIN


def _custom(given: Sequence[JsonObject]) -> TableLayout:
    given = given or [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
    paths = [JsonPath.parse(column["jsonPath"]) for column in given]
    columns = [NAME]
    for column in given:
        about = (
            column.get("description") or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
        )
        columns.append(
            Column(
                name=column["name"],
                type=column["type"],
                format=column.get("format", ""),
                priority=column.get("priority", 0),
                description=about,
            )
        )

    def cells(obj: JsonObject, now: datetime) -> list[JsonValue]:
        row: list[JsonValue] = [name_of(obj)]
        for column, path in zip(columns[1:], paths, strict=True):
            found = path.find(obj)
            row.append(_cell(column.type, found[0], now) if found else None)
        return row

    return TableLayout(tuple(columns), cells)


def _cell(kind: str, value: JsonValue, now: datetime) -> JsonValue:
    """A value in a column of this type; null where it does not fit."""
    match kind, value:
        case "string", _:
            return _printed(value)
        case "boolean", bool():
            return value
        case "integer", int() | float() if not isinstance(value, bool):
            return int(value)
        case "number", int() | float() if not isinstance(value, bool):
            return value
        case "date", str():
            moment = parse_time(value)
            return "<invalid>" if moment is None else age(moment, now)
    return None


def _printed(value: JsonValue) -> str:
    match value:
        case str():
            return value
        case None:
            return "<nil>"
        case float():
            return go_float(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _plain_cells(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [name_of(obj), _created(obj, now)]


def _created(obj: JsonObject, now: datetime) -> str:
    return age(parse_time(obj.get("metadata", {}).get("creationTimestamp")), now)


_PLAIN: Final = TableLayout((NAME, AGE), _plain_cells)
BUILT_IN_LAYOUTS: Final = {kind: TableLayout(columns, cells) for kind, (columns, cells) in BUILT_IN.items()}
