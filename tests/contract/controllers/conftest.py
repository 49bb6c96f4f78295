"""One suite, two backends: the embedded API server with our controllers in virtual time, and a real control plane with its own."""

import functools
import os

import pytest

from controller_runtime.testing.control_plane import ControlPlane, GoMissingError, check_buildable
from tests.contract.controllers.scenes import Scene, embedded, on_control_plane


@pytest.fixture(
    params=[
        pytest.param("embedded", marks=pytest.mark.looptime),
        pytest.param("control_plane", marks=pytest.mark.control_plane),
    ]
)
def scene(request: pytest.FixtureRequest) -> Scene:
    """Opens a place on the backend."""
    if request.param == "embedded":
        return embedded
    try:
        check_buildable()
    except GoMissingError as error:
        if os.environ.get("CI"):
            pytest.fail(f"{error} (where CI is set a skip is a failure)", pytrace=False)
        pytest.skip(str(error))
    plane = request.getfixturevalue("control_plane")
    assert isinstance(plane, ControlPlane)
    return functools.partial(on_control_plane, plane)
