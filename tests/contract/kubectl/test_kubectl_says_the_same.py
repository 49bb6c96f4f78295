"""What kubectl says of the embedded cluster is what it says of a real one, line by line."""

import time
from pathlib import Path

import pytest

from tests.contract.kubectl.pair import Pair, Said
from tests.contract.kubectl.scripts import SCRIPTS

_UNTIL = "until: "
_PATIENCE = 30.0


@pytest.mark.control_plane
@pytest.mark.parametrize("script", SCRIPTS)
def test_kubectl_says_the_same(pair: Pair, manifests: Path, namespace: str, script: str) -> None:
    different = []
    for line in SCRIPTS[script].strip().splitlines():
        real, embedded = _said(pair, line, manifests, namespace)
        if real.lines() != embedded.lines():
            different.append("\n".join([line, *_both(real, embedded)]))
    assert not different, "\n\n".join(different)


def _said(pair: Pair, line: str, folder: Path, namespace: str) -> tuple[Said, Said]:
    if not line.startswith(_UNTIL):
        return pair.run(line, folder, namespace)
    deadline = time.monotonic() + _PATIENCE
    while True:
        real, embedded = pair.run(line.removeprefix(_UNTIL), folder, namespace)
        if real.lines() == embedded.lines() or time.monotonic() > deadline:
            return real, embedded
        time.sleep(0.3)


def _both(real: Said, embedded: Said) -> list[str]:
    """What only one of them said."""
    ours, theirs = embedded.lines(), real.lines()
    lines = [f"  real:     {line}" for line in theirs if line not in ours]
    lines += [f"  embedded: {line}" for line in ours if line not in theirs]
    return lines or ["  the same lines in another order"]
