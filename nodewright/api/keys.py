"""Every name that other software reads: group, keys on Nodes, Jobs, pods and ConfigMaps, names of what we create.

Package images, agents, dashboards and the existing kubectl plugin read these (`contract.md`), so they are spelled here
once and nowhere else. Pure text: relies on nothing; everything that reads or writes an object of the cluster relies on
it.
"""

import hashlib
import re
from typing import Final

GROUP: Final = "nodewright.nvidia.com"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
PREFIX: Final = f"{GROUP}/"

NODEWRIGHT_KIND: Final = "NodeWright"
NODEWRIGHT_PLURAL: Final = "nodewrights"
NODEWRIGHT_SHORT: Final = "nw"
DEPLOYMENT_POLICY_KIND: Final = "DeploymentPolicy"
DEPLOYMENT_POLICY_PLURAL: Final = "deploymentpolicies"
DEPLOYMENT_POLICY_SHORT: Final = "dp"

FINALIZER: Final = f"{PREFIX}nodewright"
"""On every NodeWright that may have touched a node (CON-1)."""

MAX_CR_NAME: Final = 50
"""Longest name of a NodeWright: `drainBlocked_<cr>` is then 63 characters, the limit of a key's name part (CON-9)."""

DEFAULT_COMPARTMENT: Final = "__default__"
"""Compartment of nodes that no compartment's selector matches (ROL-5, ROL-6)."""

# --- on a NodeWright (CON-7a) -----------------------------------------------------------------------------------------
PAUSE: Final = f"{PREFIX}pause"
DISABLE: Final = f"{PREFIX}disable"
MIRRORED_FROM: Final = f"{PREFIX}mirrored-from"
LEGACY_MIGRATED_AT: Final = f"{PREFIX}legacy-migrated-at"

# --- on a Node (CON-7, CON-8) -----------------------------------------------------------------------------------------
IGNORE_LABEL: Final = f"{PREFIX}ignore"
"""Label set by people; only the exact value `true` counts (ROL-2)."""
RUNTIME_REQUIRED_CORDON: Final = f"{PREFIX}runtimeRequiredCordon"

NODE_STATE_PREFIX: Final = f"{PREFIX}nodeState_"
STATUS_PREFIX: Final = f"{PREFIX}status_"
VERSION_PREFIX: Final = f"{PREFIX}version_"
CORDON_PREFIX: Final = f"{PREFIX}cordon_"
DRAIN_START_PREFIX: Final = f"{PREFIX}drainStart_"
DRAIN_BLOCKED_PREFIX: Final = f"{PREFIX}drainBlocked_"
PICK_PREFIX: Final = f"{PREFIX}pick_"
AUTO_TAINT_PREFIX: Final = f"{PREFIX}autoTaint_"

PER_CR_PREFIXES: Final = (
    NODE_STATE_PREFIX,
    STATUS_PREFIX,
    VERSION_PREFIX,
    CORDON_PREFIX,
    DRAIN_START_PREFIX,
    DRAIN_BLOCKED_PREFIX,
    PICK_PREFIX,
)
"""Starts of the per-CR bookkeeping keys on a Node; the node metadata ConfigMap leaves them out (CON-16)."""


def node_state_key(cr: str) -> str:
    """Annotation with the node state as JSON (CON-10)."""
    return NODE_STATE_PREFIX + cr


def status_key(cr: str) -> str:
    """Annotation, and label of the same key, with the node's Status (CON-7)."""
    return STATUS_PREFIX + cr


def version_key(cr: str) -> str:
    """Annotation with the operator version that last wrote (CON-7)."""
    return VERSION_PREFIX + cr


def cordon_key(cr: str) -> str:
    """Annotation `"true"` while the CR owns the node's cordon (INT-3)."""
    return CORDON_PREFIX + cr


def drain_start_key(cr: str) -> str:
    """Annotation with the RFC 3339 time from which the drain timeout runs (INT-9)."""
    return DRAIN_START_PREFIX + cr


def drain_blocked_key(cr: str) -> str:
    """Annotation with the pods that block the drain, as a JSON list (INT-8)."""
    return DRAIN_BLOCKED_PREFIX + cr


def pick_key(cr: str) -> str:
    """Annotation with the node's pick, as JSON (ROL-13)."""
    return PICK_PREFIX + cr


def auto_taint_key(taint_key: str) -> str:
    """Annotation that says the operator itself added the runtime-required taint of this key (CON-7)."""
    return AUTO_TAINT_PREFIX + taint_key


def not_ready_condition(cr: str) -> str:
    """Type of the Node condition that is True until all packages are complete (CON-8)."""
    return f"{PREFIX}{cr}/NotReady"


