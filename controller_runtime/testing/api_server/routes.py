"""From a path to what it names: resource, namespace, object, subresource. Relies on the registry."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from controller_runtime.testing.api_server.refusals import no_such_resource, not_found, page_not_found
from controller_runtime.testing.api_server.registry import Registry, ResourceType


@dataclass(frozen=True, slots=True)
class Route:
    """A resource's collection, one object of it (`name`), or a subresource of one."""

    kind: ResourceType
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> str:
        """The object's key in the store."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def find_route(registry: Registry, path: str) -> Route:
    """What a path names.

    Raises:
        RefusalError: 404, if nothing that is served.
    """
    parts = [unquote(part) for part in path.strip("/").split("/")]
    match parts:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            raise page_not_found()
    namespace = ""
    match rest:
        case ["namespaces", _, plural, *_] if not (group == "" and plural in ("status", "finalize") and len(rest) == 3):
            namespace, rest = rest[1], rest[2:]
        case []:
            raise page_not_found()
    kind = registry.find(group, version, rest[0])
    if kind is None or len(rest) > 3:
        raise no_such_resource() if _is_builtin(registry, group) else page_not_found()
    if bool(namespace) and not kind.resource.namespaced:
        raise no_such_resource()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if name and kind.resource.namespaced and not namespace:
        raise no_such_resource()
    if subresource and subresource not in kind.subresources:
        raise not_found(kind.group, kind.plural, name) if kind.custom else no_such_resource()
    return Route(kind, namespace, name, subresource)


def _is_builtin(registry: Registry, group: str) -> bool:
    return any(kind.custom is None and kind.group == group for kind in registry)
