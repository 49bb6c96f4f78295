"""An API server in this process, with Kubernetes' semantics: for simulations in virtual time and for plain `kubectl`.

`ApiServer` is the server, `EmbeddedClient` the transport's client to it, `HttpApiServer` the same over TLS. What it
does not do is listed in `docs/design/embedded.md`.
"""

from controller_runtime.testing.api_server.api import ApiServer
from controller_runtime.testing.api_server.client import EmbeddedClient
from controller_runtime.testing.api_server.refusals import RefusalError
from controller_runtime.testing.api_server.values import ADMINISTRATOR, ApiRequest, ApiResponse, Fault, User

__all__ = ["ADMINISTRATOR", "ApiRequest", "ApiResponse", "ApiServer", "EmbeddedClient", "Fault", "RefusalError", "User"]
