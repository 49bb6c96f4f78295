"""Where the API server is and as whom to talk to it, as values; and the two things that change under way: credentials
and certificates.

`ClientConfig` is a value and can be shared by threads. Each `Client` makes its own `Credentials` and `Trust` of it.
`load_config` (in `kubeconfig`) makes one from a kubeconfig or from a pod's service account; tests write it down by
hand.
"""

import asyncio
import contextlib
import logging
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from controller_runtime.clock import Clock
from controller_runtime.transport.errors import ConfigError

log = logging.getLogger(__name__)

REREAD_SECONDS = 60.0
"""How often token and certificate files are looked at again, by the monotonic clock."""
EXPIRY_LEEWAY_SECONDS = 60.0
"""How long before its end a credential is replaced."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a credential plugin answered: a whole `Authorization` header, or a certificate and key as PEM, and when it
    ends.
    """

    authorization: str | None = field(default=None, repr=False)
    cert_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """An API server and credentials for it.

    Of `token_file`, `token`, `authorization` and `credential` the first that is set counts. Files are read again every
    60 seconds and when the server answered 401. `refresh` asks the credential plugin again.
    """

    server: str
    """`https://host:port`, with a path if it is served under one."""
    ca_file: Path | None = None
    """PEM of the authorities that may have signed the server's certificate. Without file and text: the system's."""
    ca_pem: str | None = None
    insecure: bool = False
    """Believe any certificate."""
    server_name: str | None = None
    """The name to expect in the certificate, if it is not the host's."""
    cert_file: Path | None = None
    key_file: Path | None = None
    cert_pem: str | None = None
    key_pem: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    token: str | None = field(default=None, repr=False)
    authorization: str | None = field(default=None, repr=False)
    """A whole `Authorization` header, for basic authentication."""
    credential: Credential | None = None
    refresh: Callable[[], Awaitable[Credential]] | None = None
    proxy: str | None = None
    namespace: str | None = None
    """The namespace of the context or of the pod; a hint for callers, not used by the client."""


