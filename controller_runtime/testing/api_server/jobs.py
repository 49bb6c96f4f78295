"""Jobs: the selector and labels the server makes, the defaults, and the template that may not change.

Relies on `pods` for the template.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller_runtime.testing.api_server.metadata import value_problems
from controller_runtime.testing.api_server.pods import defaulted_template, pod_spec_problems
from controller_runtime.testing.api_server.refusals import FieldProblem
from controller_runtime.testing.api_server.strategy import Moment, Strategy, immutable, render, text
from controller_runtime.testing.api_server.values import Object

_UID_LABEL = "batch.kubernetes.io/controller-uid"
_NAME_LABEL = "batch.kubernetes.io/job-name"
_IMMUTABLE = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates", "affinity")


class JobStrategy(Strategy):
    """Jobs: without a policy a deletion orphans their pods, as batch/v1 has it for old clients' sake."""

    unknown_field = 'field label "{0}" not supported for Job'

    def __init__(self) -> None:
        successful = text("status", "succeeded")
        super().__init__(
            generation=True,
            status=True,
            orphans_by_default=True,
            selectable={"status.successful": lambda item: successful(item) or "0"},
        )

    def default(self, item: Object) -> None:
        """Defaults."""
        super().default(item)
        spec: Object = dict(item.get("spec") or {})
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6 if "backoffLimitPerIndex" not in spec else 2147483647)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("manualSelector", False)
        spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
        if spec.get("podFailurePolicy"):
            spec["podFailurePolicy"] = _failure_policy(spec["podFailurePolicy"])
        spec["template"] = defaulted_template(spec.get("template") or {})
        item["spec"] = spec

    def prepare_create(self, item: Object, moment: Moment) -> None:
        """Selector and template labels by the Job's UID, unless the client selects by itself."""
        spec = dict(item["spec"])
        if not spec["manualSelector"]:
            template = spec["template"]
            own = _generated_labels(item)
            labels = {**(template["metadata"].get("labels") or {}), **own}
            spec["template"] = {**template, "metadata": {**template["metadata"], "labels": labels}}
            given = spec.get("selector") or {}
            chosen = {**(given.get("matchLabels") or {}), _UID_LABEL: own[_UID_LABEL]}
            spec["selector"] = {**given, "matchLabels": chosen}
        item["spec"] = spec
        item["status"] = {}

    def complete(self, item: Object) -> None:
        """A Job without labels takes its template's."""
        labels = item["spec"]["template"]["metadata"].get("labels")
        if labels and not item["metadata"].get("labels"):
            item["metadata"] = {**item["metadata"], "labels": labels}

    def prepare_update(self, item: Object, old: Object, subresource: str) -> None:
        """As plain objects, with defaults for a template that was written anew."""
        super().prepare_update(item, old, subresource)
        if not subresource and item.get("spec") != old["spec"]:
            spec = {**item["spec"]}
            spec["template"] = defaulted_template(spec.get("template") or {})
            for name in ("parallelism", "completionMode", "suspend", "podReplacementPolicy", "backoffLimit"):
                if name not in spec and name in old["spec"]:
                    spec[name] = old["spec"][name]
            item["spec"] = spec

    def validate_create(self, item: Object) -> Sequence[FieldProblem]:
        """The template's containers, and a restart policy that lets Jobs end."""
        template = item["spec"]["template"]
        problems = [*_selector_problems(item), *_label_problems(template)]
        problems += pod_spec_problems(template["spec"], "spec.template.spec")
        problems += [
            FieldProblem(
                f"spec.{name}",
                "FieldValueInvalid",
                f"Invalid value: {item['spec'][name]}: must be greater than or equal to 0",
            )
            for name in (
                "parallelism",
                "completions",
                "backoffLimit",
                "activeDeadlineSeconds",
                "ttlSecondsAfterFinished",
            )
            if item["spec"].get(name) is not None and item["spec"][name] < 0
        ]
        policy = template["spec"]["restartPolicy"]
        if policy not in ("Never", "OnFailure"):
            where = "spec.template.spec.restartPolicy"
            if policy == "Always":
                said = 'Required value: valid values: "OnFailure", "Never"'
                problems.append(FieldProblem(where, "FieldValueRequired", said))
            else:
                said = f'Unsupported value: "{policy}": supported values: "OnFailure", "Never"'
                problems.append(FieldProblem(where, "FieldValueNotSupported", said))
        elif item["spec"].get("podFailurePolicy") and policy != "Never":
            where = "spec.template.spec.restartPolicy"
            said = 'Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified'
            problems.append(FieldProblem(where, "FieldValueInvalid", said))
        return problems

    def validate_update(self, item: Object, old: Object, subresource: str) -> Sequence[FieldProblem]:
        """Selector, template and the like stay; of a Job that is suspended and never started, scheduling may change."""
        if subresource:
            return ()
        new_spec, old_spec = item["spec"], old["spec"]
        problems = [] if new_spec.get("selector") == old_spec.get("selector") else _selector_problems(item)
        problems += [
            immutable(f"spec.{name}", new_spec.get(name))
            for name in _IMMUTABLE
            if new_spec.get(name) != old_spec.get(name)
        ]
        if new_spec.get("completions") != old_spec.get("completions") and new_spec.get("completionMode") != "Indexed":
            problems.append(immutable("spec.completions", new_spec.get("completions")))
        template, before = new_spec["template"], old_spec["template"]
        never_started = old_spec.get("suspend") and not (old.get("status") or {}).get("startTime")
        if never_started:
            template, before = _unscheduled(template), _unscheduled(before)
        if template != before and never_started:
            part = "spec" if template.get("spec") != before.get("spec") else "metadata"
            problems.append(immutable(f"spec.template.{part}", new_spec["template"].get(part)))
        elif template != before:
            problems.append(immutable("spec.template", new_spec["template"]))
        return problems


