"""What every part of the server works on: registry, store, clock, luck; and how a stored object is shown.

Relies on the registry and the store; reads, writes, deletion and watches share one `Core`.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

import msgspec

from controller_runtime.clock import Clock
from controller_runtime.testing.api_server.refusals import not_found
from controller_runtime.testing.api_server.registry import Registry, ResourceType
from controller_runtime.testing.api_server.routes import Route
from controller_runtime.testing.api_server.store import Store, Stored
from controller_runtime.testing.api_server.strategy import Moment
from controller_runtime.testing.api_server.values import Object, User

_ALPHANUMERIC = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_GENERATED = 63


class Core:
    """The state of one server."""

    def __init__(
        self, *, clock: Clock, rng: random.Random, window: int, managed_fields: bool, allows: Callable[[Object], bool]
    ) -> None:
        self.clock = clock
        self.rng = rng
        self.registry = Registry()
        self.store = Store(window=window)
        self.managed_fields = managed_fields
        self.allows = allows
        """Answers SubjectAccessReviews, by their spec."""

    def moment(self, user: User) -> Moment:
        """Now, for this user."""
        return Moment(self.clock.now(), self.rng, user)

    def new_uid(self) -> str:
        """A UUID of the server's own luck, so that a seed gives the same ones again."""
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def generated_name(self, prefix: str) -> str:
        """`prefix` and five letters."""
        return prefix[: _LONGEST_GENERATED - 5] + "".join(self.rng.choice(_ALPHANUMERIC) for _ in range(5))

    def find(self, kind: ResourceType, key: str) -> Stored | None:
        """An object, if it is there."""
        return self.store.shelf(kind.shelf).objects.get(key)

    def require(self, route: Route) -> Stored:
        """The object a path names.

        Raises:
            RefusalError: 404.
        """
        stored = self.find(route.kind, route.key)
        if stored is None:
            raise not_found(route.kind.group, route.kind.plural, route.name)
        return stored

    def namespace_objects(self, kind: ResourceType, namespace: str) -> list[Stored]:
        """All objects of a kind in one namespace."""
        prefix = f"{namespace}/"
        shelf = self.store.shelf(kind.shelf)
        return [shelf.objects[key] for key in shelf.sorted_keys() if key.startswith(prefix)]


def served(kind: ResourceType, fields: Object) -> Object:
    """A stored object as this version shows it."""
    return {"kind": kind.kind, "apiVersion": kind.resource.api_version, **kind.to_served(fields)}


def encoded(kind: ResourceType, stored: Stored) -> bytes:
    """A stored object as this version shows it, as JSON."""
    if kind.resource.group == "events.k8s.io":
        return msgspec.json.encode(served(kind, stored.fields))
    head = f'{{"kind":"{kind.kind}","apiVersion":"{kind.resource.api_version}",'
    return head.encode() + stored.json[1:]


def encoded_item(kind: ResourceType, stored: Stored) -> bytes:
    """The same as an item of a list: without kind and apiVersion, unless it is a custom resource."""
    if kind.custom is not None:
        return encoded(kind, stored)
    if kind.resource.group == "events.k8s.io":
        return msgspec.json.encode(kind.to_served(stored.fields))
    return stored.json
