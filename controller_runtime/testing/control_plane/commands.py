"""The command lines of the servers: what makes this cluster fit for tests and still a real one.

Pure functions; ``launcher`` runs what they give. All paths are in the control plane's folder, where ``credentials``
and the launcher put the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from controller_runtime.testing.control_plane.build import Programs

_ETCD_BYTES = 8 * 1024**3
# Storage, certificates, autoscaling and the like: no test asks for them. A start takes 5 s without them, 8 s with.
_CONTROLLERS_NOT_NEEDED = (
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "cronjob-controller",
    "device-taint-eviction-controller",
    "endpointslice-mirroring-controller",
    "ephemeral-volume-controller",
    "horizontal-pod-autoscaler-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "podcertificaterequest-cleaner-controller",
    "replicationcontroller-controller",
    "resourceclaim-controller",
    "resourcepoolstatusrequest-controller",
    "service-cidr-controller",
    "storage-version-migrator-controller",
    "validatingadmissionpolicy-status-controller",
    "volumeattributesclass-protection-controller",
)
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
"""Who asked for what and what was answered, once a request, without bodies."""


def etcd_command(programs: Programs, folder: Path, *, clients: str, peers: str) -> list[str]:
    """etcd with one member that does not sync to disk: its data ends with the test anyway."""
    return [
        str(programs.etcd),
        "--name=test",
        f"--data-dir={folder / 'etcd-data'}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        "--socket-reuse-port",
        f"--quota-backend-bytes={_ETCD_BYTES}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=test={peers}",
    ]


def api_server_command(
    programs: Programs, folder: Path, *, port: int, etcd: str, audit_log: Path | None, flags: Sequence[str]
) -> list[str]:
    """kube-apiserver with TLS, tokens and RBAC, on a port it shares with the socket that reserves it."""
    audit = [
        f"--audit-policy-file={folder / 'audit-policy.json'}",
        f"--audit-log-path={audit_log}",
        "--audit-log-maxsize=0",  # one file, never rotated
    ]
    return [
        str(programs.kube_apiserver),
        f"--etcd-servers={etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--permit-port-sharing",
        f"--cert-dir={folder}",
        f"--tls-cert-file={folder / 'apiserver.crt'}",
        f"--tls-private-key-file={folder / 'apiserver.key'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'service-account.pub'}",
        f"--service-account-signing-key-file={folder / 'service-account.key'}",
        "--allow-privileged=true",
        "--endpoint-reconciler-type=none",
        *(audit if audit_log is not None else []),
        *flags,
    ]


def controller_manager_command(programs: Programs, folder: Path, *, flags: Sequence[str]) -> list[str]:
    """kube-controller-manager with the controllers that tests meet: Jobs, garbage collection, disruption, node taints.

    Nodes stay Ready without heartbeats for longer than any test.
    """
    return [
        str(programs.kube_controller_manager),
        f"--kubeconfig={folder / 'controller-manager.kubeconfig'}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--root-ca-file={folder / 'ca.crt'}",
        f"--service-account-private-key-file={folder / 'service-account.key'}",
        "--use-service-account-credentials",
        "--node-monitor-grace-period=1000h",
        f"--controllers={','.join(['*', *(f'-{name}' for name in _CONTROLLERS_NOT_NEEDED)])}",
        *flags,
    ]
