"""NodeWright: a Kubernetes operator that changes nodes."""

__version__ = "0.1.0"
