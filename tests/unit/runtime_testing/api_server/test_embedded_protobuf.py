"""Claims about bodies in Kubernetes' protobuf encoding, which `kubectl create` sends for built-in kinds."""

from __future__ import annotations

import pytest

from controller_runtime.testing.api_server import ApiRequest, protobuf
from tests.unit.runtime_testing.api_server.virtual import server


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def _body(version: str, kind: str, raw: bytes) -> bytes:
    head = _field(1, version.encode()) + _field(2, kind.encode())
    return protobuf.MAGIC + _field(1, head) + _field(2, raw) + _field(3, b"") + _field(4, b"")


def _metadata(name: str, **labels: str) -> bytes:
    entries = b"".join(_field(11, _field(1, key.encode()) + _field(2, value.encode())) for key, value in labels.items())
    return _field(1, name.encode()) + _field(2, b"") + _field(8, b"") + entries


def test_a_config_map_is_read_whole() -> None:
    data = _field(2, _field(1, b"key") + _field(2, b"value")) + _field(2, _field(1, b"empty") + _field(2, b""))
    binary = _field(3, _field(1, b"raw") + _field(2, b"\x00\xff"))
    body = _body("v1", "ConfigMap", _field(1, _metadata("a", app="x")) + data + binary + _field(4, 1))
    assert protobuf.decoded(body) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "labels": {"app": "x"}},
        "data": {"key": "value", "empty": ""},
        "binaryData": {"raw": "AP8="},
        "immutable": True,
    }


@pytest.mark.parametrize(
    "body",
    [
        b"no protobuf",
        _body("v1", "Endpoints", _field(1, _metadata("a"))),
        _body("v1", "ConfigMap", _field(9, b"what is this")),
        _body("v1", "ConfigMap", _field(1, _metadata("a")))[:-9],
    ],
)
def test_what_cannot_be_read_whole_is_refused(body: bytes) -> None:
    with pytest.raises(protobuf.UnreadableError):
        protobuf.decoded(body)


@pytest.mark.looptime
async def test_the_server_takes_it_and_answers_415_for_what_it_cannot_read() -> None:
    served = server()
    path = "/api/v1/namespaces/default/configmaps"

    def post(body: bytes) -> int:
        return served.handle(ApiRequest(method="POST", path=path, body=body, content_type=protobuf.MEDIA_TYPE)).status

    assert post(_body("v1", "ConfigMap", _field(1, _metadata("a")))) == 201
    assert post(_body("v1", "ConfigMap", _field(9, b"what is this"))) == 415
