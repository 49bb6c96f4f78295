"""Installs what the operator needs into a cluster, for an operator that runs beside it as a process.

Applies ``deploy/cluster``: namespace, CRDs, service account and rights, all but the operator's pods. The operator then runs under a
token of its own service account, never as an administrator, so that a missing right is found here and not in production. Tests, the
benchmark and the playground rely on it. Works from a checkout only: a wheel has no manifests.
"""

from pathlib import Path

from controller_runtime.testing.control_plane import Cluster

NAMESPACE = "nodewright"
SERVICE_ACCOUNT = "nodewright-operator"
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def install(cluster: Cluster) -> Path:
    """Applies everything but the operator's pods; gives a kubeconfig with a token of the operator's service account.

    ``ControlPlaneError`` when the cluster refuses something, ``FileNotFoundError`` outside a checkout.
    """
    manifests = DEPLOY / "cluster"
    if not manifests.is_dir():
        raise FileNotFoundError(f"There are no manifests at {manifests}: run from a checkout of the repository.")
    cluster.apply(manifests)
    return cluster.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
