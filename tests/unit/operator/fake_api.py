"""A small API server in memory: enough of the patch types, versions and preconditions to prove what the executor's writes mean.

It keeps a log of requests, and answers the next requests with what a test puts into `faults`.
"""

import copy
from collections.abc import Callable
from typing import Any

import anyio
import msgspec

from controller_runtime.testing.api_server.objects.patches import PatchError, json_patch
from controller_runtime.transport import AlreadyExists, ApiError, Conflict, Invalid, NotFound, PatchType, Resource
from controller_runtime.transport.errors import Status, api_error

Key = tuple[str, str]


def refusal(kind: type[ApiError], status: int, message: str = "refused by test") -> ApiError:
    """An error as the client raises it."""
    return api_error(Status(reason=kind.reasons[0], message=message), code=status)


class FakeApi:
    """Stands for the client; objects are kept by plural and name."""

    def __init__(self) -> None:
        self.objects: dict[Key, dict[str, Any]] = {}
        self.log: list[tuple[str, str, Any]] = []
        """(verb, plural/name[/subresource], body) of each write, and of each GET."""
        self.faults: list[Callable[[str, str], Exception | None]] = []
        """Asked with (verb, where) before each request; the first exception is raised instead of acting."""
        self.delays: Callable[[str, str], float] = lambda _verb, _where: 0.0
        self._version = 100

    # --- the client's methods -----------------------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> bytes:
        await self._begin("get", f"{resource.plural}/{name}", None)
        return self._bytes(self._found(resource, name))

    async def create(self, resource: Resource, body: Any, *, namespace: str | None = None) -> bytes:
        name = body["metadata"]["name"]
        await self._begin("create", f"{resource.plural}/{name}", body)
        if (resource.plural, name) in self.objects:
            raise refusal(AlreadyExists, 409, f"{name} already exists")
        return self._bytes(self.put(resource, body))

    async def patch(
        self, resource: Resource, name: str, body: Any, patch_type: PatchType, *,
        namespace: str | None = None, subresource: str | None = None,
    ) -> bytes:  # fmt: skip
        body = msgspec.json.decode(body if isinstance(body, bytes) else msgspec.json.encode(body))
        where = f"{resource.plural}/{name}" + (f"/{subresource}" if subresource else "")
        await self._begin("patch", where, body)
        before = self._found(resource, name)
        after = copy.deepcopy(before)
        match patch_type:
            case PatchType.JSON:
                after = _json_patched(after, body)
            case PatchType.MERGE | PatchType.STRATEGIC:
                self._preconditions(before, body.get("metadata", {}))
                if patch_type is PatchType.STRATEGIC:
                    body = _with_conditions(before, body)
                after = _merged(after, body)
        if after != before:
            after["metadata"]["resourceVersion"] = self._next()
        self.objects[resource.plural, name] = after
        return self._bytes(after)

    async def delete(
        self, resource: Resource, name: str, *, namespace: str | None = None, uid: str | None = None,
        resource_version: str | None = None, propagation: str | None = None,
    ) -> bytes:  # fmt: skip
        preconditions = {"uid": uid, "resourceVersion": resource_version, "propagation": propagation}
        await self._begin("delete", f"{resource.plural}/{name}", preconditions)
        found = self._found(resource, name)
        self._preconditions(found, {k: v for k, v in preconditions.items() if v and k != "propagation"})
        if propagation == "Foreground":
            found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            found["metadata"]["resourceVersion"] = self._next()
            return self._bytes(found)
        del self.objects[resource.plural, name]
        return b'{"kind":"Status","status":"Success"}'

    # --- for tests ----------------------------------------------------------------------------------------------------------

    def put(self, resource: Resource, body: Any) -> dict[str, Any]:
        """Store an object as somebody else's write; it gets a UID and a version."""
        made: dict[str, Any] = copy.deepcopy(body)
        meta = made.setdefault("metadata", {})
        meta.setdefault("uid", f"uid-{meta['name']}")
        meta["resourceVersion"] = self._next()
        if resource.namespaced:
            meta.setdefault("namespace", "nodewright")
        self.objects[resource.plural, meta["name"]] = made
        return made

    def raw(self, resource: Resource, name: str) -> bytes:
        """The object's bytes, as a watch would bring them."""
        return self._bytes(self.objects[resource.plural, name])

    def writes(self, verb: str | None = None, where: str = "") -> list[tuple[str, str, Any]]:
        """The writes of this verb to places that begin so."""
        return [e for e in self.log if e[0] != "get" and verb in (None, e[0]) and e[1].startswith(where)]

    def fail_once(self, verb: str, where: str, error: Exception) -> None:
        """Raise `error` at the next such request."""
        left = [error]
        self.faults.append(lambda v, w: left.pop() if left and v == verb and w.startswith(where) else None)

    def fail_always(self, verb: str, where: str, error: Exception) -> None:
        """Raise `error` at each such request."""
        self.faults.append(lambda v, w: error if v == verb and w.startswith(where) else None)

    # --- within -------------------------------------------------------------------------------------------------------------

    async def _begin(self, verb: str, where: str, body: Any) -> None:
        self.log.append((verb, where, copy.deepcopy(body)))
        await anyio.sleep(self.delays(verb, where))
        for fault in self.faults:
            error = fault(verb, where)
            if error is not None:
                raise error

    def _found(self, resource: Resource, name: str) -> dict[str, Any]:
        if (resource.plural, name) not in self.objects:
            raise refusal(NotFound, 404, f"{name} not found")
        return self.objects[resource.plural, name]

    def _preconditions(self, found: dict[str, Any], wanted: dict[str, Any]) -> None:
        for key in ("uid", "resourceVersion"):
            if key in wanted and wanted[key] != found["metadata"][key]:
                raise refusal(Conflict, 409, f"precondition failed: {key}")

    def _next(self) -> str:
        self._version += 1
        return str(self._version)

    @staticmethod
    def _bytes(found: dict[str, Any]) -> bytes:
        return msgspec.json.encode(found)

    async def list(self, resource: Resource) -> bytes:
        await self._begin("list", resource.plural, None)
        items = [found for (plural, _), found in self.objects.items() if plural == resource.plural]
        return msgspec.json.encode({"kind": "List", "metadata": {}, "items": items})


def _merged(document: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _with_conditions(before: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    kept = {each["type"]: each for each in before.get("status", {}).get("conditions", [])}
    for entry in body["status"]["conditions"]:
        if entry.get("$patch") == "delete":
            kept.pop(entry["type"], None)
        else:
            kept[entry["type"]] = {**kept.get(entry["type"], {}), **entry}
    return {**body, "status": {**body["status"], "conditions": list(kept.values())}}


_ABSENT = object()


def _json_patched(document: Any, operations: list[dict[str, Any]]) -> Any:
    try:
        return json_patch(document, operations)
    except PatchError as error:
        raise refusal(Invalid, 422, str(error)) from error
