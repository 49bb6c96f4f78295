"""The commands `nodewright` and `kubectl-nodewright`: one program, of which kubectl's plugin shows all but what runs the operator (CLI-1).

Only typer is imported here; what a command needs it imports itself, so that `version` answers at once and the operator's process, which
replaces this one, carries nothing of it.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

import nodewright

USAGE: Final = 2
"""Exit code for wrong usage and wrong settings."""

_HELP: Final = "Changes the nodes of a Kubernetes cluster: declared work, rolled out in batches, once per host."


def _show_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(nodewright.__version__)
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version and exit.",
            is_eager=True,
            callback=lambda wanted: _show_version(wanted=wanted),
        ),
    ] = False,
) -> None:
    """Changes the nodes of a Kubernetes cluster."""


def show_version(
    client_only: Annotated[bool, typer.Option("--client-only", help="Do not ask the cluster.")] = False,
) -> None:
    """Show the version of this program.

    Example: kubectl nodewright version --client-only
    """
    typer.echo(f"client: {nodewright.__version__}")


def operator(
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Kubeconfig file; default: $KUBECONFIG, else the pod's service account.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig; default: its current one.")] = None,
) -> None:
    """Run the operator until a signal ends it; its settings are environment variables.

    Example: AGENT_IMAGE=registry.example/agent:1.2.3 nodewright operator --kubeconfig ~/.kube/config
    """
    arguments = [sys.executable, "-m", "nodewright.operator"]
    if kubeconfig is not None:
        arguments += ["--kubeconfig", str(kubeconfig)]
    if context is not None:
        arguments += ["--context", context]
    # The same process goes on as the operator: same PID, signals and output, without the command line's memory.
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, arguments)


def application(*, with_operator: bool) -> typer.Typer:
    """The commands; those that run the operator only where asked for."""
    app = typer.Typer(help=_HELP, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=True)
    app.callback()(_root)
    app.command("version")(show_version)
    if with_operator:
        app.command("operator")(operator)
    return app


def main() -> None:
    """The console script `nodewright`."""
    application(with_operator=True)(prog_name="nodewright")


def plugin() -> None:
    """The console script `kubectl-nodewright`, which kubectl runs as `kubectl nodewright`."""
    application(with_operator=False)(prog_name="kubectl nodewright")


if __name__ == "__main__":
    main()
