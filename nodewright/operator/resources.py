"""The API resources that the operator reads and writes. Relied on by informers, writes and wiring."""

from typing import Final

from controller_runtime.transport import Resource
from nodewright.api import keys

NODEWRIGHT: Final = Resource(keys.GROUP, keys.VERSION, keys.NODEWRIGHT_PLURAL, keys.NODEWRIGHT_KIND, namespaced=False)
DEPLOYMENT_POLICY: Final = Resource(
    keys.GROUP, keys.VERSION, keys.DEPLOYMENT_POLICY_PLURAL, keys.DEPLOYMENT_POLICY_KIND, namespaced=False
)
NODE: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
POD: Final = Resource("", "v1", "pods", "Pod", namespaced=True)
CONFIG_MAP: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
JOB: Final = Resource("batch", "v1", "jobs", "Job", namespaced=True)
LEASE: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
EVENT: Final = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
