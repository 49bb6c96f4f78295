"""The operator's process: `python -m nodewright.operator [--kubeconfig FILE] [--context NAME]`.

Its own small entry, so that what the command line needs (typer, rich) is not in the memory of a process that runs for months; the command
`nodewright operator` becomes this program. Exit codes: 0 clean stop, 1 failure, 2 usage or settings.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from controller_runtime.transport import ConfigError
from nodewright.operator import app, logs
from nodewright.operator.settings import Settings, SettingsError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator; the exit code."""
    parser = argparse.ArgumentParser(prog="nodewright operator", description="Run the operator until a signal ends it.")
    parser.add_argument(
        "--kubeconfig", type=Path, help="kubeconfig file; default: $KUBECONFIG, else the pod's service account"
    )
    parser.add_argument("--context", help="context of the kubeconfig; default: its current one")
    chosen = parser.parse_args(arguments)
    try:
        settings = Settings.from_environment(os.environ)
    except SettingsError as error:
        print(error, file=sys.stderr)  # noqa: T201 - logging is not set up without settings
        return 2
    logs.configure(level=settings.log_level, format=settings.log_format)
    try:
        return asyncio.run(app.run(settings, kubeconfig=chosen.kubeconfig, context=chosen.context))
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:  # before the signal handlers were in place
        return 1


if __name__ == "__main__":
    sys.exit(main())
