"""What is POSTed to an object: eviction, binding, tokens.

Relies on `deletion` for an eviction's end. Tokens are random text that this server remembers.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import timedelta

import msgspec

from controller_runtime.testing.api_server.bodies import decoded
from controller_runtime.testing.api_server.core import Core
from controller_runtime.testing.api_server.deletion import DeleteOptions, Deletions
from controller_runtime.testing.api_server.objects.selectors import LabelQuery
from controller_runtime.testing.api_server.refusals import (
    RefusalError,
    bad_request,
    conflict,
    forbidden,
    too_many_requests,
)
from controller_runtime.testing.api_server.routes import Route
from controller_runtime.testing.api_server.store import Stored
from controller_runtime.testing.api_server.strategy import stamp
from controller_runtime.testing.api_server.values import ApiRequest, Object, User

_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
_TWO_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_MOST_DISRUPTED = 2000
_SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Tokens:
    """Which bearer token is whose."""

    def __init__(self, known: Mapping[str, User] | None = None) -> None:
        self._users = dict(known or {})

    def user(self, token: str) -> User | None:
        """Who has this token."""
        return self._users.get(token)

    def add(self, token: str, user: User) -> None:
        """Remember a token."""
        self._users[token] = user


class Subresources:
    """Serves POSTs to `eviction`, `binding` and `token`."""

    def __init__(self, core: Core, deletions: Deletions, tokens: Tokens) -> None:
        self._core = core
        self._deletions = deletions
        self._tokens = tokens

    def post(self, route: Route, request: ApiRequest) -> Object:
        """What a POST to a subresource answers, with 201.

        Raises:
            RefusalError: what the subresource refuses.
        """
        body = decoded(request.body) if request.body.strip() else {}
        if not isinstance(body, dict):
            raise bad_request("the body is no object")
        stored = self._core.require(route)
        match route.subresource:
            case "eviction":
                return self._evict(route, stored, body, request)
            case "binding":
                return self._bind(route, stored, body)
            case _:
                return self._token(route, stored, body)

    # --- eviction ---------------------------------------------------------------------------------------------------

    def _evict(self, route: Route, stored: Stored, body: Object, request: ApiRequest) -> Object:
        version, word = str(body.get("apiVersion") or "policy/v1"), str(body.get("kind") or "Eviction")
        if word != "Eviction":
            said = (
                f'{word} in version "{version.rpartition("/")[2]}" cannot be handled as a Eviction: no kind "{word}" is '
                f'registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
            )
            raise bad_request(said)
        if (body.get("metadata") or {}).get("name") not in (None, "", route.name):
            raise bad_request("name in URL does not match name in Eviction object")
        try:
            options = msgspec.convert(body.get("deleteOptions") or {}, DeleteOptions)
        except msgspec.ValidationError as error:
            raise bad_request(f"error decoding options: {error}") from error
        if request.query.get("dryRun") == "All":
            options = msgspec.structs.replace(options, dry_run=["All"])
        pod = stored.fields
        phase = (pod.get("status") or {}).get("phase")
        ends_anyway = phase in ("Succeeded", "Failed", "Pending") or pod["metadata"].get("deletionTimestamp")
        if not ends_anyway:
            self._spend_budget(route, stored, dry=bool(options.dry_run))
        self._deletions.delete(Route(route.kind, route.namespace, route.name), options)
        return _SUCCESS

    def _spend_budget(self, route: Route, stored: Stored, *, dry: bool) -> None:
        kind = self._core.registry.find("policy", "v1", "poddisruptionbudgets")
        assert kind is not None
        budgets = [
            budget
            for budget in self._core.namespace_objects(kind, route.namespace)
            if selects(budget.fields["spec"].get("selector"), stored.labels)
        ]
        if len(budgets) > 1:
            raise RefusalError(500, "", _TWO_BUDGETS)
        if not budgets:
            return
        budget = budgets[0].fields
        name, status = budget["metadata"]["name"], budget.get("status") or {}
        if not _is_ready(stored.fields):
            policy = budget["spec"].get("unhealthyPodEvictionPolicy", "IfHealthyBudget")
            desired = status.get("desiredHealthy", 0)
            if policy == "AlwaysAllow" or (status.get("currentHealthy", 0) >= desired and desired > 0):
                return
        if status.get("observedGeneration", 0) < budget["metadata"]["generation"]:
            cause = f"The disruption budget {name} is still being processed by the server."
            raise too_many_requests(_VIOLATES, retry_after=10, causes=[_budget_cause(cause)])
        allowed = status.get("disruptionsAllowed", 0)
        if allowed < 0:
            raise forbidden("policy", "poddisruptionbudgets", name, "pdb disruptions allowed is negative")
        disrupted = status.get("disruptedPods") or {}
        if len(disrupted) > _MOST_DISRUPTED:
            raise forbidden("policy", "poddisruptionbudgets", name, "DisruptedPods map too big - too many evictions")
        if allowed == 0:
            needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
            cause = f"The disruption budget {name} needs {needs} healthy pods and has {has} currently"
            raise too_many_requests(_VIOLATES, causes=[_budget_cause(cause)])
        if dry:
            return
        now = stamp(self._core.clock.now())
        spent = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": {**disrupted, route.name: now}}
        self._core.store.put(kind.shelf, f"{route.namespace}/{name}", {**budget, "status": spent})

    # --- binding and tokens -----------------------------------------------------------------------------------------

    def _bind(self, route: Route, stored: Stored, body: Object) -> Object:
        pod = stored.fields
        node = (body.get("target") or {}).get("name", "")
        word = f"{route.kind.plural}/binding"
        if pod["metadata"].get("deletionTimestamp"):
            raise conflict("", word, route.name, f"pod {route.name} is being deleted, cannot be assigned to a host")
        if pod["spec"].get("nodeName"):
            why = f'pod {route.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
            raise conflict("", word, route.name, why)
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": stamp(self._core.clock.now()),
        }
        status = pod.get("status") or {}
        others = [entry for entry in status.get("conditions") or () if entry.get("type") != "PodScheduled"]
        fields = {
            **pod,
            "spec": {**pod["spec"], "nodeName": node},
            "status": {**status, "conditions": [*others, scheduled]},
        }
        self._core.store.put(route.kind.shelf, route.key, fields)
        return _SUCCESS

    def _token(self, route: Route, stored: Stored, body: Object) -> Object:
        spec = body.get("spec") or {}
        seconds = int(spec.get("expirationSeconds") or 3600)
        raw = self._core.rng.getrandbits(256).to_bytes(32, "big")
        token = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{route.namespace}", "system:authenticated")
        name = f"system:serviceaccount:{route.namespace}:{route.name}"
        self._tokens.add(token, User(name, stored.uid, groups))
        expires = stamp(self._core.clock.now() + timedelta(seconds=seconds))
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": route.name,
                "namespace": route.namespace,
                "uid": self._core.new_uid(),
                "creationTimestamp": stamp(self._core.clock.now()),
            },
            "spec": {
                "audiences": spec.get("audiences") or ["https://kubernetes.default.svc"],
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {"token": token, "expirationTimestamp": expires},
        }


def selects(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Whether a `LabelSelector` selects these labels; none selects nothing, an empty one everything."""
    if selector is None:
        return False
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for entry in selector.get("matchExpressions") or ():
        key, values = entry["key"], ",".join(entry.get("values") or ())
        match entry["operator"]:
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(key)
            case _:
                terms.append(f"!{key}")
    return LabelQuery.parse(",".join(terms)).matches(labels)


def _budget_cause(message: str) -> dict[str, str]:
    return {"reason": "DisruptionBudget", "message": message}


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(entry.get("type") == "Ready" and entry.get("status") == "True" for entry in conditions)
