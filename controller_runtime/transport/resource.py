"""The name of an API resource and the paths under which it is served."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """One API resource: `Resource("batch", "v1", "jobs", "Job", namespaced=True)`; the core group is `""`."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """`v1` for the core group, else `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, name: str | None = None, *, namespace: str | None = None, subresource: str | None = None) -> str:
        """The path of the collection, of one object, or of its subresource, percent-encoded.

        A namespaced resource without `namespace` is the collection of all namespaces; one object of it needs a
        namespace.

        Raises:
            ValueError: a namespace for a cluster-scoped resource, or none for one object of a namespaced one.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace:
            if not self.namespaced:
                raise ValueError(f"{self.plural} live in no namespace, yet {namespace!r} was given")
            root = f"{root}/namespaces/{quote(namespace, safe='')}"
        elif self.namespaced and name is not None:
            raise ValueError(f"{self.plural} {name!r} needs a namespace")
        path = f"{root}/{self.plural}"
        if name is not None:
            if not name or name in {".", ".."}:
                raise ValueError(f"{name!r} is no name for one of {self.plural}")
            path = f"{path}/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural
