"""Patches and who owns which field: the door to `objects` for writes.

Relies on `objects.patches`, `objects.apply` and the merge tables. With `enabled=False` nobody's fields are recorded,
which a simulation of thousands of histories saves; applies then record theirs only.
"""

from __future__ import annotations

from typing import Any

from controller_runtime.testing.api_server.objects.apply import ApplyConflict, ApplyError, update_managers
from controller_runtime.testing.api_server.objects.last_applied import apply
from controller_runtime.testing.api_server.objects.merge_schema import MergeSchema
from controller_runtime.testing.api_server.objects.merge_tables import schema_of
from controller_runtime.testing.api_server.objects.patches import (
    PatchError,
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from controller_runtime.testing.api_server.refusals import RefusalError, bad_request, plain_error, unprocessable
from controller_runtime.testing.api_server.registry import ResourceType
from controller_runtime.testing.api_server.routes import Route
from controller_runtime.testing.api_server.strategy import Moment
from controller_runtime.testing.api_server.values import ApiRequest, Object


class Ownership:
    """Applies patches and keeps `metadata.managedFields`."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled

    def patched(self, route: Route, before: Object, patch: Any, patch_type: str) -> Object:
        """The object after a JSON, merge or strategic merge patch.

        Raises:
            RefusalError: 422 for a patch that does not apply, a failed `test` among them; 400 for one that is none.
        """
        try:
            if patch_type == "json":
                after = json_patch(before, patch)
            elif patch_type == "merge":
                after = merge_patch(before, patch)
            else:
                after = strategic_merge_patch(before, patch, merge_schema(route.kind))
        except PatchError as error:
            raise _refusal(error) from error
        if not isinstance(after, dict):
            raise unprocessable("the server rejected our request due to an error in our request")
        return after

    def applied(
        self,
        kind: ResourceType,
        live: Object | None,
        applied: Object,
        request: ApiRequest,
        moment: Moment,
        subresource: str,
    ) -> Object:
        """The object after a server-side apply.

        Raises:
            RefusalError: 409 with the fields that belong to others, 400 for what cannot be applied.
        """
        try:
            return apply(
                live,
                applied,
                manager=request.query["fieldManager"],
                force=request.query.get("force", "") in ("true", "1"),
                schema=merge_schema(kind),
                now=moment.now,
                subresource=subresource,
                api_version=kind.resource.api_version,
            )
        except ApplyConflict as error:
            causes = [
                {"reason": "FieldManagerConflict", "message": each.message, "field": each.field}
                for each in error.conflicts
            ]
            raise RefusalError(409, "Conflict", error.message, details={"causes": causes}) from error
        except ApplyError as error:
            raise _refusal(PatchError(error.status, error.message)) from error

    def after_write(
        self,
        kind: ResourceType,
        before: Object | None,
        item: Object,
        request: ApiRequest,
        moment: Moment,
        *,
        subresource: str,
    ) -> Object:
        """The object with its writer as the owner of what this write changed."""
        if not self._enabled:
            return item
        head = {"apiVersion": kind.resource.api_version, "kind": kind.kind}
        after = update_managers(
            {**head, **kind.to_served(before)} if before is not None else None,
            {**head, **kind.to_served(item)},
            manager=request.query.get("fieldManager") or _agent(request.user_agent),
            subresource=subresource,
            now=moment.now,
            schema=merge_schema(kind),
            api_version=kind.resource.api_version,
        )
        return kind.to_stored({name: value for name, value in after.items() if name not in head})


def merge_schema(kind: ResourceType) -> MergeSchema:
    """How lists and maps of this kind merge."""
    if kind.custom is not None:
        return kind.custom.merge_schema
    return schema_of(kind.group, kind.kind)


def _agent(user_agent: str) -> str:
    return user_agent.partition("/")[0] or "unknown"


def _refusal(error: PatchError) -> RefusalError:
    if error.status == 422:
        return unprocessable(error.message)
    if error.status == 400:
        return bad_request(error.message)
    if error.status == 413:
        return RefusalError(413, "RequestEntityTooLarge", f"Request entity is too large: {error.message}")
    return plain_error(error.message)
