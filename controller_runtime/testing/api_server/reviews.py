"""Questions that are POSTed and answered without being stored: whose token this is, who I am, what somebody may do.

Relies on the known tokens and on the server's `allows`; `api` relies on it. `kubectl auth whoami` and `kubectl auth can-i` ask them.
"""

from __future__ import annotations

from controller_runtime.testing.api_server.bodies import decoded
from controller_runtime.testing.api_server.core import Core
from controller_runtime.testing.api_server.refusals import FieldProblem, bad_request, invalid
from controller_runtime.testing.api_server.routes import Route
from controller_runtime.testing.api_server.strategy import render, stamp
from controller_runtime.testing.api_server.subresources import Tokens
from controller_runtime.testing.api_server.values import ApiRequest, Object, User

_EVERYTHING: Object = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}
_NOTHING: Object = {"resourceRules": [], "nonResourceRules": [], "incomplete": False}


def review(core: Core, tokens: Tokens, route: Route, request: ApiRequest) -> Object:
    """The review with its status.

    Raises:
        RefusalError: 400, 422.
    """
    body = decoded(request.body)
    if not isinstance(body, dict):
        raise bad_request("couldn't get version/kind; json parse error: json: cannot unmarshal into Go value")
    kind, spec = route.kind.kind, body.get("spec") or {}
    head: Object = {"kind": kind, "apiVersion": route.kind.resource.api_version, "metadata": {}}
    user = request.user
    match kind:
        case "SelfSubjectReview":
            head["metadata"] = {"creationTimestamp": stamp(core.clock.now())}
            return {**head, "status": {"userInfo": _shown(user)}}
        case "TokenReview":
            return {**body, **head, "status": _authenticated(tokens, spec)}
        case "SelfSubjectRulesReview":
            if not spec.get("namespace"):
                raise bad_request("no namespace on request")
            return {**head, "spec": {}, "status": _rules(core, user, str(spec["namespace"]))}
        case "SelfSubjectAccessReview":
            asked = {**spec, "user": user.name, "groups": list(user.groups)}
        case "LocalSubjectAccessReview":
            _check_namespace(spec, route.namespace)
            head["metadata"] = {"namespace": route.namespace}
            asked = spec
        case _:
            asked = spec
    return {**body, **head, "status": {"allowed": bool(core.allows(asked))}}


def _shown(user: User) -> Object:
    shown = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    return {name: value for name, value in shown.items() if value}


def _authenticated(tokens: Tokens, spec: Object) -> Object:
    user = tokens.user(str(spec.get("token", "")))
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    audiences = spec.get("audiences") or ["https://kubernetes.default.svc"]
    return {"authenticated": True, "user": _shown(user), "audiences": audiences}


def _rules(core: Core, user: User, namespace: str) -> Object:
    """All or nothing: `allows` can only be asked about one thing at a time."""
    anything = {"verb": "*", "group": "*", "resource": "*", "namespace": namespace}
    asked = {"user": user.name, "groups": list(user.groups), "resourceAttributes": anything}
    return _EVERYTHING if core.allows(asked) else _NOTHING


def _check_namespace(spec: Object, namespace: str) -> None:
    asked = (spec.get("resourceAttributes") or {}).get("namespace", "")
    if asked != namespace:
        said = f"Invalid value: {render(asked)}: must match metadata.namespace"
        raise invalid("", "", "", [FieldProblem("spec.resourceAttributes.namespace", "FieldValueInvalid", said)])
