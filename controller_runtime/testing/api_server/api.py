"""The embedded API server: requests in, answers out, and watches. Nothing is stored on disk.

The HTTP front and the in-process client sit on top of it. Everything is synchronous but what a fault delays and what
a watch waits for. `docs/design/embedded.md` says what it does not do.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from controller_runtime.clock import Clock, SystemClock
from controller_runtime.testing.api_server import discovery, representation
from controller_runtime.testing.api_server.core import Core
from controller_runtime.testing.api_server.custom import CRD_SHELF, CustomResources
from controller_runtime.testing.api_server.deletion import Deletions, delete_options, without_preconditions
from controller_runtime.testing.api_server.lists import ListPage, check_not_ahead, list_page
from controller_runtime.testing.api_server.refusals import (
    RefusalError,
    method_not_allowed,
    page_not_found,
    warning_header,
)
from controller_runtime.testing.api_server.reviews import review
from controller_runtime.testing.api_server.routes import Route, find_route
from controller_runtime.testing.api_server.selection import select
from controller_runtime.testing.api_server.subresources import Subresources, Tokens
from controller_runtime.testing.api_server.values import (
    ADMINISTRATOR,
    AfterHook,
    AnswerLostError,
    ApiRequest,
    ApiResponse,
    BeforeHook,
    Fault,
    Object,
    User,
)
from controller_runtime.testing.api_server.watches import Watch
from controller_runtime.testing.api_server.writes import Writes, Written
from controller_runtime.transport import Resource

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class ApiServer:
    """A Kubernetes API server in this process.

    `rng` decides UIDs, generated names and tokens, so that a seed gives the same history again. `allows` answers
    access reviews by their spec; nothing else is refused for want of rights. `before` and `after` are asked for a
    fault at each request; watches ask `before` only.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        window: int = 10_000,
        managed_fields: bool = True,
        allows: Callable[[Object], bool] = lambda spec: True,
        tokens: Mapping[str, User] | None = None,
        before: BeforeHook | None = None,
        after: AfterHook | None = None,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.tokens = Tokens(tokens)
        self.before = before
        self.after = after
        self._core = Core(
            clock=self.clock,
            rng=rng or random.Random(),
            window=window,
            managed_fields=managed_fields,
            allows=allows,
        )
        self._deletions = Deletions(self._core)
        self._writes = Writes(self._core, self._deletions)
        self._custom = CustomResources(self._core, self._deletions)
        self._writes.observers[CRD_SHELF] = self._custom.written
        self._subresources = Subresources(self._core, self._deletions, self.tokens)
        self._watches: set[Watch] = set()
        self._frozen = False
        for name in NAMESPACES:
            self.load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    # --- requests ---------------------------------------------------------------------------------------------------

    def handle(self, request: ApiRequest) -> ApiResponse:
        """Answer a request that is no watch; refusals are answers too."""
        try:
            answer = discovery.answer(self._core.registry, request)
            if answer is not None:
                return answer
            route = find_route(self._core.registry, request.path)
            return self._answer(route, request)
        except RefusalError as refusal:
            return refusal.response()

    def watch(self, request: ApiRequest) -> Watch:
        """Open a watch.

        Raises:
            RefusalError: what is refused with an HTTP status instead of a stream.
        """
        route = find_route(self._core.registry, request.path)
        if "watch" not in route.kind.verbs or route.subresource:
            raise method_not_allowed()
        show = representation.event_form(route.kind, request.accept, self._core.clock.now)
        opened = Watch(self._core, route, request, show=show, on_close=self._watches.discard)
        if self._frozen:
            opened.freeze()
        self._watches.add(opened)
        return opened

    async def serve(self, request: ApiRequest) -> ApiResponse:
        """`handle`, with the faults that the hooks order.

        Raises:
            AnswerLostError: a fault took the answer.
        """
        if self.before is not None and (fault := self.before(request)) is not None:
            instead = await _suffered(fault)
            if instead is not None:
                return instead
        answer = self.handle(request)
        if self.after is not None and (fault := self.after(request, answer)) is not None:
            return await _suffered(fault) or answer
        return answer

    async def serve_watch(self, request: ApiRequest) -> Watch | ApiResponse:
        """`watch`, with the faults of the hook before; a refusal as an answer.

        Raises:
            AnswerLostError: a fault took the answer.
        """
        if self.before is not None and (fault := self.before(request)) is not None:
            instead = await _suffered(fault)
            if instead is not None:
                return instead
        try:
            return self.watch(request)
        except RefusalError as refusal:
            return refusal.response()

    # --- for tests and simulations ----------------------------------------------------------------------------------

    def load(self, item: Mapping[str, Any], *, user: User = ADMINISTRATOR) -> Object:
        """Create an object, as the administrator would; gives it as stored.

        Raises:
            RefusalError: as `create` would answer.
        """
        api_version, kind = str(item["apiVersion"]), str(item["kind"])
        found = next(
            (each for each in self._core.registry if (each.resource.api_version, each.kind) == (api_version, kind)),
            None,
        )
        if found is None:
            raise page_not_found()
        namespace = str((item.get("metadata") or {}).get("namespace") or "default")
        path = found.resource.path(namespace=namespace if found.resource.namespaced else None)
        request = ApiRequest(method="POST", path=path, body=msgspec.json.encode(item), user=user)
        answer = self._answer(find_route(self._core.registry, path), request)
        loaded: Object = msgspec.json.decode(answer.body)
        return loaded

    def expire_window(self, resource: Resource | None = None) -> None:
        """Forget the past, of one resource or of all: watches and pages of an earlier version are answered with 410."""
        self._core.store.forget(None if resource is None else (resource.group, resource.plural))

    def cut_watches(self, *, cleanly: bool = False) -> None:
        """End every open watch, by a broken connection or as a server that ends them in good order."""
        for watch in tuple(self._watches):
            watch.cut(cleanly=cleanly)

    def freeze_watches(self, *, frozen: bool = True) -> None:
        """Let all watches, new ones too, say nothing until they are thawed."""
        self._frozen = frozen
        for watch in tuple(self._watches):
            watch.freeze(frozen=frozen)

    @property
    def version(self) -> int:
        """The newest resourceVersion."""
        return self._core.store.version

    @property
    def open_watches(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    # --- verbs ------------------------------------------------------------------------------------------------------

    def _answer(self, route: Route, request: ApiRequest) -> ApiResponse:
        verbs = route.kind.verbs
        match request.method, bool(route.name), route.subresource:
            case "GET", False, _ if "list" in verbs:
                return self._listed(route, request, list_page(self._core, route, request))
            case "GET", True, "" | "status" if "get" in verbs:
                return self._read(route, request)
            case "POST", False, _ if "list" not in verbs:
                return _created(review(self._core, self.tokens, route, request))
            case "POST", False, _ if "create" in verbs:
                return self._written(route, request, self._writes.create(route, request))
            case "POST", True, "eviction" | "binding" | "token":
                return _created(self._subresources.post(route, request))
            case "PUT", True, "" | "status" | "finalize" if "update" in verbs:
                return self._written(route, request, self._writes.replace(route, request))
            case "PATCH", True, "" | "status" if "patch" in verbs:
                return self._written(route, request, self._writes.patch(route, request))
            case "DELETE", True, "" if "delete" in verbs:
                return self._delete(route, request)
            case "DELETE", False, _ if "deletecollection" in verbs:
                return self._delete_collection(route, request)
        raise method_not_allowed()

    def _read(self, route: Route, request: ApiRequest) -> ApiResponse:
        if request.query.get("resourceVersion"):
            check_not_ahead(self._core, request.query["resourceVersion"])
        stored = self._core.require(route)
        return ApiResponse(200, representation.one(route.kind, stored, request.accept, self._core.clock.now()))

    def _listed(self, route: Route, request: ApiRequest, page: ListPage) -> ApiResponse:
        return ApiResponse(200, representation.many(route, page, request.accept, self._core.clock.now()))

    def _written(self, route: Route, request: ApiRequest, written: Written) -> ApiResponse:
        body = representation.one(route.kind, written.stored, request.accept, self._core.clock.now())
        return ApiResponse(201 if written.created else 200, body, warning_header(written.warnings))

    def _delete(self, route: Route, request: ApiRequest) -> ApiResponse:
        kind = route.kind
        deleted = self._deletions.delete(route, delete_options(request))
        if not deleted.gone or kind.strategy.answers_deleted:
            return ApiResponse(200, representation.one(kind, deleted.stored, "", self._core.clock.now()))
        details = {"name": route.name, "group": kind.group, "kind": kind.plural, "uid": deleted.stored.uid}
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {name: value for name, value in details.items() if value},
        }
        return ApiResponse(200, msgspec.json.encode(status) + b"\n")

    def _delete_collection(self, route: Route, request: ApiRequest) -> ApiResponse:
        kind = route.kind
        selection = select(kind, route.namespace, "", request.query)
        options = without_preconditions(delete_options(request))
        shelf = self._core.store.shelf(kind.shelf)
        items = []
        for key in list(shelf.sorted_keys()):
            stored = shelf.objects.get(key)
            if stored is None or not selection.covers(key) or not selection.matches(stored):
                continue
            namespace, _, name = key.rpartition("/")
            items.append(self._deletions.delete(Route(kind, namespace, name), options).stored)
        page = ListPage(items, self._core.store.version)
        return ApiResponse(200, representation.many(route, page, "", self._core.clock.now()))


async def _suffered(fault: Fault) -> ApiResponse | None:
    """What is answered instead; None lets the request go on.

    Raises:
        AnswerLostError: nothing is.
    """
    if fault.delay:
        await asyncio.sleep(fault.delay)
    if fault.lost:
        raise AnswerLostError
    return fault.answer


def _created(item: Object) -> ApiResponse:
    return ApiResponse(201, msgspec.json.encode(item) + b"\n")
