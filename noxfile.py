"""Every check, test and demonstration by name: ``nox -l`` lists them, ``nox`` alone does what CI does.

Sessions run in the environment nox itself runs in, which the Makefile made from the locked requirements: one environment, one set of
versions, and no minutes spent on making seven alike. Call it as ``.venv/bin/nox``.
"""

import os
import signal
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2024.10"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "unit", "simulation", "contract", "cluster", "faults"]

# A `kill` of nox ends what it runs, as Ctrl-C does; else a playground would stay behind.
signal.signal(signal.SIGTERM, signal.default_int_handler)

_BIN = Path(sys.executable).parent


def _python(session: nox.Session, module: str, *arguments: str, codes: tuple[int, ...] = (0,), **env: str) -> None:
    session.run(
        sys.executable,
        "-m",
        module,
        *arguments,
        env=env,
        success_codes=codes,
        interrupt_timeout=30,
        terminate_timeout=30,
    )


def _build_control_plane(session: nox.Session) -> None:
    """Builds with its progress in sight. Without Go it says so in one line; the tests then skip, or fail when CI is set."""
    _python(session, "controller_runtime.testing.control_plane", codes=(0, 1))


@nox.session
def lint(session: nox.Session) -> None:
    """Style, format, and the walls between the packages."""
    _python(session, "ruff", "check", ".")
    _python(session, "ruff", "format", "--check", ".")
    session.run(str(_BIN / "lint-imports"))


@nox.session
def types(session: nox.Session) -> None:
    """Types, strictly."""
    _python(session, "mypy", *session.posargs)


@nox.session
def unit(session: nox.Session) -> None:
    """Tests that need nothing but Python."""
    _python(session, "pytest", "-n", "auto", *(session.posargs or ["tests/unit", "tests/e2e"]))


@nox.session
def simulation(session: nox.Session) -> None:
    """The whole operator in virtual time, from 500 seeds, with faults at any request; then with planted bugs, which have to be found."""
    seeds = os.environ.get("NODEWRIGHT_SIMULATION_SEEDS", "500")
    chosen = session.posargs or ["tests/simulation"]
    _python(session, "pytest", "-n", "auto", *chosen, NODEWRIGHT_SIMULATION_SEEDS=seeds)


@nox.session
def contract(session: nox.Session) -> None:
    """What the embedded API server and its controllers are held against the real ones by; mostly waiting, so side by side."""
    _build_control_plane(session)
    _python(session, "pytest", "-n", "3", "--dist", "worksteal", *(session.posargs or ["tests/contract"]))


@nox.session
def cluster(session: nox.Session) -> None:
    """Tests of behaviour on the embedded cluster and on a real control plane: ``-- --backend embedded`` needs no Go."""
    chosen = list(session.posargs)
    if "embedded" not in chosen and "--backend=embedded" not in chosen:
        _build_control_plane(session)
    where = [] if any(argument.startswith("tests") for argument in chosen) else ["tests/cluster"]
    _python(session, "pytest", "-p", "no:xdist", *chosen, *where)  # all share one cluster and one operator


@nox.session
def faults(session: nox.Session) -> None:
    """Tests that kill, stop and cut what they can, against a real control plane."""
    _build_control_plane(session)
    _python(session, "pytest", *(session.posargs or ["tests/faults"]))


@nox.session
def bench(session: nox.Session) -> None:
    """The benchmark: wall, CPU, memory and requests beside a floor."""
    _python(session, "tests.benchmarks", *session.posargs)


@nox.session
def playground(session: nox.Session) -> None:
    """A control plane, simulated nodes and the operator, until Ctrl-C: ``nox -s playground -- --nodes 50``."""
    _python(session, "nodewright.simulator.playground", *session.posargs)


@nox.session
def demo(session: nox.Session) -> None:
    """A rollout on 20 simulated nodes, watched until it is complete."""
    _python(session, "nodewright.simulator.playground", "--demo", *session.posargs)
