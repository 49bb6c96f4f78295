"""Requests to an API server: bytes in, bytes out.

The bottom layer; everything that talks to the cluster goes through `Client`.
"""

from controller_runtime.transport.client import Client, PatchType
from controller_runtime.transport.config import ClientConfig, Credential
from controller_runtime.transport.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    ConfigError,
    Conflict,
    ErrorDetails,
    Forbidden,
    Gone,
    InternalError,
    Invalid,
    NotFound,
    ServerTimeout,
    Status,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from controller_runtime.transport.exchange import ClientMetrics, RequestObserver, Response, WriteFence
from controller_runtime.transport.kubeconfig import load_config
from controller_runtime.transport.resource import Resource
from controller_runtime.transport.sessions import Stream

__all__ = [
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "Cause",
    "Client",
    "ClientConfig",
    "ClientMetrics",
    "ConfigError",
    "Conflict",
    "Credential",
    "ErrorDetails",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "NotFound",
    "PatchType",
    "RequestObserver",
    "Resource",
    "Response",
    "ServerTimeout",
    "Status",
    "Stream",
    "TooManyRequests",
    "TransportError",
    "Unauthorized",
    "WriteFence",
    "load_config",
]
