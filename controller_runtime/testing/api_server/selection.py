"""Which objects of a collection are asked for: namespace, labels, fields. Relies on `objects.selectors`."""

from __future__ import annotations

from collections.abc import Mapping

from controller_runtime.testing.api_server.objects.selectors import FieldQuery, LabelQuery
from controller_runtime.testing.api_server.refusals import bad_request
from controller_runtime.testing.api_server.registry import ResourceType
from controller_runtime.testing.api_server.store import Stored
from controller_runtime.testing.api_server.strategy import Strategy


class Selection:
    """A parsed selection; also of one name, as in watches of one object."""

    def __init__(
        self,
        strategy: Strategy,
        *,
        namespace: str = "",
        name: str = "",
        labels: LabelQuery | None = None,
        fields: FieldQuery | None = None,
    ) -> None:
        self._strategy = strategy
        self._prefix = f"{namespace}/" if namespace else ""
        self._name = name
        self._labels = labels
        self._fields = fields

    @property
    def filters(self) -> bool:
        """Whether an object can leave the selection while it lives."""
        return self._labels is not None or self._fields is not None

    def covers(self, key: str) -> bool:
        """Whether the key is of the namespace and name asked for."""
        if self._name:
            return key == self._prefix + self._name
        return key.startswith(self._prefix)

    def matches(self, stored: Stored) -> bool:
        """Whether labels and fields are as asked for."""
        if self._labels is not None and not self._labels.matches(stored.labels):
            return False
        return self._fields is None or self._fields.matches(stored.fields, self._strategy.selectable)


def select(kind: ResourceType, namespace: str, name: str, query: Mapping[str, str]) -> Selection:
    """The selection of a request.

    Raises:
        RefusalError: 400 for a selector that cannot be read or names a field that cannot be selected by.
    """
    label_text, field_text = query.get("labelSelector", ""), query.get("fieldSelector", "")
    try:
        labels = LabelQuery.parse(label_text) if label_text else None
        fields = FieldQuery.parse(field_text) if field_text else None
    except ValueError as error:
        raise bad_request(str(error)) from error
    if fields is not None:
        for requirement in fields.requirements:
            if requirement.field not in kind.strategy.selectable:
                raise bad_request(kind.strategy.unknown_field.format(requirement.field))
    return Selection(kind.strategy, namespace=namespace, name=name, labels=labels, fields=fields)
