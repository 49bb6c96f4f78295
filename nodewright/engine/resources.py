"""The CR's package ConfigMaps (CON-16, CHG-5, CHG-5a): which to write, which to delete, and which packages have to wait for theirs."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from nodewright.api import keys
from nodewright.api.nodewright import Package
from nodewright.engine.node_plan import retry_after
from nodewright.engine.scope import Scope
from nodewright.model.objects import ConfigMap, owner_uid
from nodewright.model.plan import ConfigMapDelete, ConfigMapWrite
from nodewright.model.reason import Code, Reason
from nodewright.model.snapshot import CR, Snapshot
from nodewright.workloads.claims import package_label
from nodewright.workloads.configmaps import differs, package_configmap

Names = Callable[[], Collection[str]]


@dataclass(frozen=True, slots=True)
class ConfigMaps:
    """What the pass does about package ConfigMaps; `held` names packages that may not start for theirs; `wake_at`
    when a refused one is tried again."""

    writes: tuple[ConfigMapWrite, ...]
    deletes: tuple[ConfigMapDelete, ...]
    held: Mapping[str, Reason]
    wake_at: float | None


def package_configmaps(
    scope: Scope, cr: CR, snapshot: Snapshot, *, installed: Names, busy_labels: Names, now: float
) -> ConfigMaps:
    """Compare spec and cluster. `installed` gives keys of begun entries on selected nodes, `busy_labels` package labels of
    unfinished Jobs: both are asked only when something differs, since they look at everything."""
    writes: list[ConfigMapWrite] = []
    held: dict[str, Reason] = {}
    wakes: list[float] = []
    wanted: set[str] = set()
    for name, package in scope.spec.packages.items():
        if not package.config_map:
            continue
        configmap = keys.package_configmap_name(cr=cr.name, package=name, version=package.version)
        wanted.add(configmap)
        current = snapshot.configmap(configmap)
        reason, write = _one(scope, cr, snapshot, name, package, configmap, current, installed, now)
        if reason is not None:
            held[name] = reason
            if reason.since is not None:
                wakes.append(retry_after(snapshot.refused[f"ConfigMap/{configmap}"]))
        if write is not None:
            writes.append(write)
    unwanted = [
        current
        for current in snapshot.configmaps_of(cr.name)
        if current.metadata.name not in wanted
        and owner_uid(current.metadata) == cr.meta.uid
        and current.metadata.deletion_timestamp is None
    ]
    busy = busy_labels() if unwanted else ()
    deletes = tuple(ConfigMapDelete(current) for current in unwanted if _label(current) not in busy)
    return ConfigMaps(tuple(writes), deletes, held, min(wakes, default=None))


def _one(
    scope: Scope,
    cr: CR,
    snapshot: Snapshot,
    name: str,
    package: Package,
    configmap: str,
    current: ConfigMap | None,
    installed: Names,
    now: float,
) -> tuple[Reason | None, ConfigMapWrite | None]:
    refused = snapshot.refused.get(f"ConfigMap/{configmap}")
    if refused is not None and now < retry_after(refused):
        text = f"ConfigMap {configmap} of package {name} was refused: {refused.text}"
        return Reason(
            Code.CONFIG_REFUSED, text, "correct configMap, or remove the object that holds the name", refused.at
        ), None
    body = package_configmap(cr, name, package, scope.settings)
    if current is None:
        return None, ConfigMapWrite(configmap, body, None, name)
    if owner_uid(current.metadata) != cr.meta.uid or _label(current) != package_label(name, package.version):
        text = f"ConfigMap {configmap} belongs to somebody else"
        return Reason(Code.CONFIG_REFUSED, text, "delete it, or rename the package"), None
    if not differs(current, body):
        return None, None
    if f"{name}|{package.version}" not in installed():
        return None, ConfigMapWrite(configmap, body, current, name)
    path = f"spec.packages[{name}].configMap"
    text = f"{path} was changed after the package was started; config updates are not supported by this version"
    return Reason(Code.UNSUPPORTED, text, "raise the package's version, or restore the old configMap"), None


def _label(current: ConfigMap) -> str:
    annotations = current.metadata.annotations
    return package_label(
        annotations.get(keys.ANNOTATION_PACKAGE_NAME, ""), annotations.get(keys.ANNOTATION_PACKAGE_VERSION, "")
    )
