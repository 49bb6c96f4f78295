"""A real control plane without containers.

etcd, kube-apiserver and kube-controller-manager, built from Go modules and run on loopback. Made for tests,
benchmarks and playgrounds; nothing that runs in production imports it.
"""

from controller_runtime.testing.control_plane.build import (
    BuildError,
    GoMissingError,
    Programs,
    build_programs,
    built_programs,
    check_buildable,
    etcd_version,
    kubernetes_version,
)
from controller_runtime.testing.control_plane.cluster import Cluster, ControlPlaneError, ExistingCluster
from controller_runtime.testing.control_plane.keeper import Keeper, KeeperError
from controller_runtime.testing.control_plane.launcher import ControlPlane

__all__ = [
    "BuildError",
    "Cluster",
    "ControlPlane",
    "ControlPlaneError",
    "ExistingCluster",
    "GoMissingError",
    "Keeper",
    "KeeperError",
    "Programs",
    "build_programs",
    "built_programs",
    "check_buildable",
    "etcd_version",
    "kubernetes_version",
]