def _generated_labels(item: Object) -> dict[str, str]:
    name, uid = item["metadata"].get("name", ""), item["metadata"]["uid"]
    return {_UID_LABEL: uid, _NAME_LABEL: name, "controller-uid": uid, "job-name": name}


def _selector_problems(item: Object) -> list[FieldProblem]:
    spec = item["spec"]
    if spec.get("manualSelector"):
        return []
    chosen = spec["selector"].get("matchLabels") or {}
    labels = spec["template"]["metadata"].get("labels") or {}
    problems = []
    if chosen != {_UID_LABEL: item["metadata"]["uid"]} or spec["selector"].get("matchExpressions"):
        said = f"Invalid value: {render(_sorted(spec['selector']))}: `selector` not auto-generated"
        problems.append(FieldProblem("spec.selector", "FieldValueInvalid", said))
    if any(labels.get(key) != value for key, value in chosen.items()):
        said = f"Invalid value: {render(dict(sorted(labels.items())))}: `selector` does not match template `labels`"
        problems.append(FieldProblem("spec.template.metadata.labels", "FieldValueInvalid", said))
    return problems


def _label_problems(template: Object) -> list[FieldProblem]:
    labels = template["metadata"].get("labels") or {}
    return [problem for value in labels.values() for problem in value_problems("spec.template.labels", value)]


def _sorted(selector: Object) -> Object:
    return {**selector, "matchLabels": dict(sorted((selector.get("matchLabels") or {}).items()))}


def _failure_policy(policy: Object) -> Object:
    rules = []
    for rule in policy.get("rules") or []:
        conditions = [{"status": "True", **entry} for entry in rule.get("onPodConditions") or []]
        rules.append({**rule, "onPodConditions": conditions} if conditions else rule)
    return {**policy, "rules": rules}


def _unscheduled(template: Object) -> Object:
    spec = {name: value for name, value in template["spec"].items() if name not in _SCHEDULING}
    metadata = {name: value for name, value in template["metadata"].items() if name not in ("labels", "annotations")}
    return {**template, "metadata": metadata, "spec": spec}
