"""Jobs: the selector and labels the server makes, the defaults, and the template that may not change.

Relies on `pods` for the template.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller_runtime.testing.api_server.pods import defaulted_template, pod_spec_problems
from controller_runtime.testing.api_server.refusals import FieldProblem
from controller_runtime.testing.api_server.strategy import Moment, Strategy, immutable, text
from controller_runtime.testing.api_server.values import Object

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

    def prepare_create(self, item: Object, moment: Moment) -> None:
        """Defaults; selector and template labels by the Job's UID, unless the client selects by itself."""
        spec: Object = dict(item.get("spec") or {})
        template = defaulted_template(spec.get("template") or {})
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6 if "backoffLimitPerIndex" not in spec else 2147483647)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("manualSelector", False)
        spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
        name, uid = item["metadata"].get("name", ""), item["metadata"]["uid"]
        if not spec["manualSelector"]:
            labels = {
                **(template["metadata"].get("labels") or {}),
                "controller-uid": uid,
                "batch.kubernetes.io/controller-uid": uid,
                "job-name": name,
                "batch.kubernetes.io/job-name": name,
            }
            template["metadata"] = {**template["metadata"], "labels": labels}
            spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})
        spec["template"] = template
        if spec.get("podFailurePolicy"):
            spec["podFailurePolicy"] = _failure_policy(spec["podFailurePolicy"])
        item["spec"] = spec
        labels_of_template = template["metadata"].get("labels")
        if labels_of_template and not item["metadata"].get("labels"):
            item["metadata"] = {**item["metadata"], "labels": labels_of_template}
        item["status"] = {}

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
        problems = pod_spec_problems(template["spec"], "spec.template.spec")
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
                problems.append(
                    FieldProblem(
                        where,
                        "FieldValueRequired",
                        'Required value: valid values: "OnFailure", "Never"',
                    )
                )
            else:
                said = f'Unsupported value: "{policy}": supported values: "Never", "OnFailure"'
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
        problems = [
            immutable(f"spec.{name}", new_spec.get(name))
            for name in _IMMUTABLE
            if new_spec.get(name) != old_spec.get(name)
        ]
        if new_spec.get("completions") != old_spec.get("completions") and new_spec.get("completionMode") != "Indexed":
            problems.append(immutable("spec.completions", new_spec.get("completions")))
        template, before = new_spec["template"], old_spec["template"]
        if old_spec.get("suspend") and not (old.get("status") or {}).get("startTime"):
            template, before = _unscheduled(template), _unscheduled(before)
        if template != before:
            problems.append(immutable("spec.template", new_spec["template"]))
        return problems


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
