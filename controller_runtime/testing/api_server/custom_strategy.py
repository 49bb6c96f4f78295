"""What a CRD says of its objects: schema, defaults, pruning, validation, columns. Relies on `objects.schemas`."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

from controller_runtime.testing.api_server.objects.jsonpath import JsonPathError
from controller_runtime.testing.api_server.objects.merge_schema import MergeSchema
from controller_runtime.testing.api_server.objects.schemas import StructuralSchema
from controller_runtime.testing.api_server.objects.tables import TableLayout, layout_of
from controller_runtime.testing.api_server.refusals import FieldProblem
from controller_runtime.testing.api_server.strategy import Strategy, keep, text
from controller_runtime.testing.api_server.values import Object


@dataclass(frozen=True, eq=False)
class CustomVersion:
    """One served version of a CRD."""

    list_kind: str
    openapi: Object
    """Its `openAPIV3Schema`."""
    columns: tuple[Object, ...]
    """Its `additionalPrinterColumns`."""

    @cached_property
    def schema(self) -> StructuralSchema:
        """For pruning, defaults and validation."""
        return StructuralSchema.from_crd(self.openapi)

    @cached_property
    def layout(self) -> TableLayout:
        """Its table; name and age if its columns cannot be read."""
        try:
            return layout_of("", "", self.columns)
        except JsonPathError:
            return layout_of("", "", ())

    @cached_property
    def merge_schema(self) -> MergeSchema:
        """How its lists and maps merge."""
        implied = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
        properties = {**implied, **(self.openapi.get("properties") or {})}
        return MergeSchema.from_crd({**self.openapi, "properties": properties})


class CustomStrategy(Strategy):
    """What a CRD says of its objects."""

    unknown_field = "field label not supported: {0}"
    status_keeps_metadata = True

    def __init__(self, version: CustomVersion, head: Object, *, status: bool, selectable: Sequence[str]) -> None:
        readers = {path.removeprefix("."): text(*path.removeprefix(".").split(".")) for path in selectable}
        super().__init__(generation=True, status=status, selectable=readers, unconditional=False)
        self._version = version
        self._head = head
        self._keep_nulls = False

    @property
    def of_apply(self) -> Strategy:
        """The same, but nulls that the apply left behind are for the validation to refuse."""
        strategy = copy(self)
        strategy._keep_nulls = True
        return strategy

    def default(self, item: Object) -> None:
        """Without status, pruned, with defaults."""
        super().default(item)
        self._shape(item)

    def prepare_update(self, item: Object, old: Object, subresource: str) -> None:
        """Pruned, with defaults; the other half as it was."""
        if subresource == "status":
            self._shape(item)
        super().prepare_update(item, old, subresource)
        if not subresource:
            self._shape(item)
            if self.status:
                keep(item, old, "status")

    def spec_changed(self, item: Object, old: Object) -> bool:
        """Without a status subresource the status counts too."""
        if super().spec_changed(item, old):
            return True
        return not self.status and item.get("status") != old.get("status")

    def validate_create(self, item: Object) -> Sequence[FieldProblem]:
        """Against the schema."""
        return self._problems(item)

    def validate_update(self, item: Object, old: Object, subresource: str) -> Sequence[FieldProblem]:
        """Against the schema; on the way of the status, the status only."""
        return self._problems(item, only="status" if subresource == "status" else "")

    def unknown_fields(self, item: Object) -> list[str]:
        """Paths of fields that the schema does not know."""
        return self._version.schema.unknown_fields({**self._head, **item})

    def _shape(self, item: Object) -> None:
        schema = self._version.schema
        shaped = schema.default(schema.prune({**self._head, **item}), keep_nulls=self._keep_nulls)
        metadata = item["metadata"]
        item.clear()
        item.update({name: value for name, value in shaped.items() if name not in self._head})
        item["metadata"] = metadata

    def _problems(self, item: Object, *, only: str = "") -> list[FieldProblem]:
        errors = self._version.schema.validate({**self._head, **item}, only=only)
        return [FieldProblem(error.path, str(error.type.value), error.message) for error in errors]
