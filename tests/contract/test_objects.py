"""The cases of patches, applies, schemas, selectors and tables on the servers: the embedded one, and a real one (marker `control_plane`).

The pure functions run the same cases in `tests/unit/runtime_testing/objects/`.
"""

import asyncio
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from controller_runtime.testing.api_server import ApiRequest, ApiServer
from controller_runtime.testing.control_plane import Cluster
from controller_runtime.transport import load_config
from tests.contract.objects_apply_cases import APPLIES, ApplyCase
from tests.contract.objects_cases import PatchCase
from tests.contract.objects_last_applied_cases import LAST_APPLIED
from tests.contract.objects_patch_cases import JSON_PATCHES, MERGE_PATCHES
from tests.contract.objects_plain_table_cases import PLAIN_TABLES
from tests.contract.objects_runner import Ask, Contract
from tests.contract.objects_schema_cases import SCHEMAS, SELECTORS, SchemaCase, SelectorCase
from tests.contract.objects_strategic_cases import STRATEGIC_PATCHES
from tests.contract.objects_table_cases import TABLES, TableCase


def _over_https(kubeconfig: Path) -> Ask:
    config = asyncio.run(load_config(kubeconfig))
    context = ssl.create_default_context(cafile=str(config.ca_file) if config.ca_file else None, cadata=config.ca_pem)
    authorization = config.authorization or (config.token and f"Bearer {config.token}")

    def ask(method: str, path: str, body: Any, kind: str, accept: str) -> tuple[int, Any]:
        headers = {"Content-Type": kind, "Accept": accept or "application/json"}
        if authorization:
            headers["Authorization"] = authorization
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{config.server}{path}", method=method, data=content, headers=headers)
        try:
            with urllib.request.urlopen(request, context=context, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                said = error.read()
            try:
                return error.code, json.loads(said)
            except ValueError:  # a kind that is not served yet: "404 page not found"
                return error.code, {"message": said.decode(errors="replace").strip()}

    return ask


def _in_process() -> Ask:
    server = ApiServer()

    def ask(method: str, path: str, body: Any, kind: str, accept: str) -> tuple[int, Any]:
        place, _, query = path.partition("?")
        request = ApiRequest(
            method=method,
            path=place,
            query=dict(urllib.parse.parse_qsl(query, keep_blank_values=True)),
            body=b"" if body is None else json.dumps(body).encode(),
            content_type=kind,
            accept=accept,
        )
        answer = asyncio.run(server.serve(request))
        return answer.status, json.loads(answer.body)

    return ask


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.control_plane)])
def contract(request: pytest.FixtureRequest) -> Contract:
    if request.param == "real":
        cluster: Cluster = request.getfixturevalue("cluster")
        ask = _over_https(cluster.admin_kubeconfig)
    else:
        ask = _in_process()
    contract = Contract(ask)
    contract.install()
    return contract


def _names(case: PatchCase | ApplyCase | SchemaCase | SelectorCase | TableCase) -> str:
    return case.text if isinstance(case, SelectorCase) else case.name


@pytest.mark.parametrize("case", [*JSON_PATCHES, *MERGE_PATCHES, *STRATEGIC_PATCHES], ids=_names)
def test_a_patch(contract: Contract, case: PatchCase) -> None:
    contract.patch(case)


@pytest.mark.parametrize("case", [*APPLIES, *LAST_APPLIED], ids=_names)
def test_applies(contract: Contract, case: ApplyCase) -> None:
    contract.apply(case)


@pytest.mark.parametrize("case", SCHEMAS, ids=_names)
def test_a_schema(contract: Contract, case: SchemaCase) -> None:
    contract.schema(case)


@pytest.mark.parametrize("case", SELECTORS, ids=_names)
def test_a_selector(contract: Contract, case: SelectorCase) -> None:
    contract.select(case)


@pytest.mark.parametrize("case", [*TABLES, *PLAIN_TABLES], ids=_names)
def test_a_table(contract: Contract, case: TableCase) -> None:
    contract.table(case)
