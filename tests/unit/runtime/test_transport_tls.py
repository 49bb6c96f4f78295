"""TLS against a real socket: whom the client believes, how it shows itself, and how both change under way."""

import ssl
from pathlib import Path

import pytest

from controller_runtime.transport import Client, ClientConfig, ConfigError, Resource, TransportError
from tests.unit.runtime.model_server import ManualClock
from tests.unit.runtime.wire_server import make_authority, make_leaf, serving

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
Pair = tuple[Path, Path]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certs")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Pair:
    return make_authority(folder, "authority")


@pytest.fixture(scope="module")
def other(folder: Path) -> Pair:
    return make_authority(folder, "other")


def server_tls(leaf: Pair, *, clients: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*leaf)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients)
    return context


@pytest.fixture(scope="module")
def leaf(folder: Path, authority: Pair) -> Pair:
    return make_leaf(folder, "server", authority)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_the_servers_certificate_must_be_signed_by_our_authority(
    leaf: Pair, authority: Pair, other: Pair
) -> None:
    async with serving(tls=server_tls(leaf)) as server:
        for config in (
            ClientConfig(server=server.url, ca_file=authority[0]),
            ClientConfig(server=server.url, ca_pem=authority[0].read_text()),
            ClientConfig(server=server.url, insecure=True),
        ):
            async with Client(config, user_agent="t") as client:
                assert await client.get(NODES, "n") == b"{}"
        for config in (ClientConfig(server=server.url, ca_file=other[0]), ClientConfig(server=server.url)):
            async with Client(config, user_agent="t") as client:
                with pytest.raises(TransportError, match="certificate") as caught:
                    await client.create(NODES, {})
                assert caught.value.sent is False


async def test_the_name_expected_can_be_another_than_the_hosts(folder: Path, authority: Pair) -> None:
    named = make_leaf(folder, "named", authority, subject="DNS:kubernetes")
    async with serving(tls=server_tls(named)) as server:
        async with Client(ClientConfig(server=server.url, ca_file=authority[0]), user_agent="t") as client:
            with pytest.raises(TransportError):
                await client.get(NODES, "n")
        config = ClientConfig(server=server.url, ca_file=authority[0], server_name="kubernetes")
        async with Client(config, user_agent="t") as client:
            assert await client.get(NODES, "n") == b"{}"


async def test_a_client_certificate_is_shown_from_files_or_from_text(
    folder: Path, leaf: Pair, authority: Pair, other: Pair
) -> None:
    mine = make_leaf(folder, "client", other)
    before = names(folder)
    async with serving(tls=server_tls(leaf, clients=other[0])) as server:
        by_file = ClientConfig(server=server.url, ca_file=authority[0], cert_file=mine[0], key_file=mine[1])
        by_text = ClientConfig(
            server=server.url, ca_file=authority[0], cert_pem=mine[0].read_text(), key_pem=mine[1].read_text()
        )
        for config in (by_file, by_text):
            async with Client(config, user_agent="t") as client:
                assert await client.get(NODES, "n") == b"{}"
        async with Client(ClientConfig(server=server.url, ca_file=authority[0]), user_agent="t") as client:
            with pytest.raises(TransportError):
                await client.get(NODES, "n")
    assert names(folder) == before


async def test_a_new_authority_is_believed_within_a_minute(
    folder: Path, leaf: Pair, authority: Pair, other: Pair
) -> None:
    """The context is kept as long as the files say the same, and half a file changes nothing."""
    bundle = folder / "bundle.crt"
    bundle.write_text(authority[0].read_text())
    clock = ManualClock()
    second = make_leaf(folder, "second", other)
    async with serving(tls=server_tls(leaf)) as old, serving(tls=server_tls(second)) as new:
        config = ClientConfig(server=old.url, ca_file=bundle)
        async with Client(config, user_agent="t", clock=clock) as client:
            await client.get(NODES, "n")
            first = client._trust.context()
            clock.time += 61
            assert client._trust.context() is first
            bundle.write_text("-----BEGIN CERTIFICATE-----\nhalf")
            clock.time += 61
            assert client._trust.context() is first
            await client.get(NODES, "n")
            bundle.write_text(other[0].read_text())
            clock.time += 2
            client._base = new.url
            assert await client.get(NODES, "n") == b"{}"
            assert client._trust.context() is not first


def test_files_that_cannot_be_read_at_the_start_are_an_error(folder: Path) -> None:
    client = Client(ClientConfig(server="https://x.invalid", ca_file=folder / "missing"), user_agent="t")
    with pytest.raises(ConfigError, match="missing"):
        client._trust.context()
