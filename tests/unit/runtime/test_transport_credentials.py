"""Tokens that change under way."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from controller_runtime.transport import ClientConfig, ConfigError, Credential
from controller_runtime.transport.config import Credentials
from tests.unit.runtime.model_server import ManualClock

SERVER = "https://example.invalid"


async def test_a_token_file_is_read_every_sixty_seconds_of_monotonic_time(tmp_path: Path) -> None:
    """Trap 40: and its newline is no part of it."""
    file = tmp_path / "token"
    file.write_text("one\n")
    clock = ManualClock()
    credentials = Credentials(ClientConfig(server=SERVER, token_file=file), clock=clock)
    file.write_text("two\n")
    clock.time += 59
    assert await credentials.authorization() == "Bearer one"
    clock.time += 2
    assert await credentials.authorization() == "Bearer two"


@pytest.mark.parametrize("state", ["empty", "blank", "missing"])
async def test_a_token_file_that_is_being_replaced_leaves_the_old_token_in_use(tmp_path: Path, state: str) -> None:
    """Trap 40: and is looked at again a second later, not a minute."""
    file = tmp_path / "token"
    file.write_text("one")
    clock = ManualClock()
    credentials = Credentials(ClientConfig(server=SERVER, token_file=file), clock=clock)
    clock.time += 61
    file.unlink() if state == "missing" else file.write_text("" if state == "empty" else "\n")
    assert await credentials.authorization() == "Bearer one"
    assert await credentials.rejected("Bearer one")
    file.write_text("two")
    clock.time += 1
    assert await credentials.authorization() == "Bearer two"


def test_no_token_at_all_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="token"):
        Credentials(ClientConfig(server=SERVER, token_file=tmp_path / "token"), clock=ManualClock())


async def test_a_fixed_token_is_not_tried_twice() -> None:
    credentials = Credentials(ClientConfig(server=SERVER, token="fixed\n"), clock=ManualClock())
    assert await credentials.authorization() == "Bearer fixed"
    assert not await credentials.rejected("Bearer fixed")


class Plugin:
    """A credential plugin that answers tokens of ten minutes."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.calls = 0
        self.broken = False

    def credential(self) -> Credential:
        return Credential(authorization=f"Bearer t{self.calls}", expires_at=self.clock.now() + timedelta(minutes=10))

    async def __call__(self) -> Credential:
        self.calls += 1
        await asyncio.sleep(0)
        if self.broken:
            raise ConfigError("the plugin failed")
        return self.credential()


@pytest.fixture
def plugin() -> Plugin:
    return Plugin(ManualClock())


def credentials_of(plugin: Plugin) -> Credentials:
    return Credentials(ClientConfig(server=SERVER, credential=plugin.credential(), refresh=plugin), clock=plugin.clock)


async def test_a_plugins_credential_is_renewed_a_minute_before_its_end(plugin: Plugin) -> None:
    credentials = credentials_of(plugin)
    plugin.clock.time += 530
    assert await credentials.authorization() == "Bearer t0"
    plugin.clock.time += 20
    assert await credentials.authorization() == "Bearer t1"


async def test_of_many_requests_rejected_at_once_one_renews_for_all(plugin: Plugin) -> None:
    credentials = credentials_of(plugin)
    header = await credentials.authorization()
    assert all(await asyncio.gather(*(credentials.rejected(header) for _ in range(20))))
    assert plugin.calls == 1
    plugin.clock.time += 545
    assert set(await asyncio.gather(*(credentials.authorization() for _ in range(20)))) == {"Bearer t2"}
    assert plugin.calls == 2


async def test_a_plugin_that_fails_is_asked_again_and_the_old_credential_used_to_its_end(plugin: Plugin) -> None:
    credentials = credentials_of(plugin)
    plugin.broken = True
    plugin.clock.time += 545
    assert await credentials.authorization() == "Bearer t0"
    assert await credentials.authorization() == "Bearer t0"
    assert plugin.calls == 1
    plugin.clock.time += 60
    with pytest.raises(ConfigError, match="plugin failed"):
        await credentials.authorization()
    plugin.broken = False
    assert await credentials.authorization() == "Bearer t3"


def test_secrets_are_not_shown() -> None:
    config = ClientConfig(server=SERVER, token="s3cret", key_pem="s3cret", authorization="s3cret")
    assert "s3cret" not in repr(config)
    assert "s3cret" not in repr(Credential(authorization="s3cret", key_pem="s3cret"))
