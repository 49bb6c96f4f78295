"""A live, typed, read-only picture of objects: structs, stores with indexes, and the informers that keep them true."""

from controller_runtime.cache.informer import Informer
from controller_runtime.cache.mutation import MutationDetector
from controller_runtime.cache.objects import KubeObject, ObjectMeta, OwnerReference
from controller_runtime.cache.store import Change, Store

__all__ = ["Change", "Informer", "KubeObject", "MutationDetector", "ObjectMeta", "OwnerReference", "Store"]
