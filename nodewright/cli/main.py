"""The commands `nodewright` and `kubectl-nodewright`: one program, of which kubectl's plugin shows all but what runs the operator (CLI-1).

Only typer is imported here; what a command needs it imports itself, so that `version` answers at once and the operator's process, which
replaces this one, carries nothing of it.
"""

import os
import sys
from enum import StrEnum
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
    arguments = [sys.executable, *_safe_path(), "-m", "nodewright.operator"]
    if kubeconfig is not None:
        arguments += ["--kubeconfig", str(kubeconfig)]
    if context is not None:
        arguments += ["--context", context]
    # The same process goes on as the operator: same PID, signals and output, without the command line's memory.
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, arguments)


class OutputFormat(StrEnum):
    """What comes out on standard output."""

    TEXT = "text"
    JSON = "json"


def simulate(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Manifests with NodeWrights; a directory stands for its files, - for standard input.", metavar="FILE"
        ),
    ],
    nodes: Annotated[
        int | None,
        typer.Option(
            help="How many nodes, with the labels that the manifests select; 20 unless given.",
            show_default=False,
            metavar="N",
        ),
    ] = None,
    nodes_from: Annotated[
        Path | None,
        typer.Option(
            help="Nodes as `kubectl get nodes -o json` has them; - is standard input.",
            show_default=False,
            metavar="FILE",
        ),
    ] = None,
    fail: Annotated[
        list[str] | None,
        typer.Option(
            help="What goes wrong where: stage=apply:fail=1, node=node-0003:reboot. Repeatable.",
            show_default=False,
            metavar="RULE",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(help="Decides durations, names and luck; the same seed gives the same rollout.", metavar="S"),
    ] = 0,
    duration: Annotated[
        list[str] | None,
        typer.Option(
            help="How long a stage takes: apply=30s-90s. Repeatable.", show_default=False, metavar="STAGE=LOW[-HIGH]"
        ),
    ] = None,
    within_hours: Annotated[
        float | None,
        typer.Option(help="End after so many virtual hours in any case.", show_default=False, metavar="H"),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page that draws the rollout.", show_default=False, metavar="OUT.html")
    ] = None,
    output: Annotated[OutputFormat, typer.Option("--output", "-o", help="What to print.")] = OutputFormat.TEXT,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the operator's log, too.")] = False,
) -> None:
    """Show what manifests would do, without a cluster: the real operator, simulated nodes, a fast clock.

    Exit code 0: every node is complete; 1: something failed, or a manifest is faulty; 2: usage; 130: Ctrl-C.

    Example: nodewright simulate deploy/samples/demo.yaml --nodes 50 --fail 'package=drivers,node=node-0007:fail=1'
    """
    from nodewright.cli import simulate as command

    options = command.Options(
        files=files,
        nodes=nodes,
        nodes_from=nodes_from,
        fail=fail or (),
        seed=seed,
        durations=duration or (),
        within_hours=within_hours,
        report=report,
        as_json=output is OutputFormat.JSON,
        verbose=verbose,
    )
    raise typer.Exit(command.run(options))


def _safe_path() -> list[str]:
    """Keep the working directory off the operator's import path: a `logging.py` lying there would be imported instead of Python's.

    Unless NodeWright itself was imported from there, as in a checkout that is not installed.
    """
    try:
        here = Path.cwd().resolve()
    except OSError:  # it was deleted
        return ["-P"]
    return [] if Path(nodewright.__file__).resolve().parent.parent == here else ["-P"]


def application(*, with_operator: bool) -> typer.Typer:
    """The commands; those that run the operator only where asked for."""
    app = typer.Typer(help=_HELP, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=True)
    app.callback()(_root)
    app.command("version")(show_version)
    app.command("simulate")(simulate)
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
