"""Every claim runs on the embedded server, in process and over HTTPS, and on a real API server (marker `control_plane`)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from controller_runtime.clock import SystemClock
from controller_runtime.testing.api_server import ApiServer
from controller_runtime.testing.api_server.http import HttpApiServer
from controller_runtime.testing.api_server.store import Store, Stored
from controller_runtime.testing.control_plane import Cluster
from controller_runtime.transport import ClientConfig, load_config
from controller_runtime.transport.config import Credentials, Trust
from tests.contract.api_server.backends import Api, InProcess, OverHttp, own_namespace


@pytest.fixture(autouse=True)
def _stored_objects_never_change(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Versions share what did not change between them: whatever a claim does, none changes after it was stored."""
    stored: list[tuple[Stored, bytes]] = []
    versioned = Store._versioned

    def noted(store: Store, fields: dict[str, Any]) -> Stored:
        made = versioned(store, fields)
        stored.append((made, msgspec.json.encode(made.fields)))
        return made

    monkeypatch.setattr(Store, "_versioned", noted)
    yield
    changed = [before for made, before in stored if msgspec.json.encode(made.fields) != before]
    assert not changed, changed[:1]


BACKENDS = ["embedded", "https", pytest.param("real", marks=pytest.mark.control_plane)]


@pytest_asyncio.fixture(params=BACKENDS)
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    """One of the servers, and a namespace of the claim's own on it."""
    if request.param == "embedded":
        async with own_namespace(InProcess(ApiServer())) as opened:
            yield opened
    elif request.param == "https":
        async with (
            HttpApiServer(ApiServer(), folder=tmp_path) as front,
            _session(front.admin_kubeconfig) as (session, url),
            own_namespace(OverHttp(session, url, embedded=True)) as opened,
        ):
            yield opened
    else:
        cluster: Cluster = request.getfixturevalue("cluster")
        async with (
            _session(cluster.admin_kubeconfig) as (session, url),
            own_namespace(OverHttp(session, url, embedded=False)) as opened,
        ):
            yield opened


class _session:  # noqa: N801 - used as a function
    """A session with the credentials of a kubeconfig, and the server's URL."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> tuple[aiohttp.ClientSession, str]:
        config = await _read(self._kubeconfig)
        credentials = Credentials(config, clock=SystemClock())
        authorization = await credentials.authorization()
        headers = {"Authorization": authorization} if authorization else {}
        connector = aiohttp.TCPConnector(ssl=Trust(config, credentials, clock=SystemClock()).context())
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, read_bufsize=2**20)
        return self._session, config.server

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()


async def _read(kubeconfig: Path) -> ClientConfig:
    """What our own launchers write is JSON and read here, since `load_config` starts a program each time."""
    try:
        content = json.loads(await asyncio.to_thread(kubeconfig.read_text, encoding="utf-8"))
    except ValueError:
        return await load_config(kubeconfig)
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return ClientConfig(server=cluster["server"], ca_pem=authority, token=user["token"])
