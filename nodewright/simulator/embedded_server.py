"""`python -m nodewright.simulator.embedded_server FOLDER`: the embedded API server over HTTPS with the controllers, until SIGTERM.

Writes `admin.kubeconfig` into the folder and prints `ready` when the controllers work. NodeWright's CRDs are there from the start,
since the garbage collector of ours looks for its kinds once. `embedded_process` starts it as a `Cluster`.
"""

import argparse
import asyncio
import dataclasses
import gc
import logging
import signal
import sys
from pathlib import Path
from typing import Final

from controller_runtime.testing.api_server import ApiServer, EmbeddedClient
from controller_runtime.testing.api_server.http import HttpApiServer
from controller_runtime.transport import Resource
from nodewright.api import keys
from nodewright.api.crd import deployment_policy_crd, nodewright_crd
from nodewright.simulator.controllers import Controllers, ControllerSettings
from nodewright.simulator.controllers.controllers import CONFIG_MAP

NODEWRIGHT: Final = Resource(keys.GROUP, keys.VERSION, keys.NODEWRIGHT_PLURAL, keys.NODEWRIGHT_KIND, namespaced=False)
_WINDOW: Final = 50_000
_HURRIED: Final = ("job_batch_seconds", "job_backoff_seconds", "pod_garbage_seconds", "vanished_node_seconds")


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and serve; the process's exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(_serve(options))
    return 0


def hurried(speed: float) -> ControllerSettings:
    """kube-controller-manager's times with the delays that only pass time divided: those of Jobs and of abandoned pods.

    What depends on heartbeats stays, since these do not come faster.
    """
    usual = ControllerSettings()
    return dataclasses.replace(usual, **{name: getattr(usual, name) / speed for name in _HURRIED})


async def _serve(options: argparse.Namespace) -> None:
    gc.set_threshold(50_000, 20, 50)  # what is decoded holds no cycles
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    server = ApiServer(window=_WINDOW)
    for crd in (nodewright_crd(), deployment_policy_crd()):
        server.load(crd)
    async with HttpApiServer(server, folder=options.folder, port=options.port):
        controllers = Controllers(
            EmbeddedClient(server, user_agent="controllers", max_in_flight=64),
            settings=hurried(options.speed),
            collected=(CONFIG_MAP, NODEWRIGHT),
        )
        async with asyncio.TaskGroup() as group:
            running = group.create_task(controllers.run(), name="controllers")
            await controllers.wait_ready()
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            await stopped.wait()
            running.cancel()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m nodewright.simulator.embedded_server", description=__doc__)
    add = parser.add_argument
    add("folder", type=Path, help="where certificates and the administrator's kubeconfig are put")
    add("--port", type=int, default=0, help="of the loopback; default: one that is free")
    add("--speed", type=float, default=1.0, help="divides the controllers' delays that only pass time")
    add("--log-level", default="warning")
    return parser


if __name__ == "__main__":
    sys.exit(main())
