"""The API's verbs: bytes in, bytes out, every call with a deadline.

Informers, the executor, the event recorder and the leader elector rely on it; the elector makes its own, since a
client belongs to one event loop. Requests and watches have separate connection pools: many watches cannot starve
requests.
"""

# ruff: noqa: ASYNC109 - a deadline is part of every call here, kept with `asyncio.timeout` inside

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal

from controller_runtime.transport.exchange import DEFAULT_TIMEOUT, Exchange, Method
from controller_runtime.transport.resource import Resource


class PatchType(StrEnum):
    """How a patch is to be read; the values are the content types."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Client(Exchange):
    """Requests to one API server, by resource and name. What every call obeys is said in `Exchange`."""

    async def get(
        self, resource: Resource, name: str, *, namespace: str | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> bytes:
        """Read one object, live."""
        return await self._call("GET", resource, name, None, namespace, timeout=timeout)

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = None,
        continue_: str | None = None,
        resource_version: str | None = None,
        resource_version_match: str | None = None,
        timeout: float = 60.0,
    ) -> bytes:
        """Read a collection, or one page of it; compressed on the wire when it is large."""
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": str(limit) if limit else None,
            "continue": continue_,
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version_match,
        }
        return await self._call("GET", resource, None, None, namespace, query=query, timeout=timeout, gzip=True)

    async def create(
        self,
        resource: Resource,
        body: Mapping[str, Any] | bytes,
        *,
        namespace: str | None = None,
        field_manager: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> bytes:
        """Create an object.

        After a `TransportError` with `sent` None it may exist: use a name of your own choice and read it.
        """
        query = {"fieldManager": field_manager}
        return await self._call("POST", resource, None, None, namespace, body=body, query=query, timeout=timeout)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any] | Sequence[Any] | bytes,
        patch_type: PatchType,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> bytes:
        """Change parts of an object.

        A JSON patch whose `test` fails is answered with `Invalid` (422), not `Conflict` (trap 35).
        """
        query = {"fieldManager": field_manager, "force": "true" if force else None}
        return await self._call(
            "PATCH",
            resource,
            name,
            subresource,
            namespace,
            body=body,
            query=query,
            content_type=patch_type.value,
            timeout=timeout,
        )

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any] | bytes,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> bytes:
        """Write a whole object.

        Never for an object made of a cached struct: what the struct does not name would be lost.
        """
        return await self._call("PUT", resource, name, subresource, namespace, body=body, timeout=timeout)

    async def create_subresource(
        self,
        resource: Resource,
        name: str,
        subresource: str,
        body: Mapping[str, Any] | bytes,
        *,
        namespace: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> bytes:
        """POST to a subresource: `eviction`, `token`, `binding`."""
        return await self._call("POST", resource, name, subresource, namespace, body=body, timeout=timeout)

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
        grace_period_seconds: int | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> bytes:
        """Delete an object, if it is the one with this UID and resourceVersion.

        Answers the object if it lives on, or a `Status`.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: dict[str, Any] = {
            "preconditions": {key: value for key, value in preconditions.items() if value} or None,
            "propagationPolicy": propagation,
            "gracePeriodSeconds": grace_period_seconds,
        }
        body = {key: value for key, value in options.items() if value is not None}
        return await self._call("DELETE", resource, name, None, namespace, body=body or None, timeout=timeout)

    async def _call(
        self,
        method: Method,
        resource: Resource,
        name: str | None,
        subresource: str | None,
        namespace: str | None,
        *,
        query: Mapping[str, str | None] | None = None,
        body: Mapping[str, Any] | Sequence[Any] | bytes | None = None,
        content_type: str = "application/json",
        timeout: float,
        gzip: bool = False,
    ) -> bytes:
        path = resource.path(name, namespace=namespace, subresource=subresource)
        arguments = {key: value for key, value in query.items() if value is not None} if query else None
        observer = self.observer
        if observer is None:
            answer = await self.request(
                method, path, query=arguments, body=body, content_type=content_type, timeout=timeout, gzip=gzip
            )
            return answer.body
        handle = observer.started(method, resource, name, subresource)
        try:
            answer = await self.request(
                method, path, query=arguments, body=body, content_type=content_type, timeout=timeout, gzip=gzip
            )
        except BaseException as error:
            observer.finished(handle, error, 1)
            raise
        observer.finished(handle, answer.status, answer.attempts)
        return answer.body