def erroring_condition(cr: str) -> str:
    """Type of the Node condition that is True while any entry is erroring (CON-8)."""
    return f"{PREFIX}{cr}/Erroring"


# --- on Jobs, their pods and ConfigMaps (CON-14 to CON-16) ------------------------------------------------------------
LABEL_NAME: Final = f"{PREFIX}name"
LABEL_PACKAGE: Final = f"{PREFIX}package"
LABEL_STAGE: Final = f"{PREFIX}stage"
LABEL_NODE: Final = f"{PREFIX}node"
LABEL_GENERATION: Final = f"{PREFIX}generation"
LABEL_INTERRUPT: Final = f"{PREFIX}interrupt"
"""`True` on interrupt Jobs and their pods."""
NODE_META_LABEL: Final = f"{PREFIX}nodewright-node-meta"
"""On node metadata ConfigMaps; the value is the CR's name."""

ANNOTATION_RESOURCE_ID: Final = f"{PREFIX}resource-id"
ANNOTATION_PACKAGE: Final = f"{PREFIX}package"
ANNOTATION_NAME: Final = f"{PREFIX}name"
ANNOTATION_PACKAGE_NAME: Final = f"{PREFIX}Package.Name"
ANNOTATION_PACKAGE_VERSION: Final = f"{PREFIX}Package.Version"
RESTART_ALLOWANCE: Final = f"{PREFIX}restart-allowance"
RESTART_LIMIT_EXCEEDED: Final = f"{PREFIX}restart-limit-exceeded"
STATE_RECORDED: Final = f"{PREFIX}state-recorded"
LAST_LOGS: Final = f"{PREFIX}last-logs"
RUN: Final = f"{PREFIX}run"
INPUTS: Final = f"{PREFIX}inputs"
NODE_UID: Final = f"{PREFIX}node-uid"
BOOT_ID: Final = f"{PREFIX}boot-id"
UNPROVEN_FAILURES: Final = f"{PREFIX}unproven-failures"
TRACEPARENT: Final = f"{PREFIX}traceparent"

# --- names ------------------------------------------------------------------------------------------------------------
MAX_LABEL_VALUE: Final = 63
_MAX_SUBDOMAIN: Final = 253
_DIGEST_LENGTH: Final = 12
_NOT_IN_A_DNS_LABEL: Final = re.compile(r"[^a-z0-9-]")
_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")


def safe_name(limit: int, *parts: str) -> str:
    """A readable, deterministic name of at most `limit` characters that differs whenever the parts differ (CON-12).

    The parts must not contain `/`, which no name of Kubernetes and no version does; the first must start with a letter
    or digit for the result to be a DNS label.
    """
    digest = hashlib.sha256("/".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    readable = _NOT_IN_A_DNS_LABEL.sub("-", "-".join(parts).lower())
    return f"{readable[: limit - _DIGEST_LENGTH - 1]}-{digest}"


def label_value(*parts: str) -> str:
    """The parts joined with `-`, or their safe name where that is no valid label value (CON-14)."""
    value = "-".join(parts)
    if is_label_value(value):
        return value
    return safe_name(MAX_LABEL_VALUE, *parts)


def is_label_value(value: str) -> bool:
    """Whether Kubernetes takes `value` as the value of a label."""
    return len(value) <= MAX_LABEL_VALUE and _LABEL_VALUE.fullmatch(value) is not None


def is_dns_subdomain(name: str) -> bool:
    """Whether Kubernetes takes `name` as the name of most objects."""
    return len(name) <= _MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(name) is not None


def job_name(*, cr: str, package: str, version: str, stage: str, node: str) -> str:
    """Name of a package stage's Job: the claim on the stage (CON-13)."""
    return safe_name(MAX_LABEL_VALUE, cr, package, version, stage, node)


def interrupt_job_name(*, cr: str, stage: str, interrupt_type: str, node: str) -> str:
    """Name of a node's interrupt Job, whichever package's interrupt won; its type spelled as in the spec (CON-13)."""
    return safe_name(MAX_LABEL_VALUE, cr, stage, interrupt_type, node)


def package_configmap_name(*, cr: str, package: str, version: str) -> str:
    """Name of a package's ConfigMap (CON-16).

    The safe form serves every version that semver allows and a name does not: `1.0.0+build`, but `1.0.0-a-` too.
    """
    plain = f"{cr}-{package}-{version}".lower()
    if is_dns_subdomain(plain):
        return plain
    return f"{cr}-{safe_name(MAX_LABEL_VALUE, package, version)}"


def node_metadata_configmap_name(*, cr: str, node: str) -> str:
    """Name of the ConfigMap with a node's labels and annotations for its packages (CON-16)."""
    return safe_name(_MAX_SUBDOMAIN, cr, node, "metadata")
