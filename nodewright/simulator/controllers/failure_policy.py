"""What a failed pod means under a Job's pod failure policy. Pure; relied on by `job_plan`.

The first rule that matches decides; a pod that no rule matches counts. A container that has not ended has no exit code, and 0 never
matches.
"""

from dataclasses import dataclass

from nodewright.simulator.controllers.views import ContainerStatus, FailurePolicy, OnExitCodes, OnPodCondition, Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """`counts` towards the backoff limit; `fails_job`: the message with which the whole Job fails at once."""

    counts: bool = True
    fails_job: str | None = None


COUNTS = Meaning()
IGNORED = Meaning(counts=False)


def meaning_of(pod: Pod, policy: FailurePolicy | None) -> Meaning:
    """Read the policy for one failed pod."""
    for index, rule in enumerate(policy.rules if policy is not None else ()):
        codes = rule.on_exit_codes
        found = _condition(pod, rule.on_pod_conditions) if codes is None else _exit_code(pod, codes)
        if found is None:
            continue
        match rule.action:
            case "Ignore":
                return IGNORED
            case "FailJob":
                return Meaning(fails_job=f"{found} matching FailJob rule at index {index}")
            case _:  # Count, and FailIndex of a Job without indexes
                return COUNTS
    return COUNTS


def _exit_code(pod: Pod, wanted: OnExitCodes) -> str | None:
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    status = next((one for one in statuses if _matches(one, wanted)), None)
    if status is None or status.state.terminated is None:
        return None
    where = f"{pod.metadata.namespace}/{pod.metadata.name}"
    return f"Container {status.name} for pod {where} failed with exit code {status.state.terminated.exit_code}"


def _matches(status: ContainerStatus, wanted: OnExitCodes) -> bool:
    ended = status.state.terminated
    if ended is None or ended.exit_code == 0 or wanted.container_name not in (None, status.name):
        return False
    return (ended.exit_code in wanted.values) == (wanted.operator == "In")


def _condition(pod: Pod, wanted: tuple[OnPodCondition, ...]) -> str | None:
    patterns = {(one.type, one.status) for one in wanted}
    for condition in pod.status.conditions:
        if (condition.type, condition.status) in patterns:
            return f"Pod {pod.metadata.namespace}/{pod.metadata.name} has condition {condition.type}"
    return None
