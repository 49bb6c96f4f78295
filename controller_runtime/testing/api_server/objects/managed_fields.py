"""The record of who owns which field, between its form in `metadata.managedFields` and sets. `apply.py` relies on it."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from controller_runtime.testing.api_server.objects.field_sets import FieldSet, from_fields_v1, to_fields_v1
from controller_runtime.testing.api_server.objects.values import JsonObject, go_quoted

_OPERATIONS: Final = ("Apply", "Update")


@dataclass(frozen=True, kw_only=True, order=True)
class Writer:
    """Who writes: what makes two entries the same one; an applier's entry is the same in every version."""

    operation: str
    name: str
    version: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        text = go_quoted(self.name)
        if self.subresource:
            text += f" with subresource {go_quoted(self.subresource)}"
        return f"{text} using {self.version}" if self.operation == "Update" else text


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a writer owns, in which version, and since when (RFC 3339; may be empty)."""

    fields: FieldSet
    version: str
    time: str = ""


Record: TypeAlias = dict[Writer, Entry]
"""Who owns what of one object."""


def writer_of(operation: str, name: str, version: str, subresource: str) -> Writer:
    """Of an operation (`Apply` or `Update`) by the manager of that name, `unknown` if it gave none."""
    return Writer(
        operation=operation,
        name=name or "unknown",
        version=version if operation == "Update" else "",
        subresource=subresource,
    )


def read_record(entries: object) -> Record:
    """Of `metadata.managedFields`; empty for what is no record, like the real server, which forgets it then."""
    record: Record = {}
    if not isinstance(entries, list):
        return record
    for entry in entries:
        operation, version = entry.get("operation"), entry.get("apiVersion", "")
        if operation not in _OPERATIONS or not version or entry.get("fieldsType") != "FieldsV1":
            return {}
        manager = writer_of(operation, entry.get("manager", ""), version, entry.get("subresource", ""))
        fields = from_fields_v1(entry.get("fieldsV1") or {})
        record[manager] = Entry(fields=fields, version=version, time=entry.get("time") or "")
    return record


def written_record(record: Record) -> list[JsonObject]:
    """As `metadata.managedFields` holds it: applies first, then by time and name."""

    def order(manager: Writer) -> tuple[str, ...]:
        entry = record[manager]
        return manager.operation, entry.time, manager.name, entry.version, manager.subresource

    entries = []
    for manager in sorted(record, key=order):
        entry = record[manager]
        written: JsonObject = {"manager": manager.name, "operation": manager.operation, "apiVersion": entry.version}
        if entry.time:
            written["time"] = entry.time
        written |= {"fieldsType": "FieldsV1", "fieldsV1": to_fields_v1(entry.fields)}
        if manager.subresource:
            written["subresource"] = manager.subresource
        entries.append(written)
    return entries
