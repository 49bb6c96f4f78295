"""The times and limits of all controllers, with kube-controller-manager's defaults. Relied on by `Controllers` and its parts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """Durations in seconds. The defaults are those of Kubernetes 1.36."""

    job_batch_seconds: float = 1.0
    """So long changes of a Job's pods are gathered before the Job is looked at; a changed spec is looked at at once."""
    job_retry_seconds: float = 1.0
    """First delay after a request for a Job failed; doubles up to a minute."""
    job_backoff_seconds: float = 10.0
    """Delay of a Job's next pod after its first failed one; doubles with each further one."""
    job_backoff_limit_seconds: float = 600.0
    """The longest of these delays."""
    node_monitor_seconds: float = 5.0
    """How often the health of nodes is looked at."""
    node_grace_seconds: float = 50.0
    """Silence of a node's status and lease after which its conditions become Unknown."""
    node_startup_grace_seconds: float = 60.0
    """The same for a node that never posted a status."""
    eviction_interval_seconds: float = 10.0
    """One node of a zone at most gets its NoExecute taint in this time."""
    unhealthy_zone_share: float = 0.55
    """From this share of nodes that are not ready on, a zone of at most `large_zone_nodes` gets no further NoExecute taint."""
    large_zone_nodes: int = 50
    """A larger unhealthy zone goes on, at a tenth of the speed."""
    pod_garbage_seconds: float = 20.0
    """How often pods that nobody wants are looked for."""
    vanished_node_seconds: float = 40.0
    """How long a node must have been missing before its pods are removed."""
    finished_pods: int = 12500
    """How many finished pods may be kept; 0 = as many as there are (JOB-18)."""
    stale_disruption_seconds: float = 120.0
    """After so long a pod that was to be disrupted and is not being deleted counts as undisturbed again."""
    concurrency: int = 5
    """Workers of each controller."""