class Credentials:
    """The `Authorization` header of the next request (trap 40).

    A token file that is empty or gone, as while it is replaced, leaves the old token in force; its newline is not
    part of it.
    """

    def __init__(self, config: ClientConfig, *, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._next_read = 0.0
        self._ends = float("inf")
        self._header: str | None = None
        self._renewing = asyncio.Lock()
        self.certificate: tuple[str, str] | None = None
        """Client certificate and key a credential plugin answered."""
        if config.token_file is not None:
            self._read_file(config.token_file)
        elif config.token:
            self._header = f"Bearer {config.token.strip()}"
        elif config.authorization:
            self._header = config.authorization
        elif config.credential is not None:
            self._take(config.credential)

    @property
    def renewable(self) -> bool:
        """Whether asking again may bring another credential."""
        return self._config.token_file is not None or self._config.refresh is not None

    async def authorization(self) -> str | None:
        """The header, read again or renewed first when it is time.

        Raises:
            ConfigError: the credential plugin failed, and what it gave before has ended.
        """
        if self._clock.monotonic() >= self._next_read and self.renewable:
            await self._renew()
        return self._header

    async def rejected(self, header: str | None) -> bool:
        """Ask again after `header` was answered with 401; says whether a second try makes sense."""
        if not self.renewable:
            return False
        async with self._renewing:
            # Of many requests rejected at once, the first renews for all.
            if self._header == header:
                await self._renew_now()
        return True

    async def _renew(self) -> None:
        async with self._renewing:
            if self._clock.monotonic() < self._next_read:
                return
            try:
                await self._renew_now()
            except ConfigError as error:
                if self._clock.monotonic() >= self._ends:
                    raise
                log.warning("the credential could not be renewed and stays in use until it ends: %s", error)
                self._next_read = self._clock.monotonic() + 10.0

    async def _renew_now(self) -> None:
        if self._config.token_file is not None:
            self._read_file(self._config.token_file)
        elif self._config.refresh is not None:
            self._take(await self._config.refresh())

    def _read_file(self, path: Path) -> None:
        try:
            token = path.read_text(encoding="utf-8").strip()
        except OSError as error:
            log.warning("token file %s: %s; the last token stays in use", path, error)
            token = ""
        now = self._clock.monotonic()
        if token:
            self._header = f"Bearer {token}"
            self._next_read = now + REREAD_SECONDS
        elif self._header is None:
            raise ConfigError(f"token file {path} is empty or missing, and no token was read before")
        else:
            self._next_read = now + 1.0

    def _take(self, credential: Credential) -> None:
        self._header = credential.authorization
        if credential.cert_pem and credential.key_pem:
            self.certificate = (credential.cert_pem, credential.key_pem)
        if credential.expires_at is None:
            self._next_read = self._ends = float("inf")
            return
        # The end is a time of day; from here on the monotonic clock counts down to it.
        now = self._clock.monotonic()
        left = (credential.expires_at - self._clock.now()).total_seconds()
        self._ends = now + left
        self._next_read = now + max(left - EXPIRY_LEEWAY_SECONDS, 10.0)


class Trust:
    """The TLS context for new connections, made again when a file's content changed: making one takes milliseconds,
    so it is kept.
    """

    def __init__(self, config: ClientConfig, credentials: Credentials, *, clock: Clock) -> None:
        self._config = config
        self._credentials = credentials
        self._clock = clock
        self._next_look = 0.0
        self._made_of: object = None
        self._answered: tuple[str, str] | None = None
        self._context: ssl.SSLContext | None = None
        self._enabled = config.server.startswith("https:")

    def context(self) -> ssl.SSLContext | bool:
        """The context to connect with; True (nothing special) for plain HTTP."""
        if not self._enabled:
            return True
        now = self._clock.monotonic()
        if self._context is None or now >= self._next_look or self._credentials.certificate is not self._answered:
            self._look(now)
        assert self._context is not None
        return self._context

    def suspect(self) -> None:
        """Look at the files before the next connection, since the last one failed."""
        self._next_look = 0.0

    def _look(self, now: float) -> None:
        config = self._config
        self._next_look = now + REREAD_SECONDS
        try:
            authorities = config.ca_file.read_text(encoding="utf-8") if config.ca_file else config.ca_pem
            certificate = self._answered = self._credentials.certificate
            if certificate is None and config.cert_file and config.key_file:
                certificate = (
                    config.cert_file.read_text(encoding="utf-8"),
                    config.key_file.read_text(encoding="utf-8"),
                )
            elif certificate is None and config.cert_pem and config.key_pem:
                certificate = (config.cert_pem, config.key_pem)
            made_of = (authorities, certificate)
            if self._context is not None and made_of == self._made_of:
                return
            context = make_tls_context(authorities, certificate, insecure=config.insecure)
        except (OSError, ssl.SSLError, ValueError) as error:
            if self._context is None:
                raise ConfigError(f"TLS files for {config.server}: {error}") from error
            # Half a rotation: the old context stays, the next look comes soon.
            log.warning("TLS files for %s: %s; the last ones stay in use", config.server, error)
            self._next_look = now + 1.0
            return
        self._made_of = made_of
        self._context = context


def make_tls_context(authorities: str | None, certificate: tuple[str, str] | None, *, insecure: bool) -> ssl.SSLContext:
    """A client's TLS context from PEM texts.

    Raises:
        ssl.SSLError, ValueError: a text is no PEM of that kind, or key and certificate are no pair.
    """
    context = ssl.create_default_context(cadata=authorities) if authorities else ssl.create_default_context()
    # Authorities made by older cluster installers lack extensions the strict check (default since Python 3.13) asks
    # for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load_certificate(context, certificate)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: tuple[str, str]) -> None:
    """OpenSSL's binding reads certificates from files only: write one that only we can read, and remove it at once."""
    handle, name = tempfile.mkstemp(prefix="client-certificate-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("\n".join(certificate))
        context.load_cert_chain(name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
