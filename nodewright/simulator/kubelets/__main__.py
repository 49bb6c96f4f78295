"""`python -m nodewright.simulator.kubelets`: simulated nodes as a process, until SIGTERM. Prints `ready` when all nodes exist."""

import argparse
import asyncio
import gc
import logging
import signal
import sys
from pathlib import Path

from controller_runtime.transport import Client, ConfigError, load_config
from nodewright.simulator.kubelets import Kubelets, NodeTemplate, Timing
from nodewright.simulator.ledger import Ledger
from nodewright.simulator.rules import parse_rule


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and serve; the process's exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        options.rules = [parse_rule(text) for text in options.rule]
    except ValueError as error:
        parser.error(str(error))
    try:
        asyncio.run(_serve(options))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


async def _serve(options: argparse.Namespace) -> None:
    gc.set_threshold(50_000, 20, 50)  # what is decoded holds no cycles
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    config = await load_config(options.kubeconfig)
    with Ledger(options.ledger) as ledger:
        async with Client(config, user_agent="nodewright-simulator") as client:
            kubelets = Kubelets(
                client,
                nodes=[options.name_format.format(number) for number in range(options.nodes)],
                template=NodeTemplate(
                    labels=dict(_pair(text) for text in options.label),
                    taints=[_taint(text) for text in options.taint],
                ),
                namespace=options.namespace,
                rules=options.rules,
                ledger=ledger,
                timing=Timing(step_seconds=options.step_seconds, speed=options.speed),
                heartbeat_seconds=options.heartbeat_seconds,
                lease_seconds=options.lease_seconds,
            )
            serving = asyncio.create_task(kubelets.run(), name="kubelets")
            waiting = asyncio.create_task(_say_ready(kubelets), name="ready")
            ending = asyncio.create_task(stopped.wait(), name="signal")
            await asyncio.wait((serving, ending), return_when=asyncio.FIRST_COMPLETED)
            for task in (serving, waiting, ending):
                task.cancel()
            results = await asyncio.gather(serving, waiting, ending, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


async def _say_ready(kubelets: Kubelets) -> None:
    await kubelets.wait_ready()
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m nodewright.simulator.kubelets", description=__doc__)
    add = parser.add_argument
    add("--kubeconfig", type=Path, help="default: as kubectl finds one")
    add("--nodes", type=int, default=1)
    add("--name-format", default="node-{:04d}")
    add("--label", action="append", default=[], metavar="KEY=VALUE", help="of every node; repeatable")
    add("--taint", action="append", default=[], metavar="KEY=VALUE:EFFECT", help="of every node; repeatable")
    add("--namespace", help="whose pods are run; default: of all namespaces")
    add("--step-seconds", type=float, default=0.2, help="how long a container runs without a rule")
    add("--speed", type=float, default=1.0, help="divides the kubelets' own delays (back-off, observation, boot)")
    add("--heartbeat-seconds", type=float, default=10.0, help="node status heartbeats; 0 is off")
    add("--lease-seconds", type=float, default=0.0, help="node lease heartbeats; 0 is off")
    add(
        "--rule",
        action="append",
        default=[],
        help="[key=pattern,...]:outcome[=value][,option=value,...]; first match wins",
    )
    add("--ledger", type=Path, help="append what ran as JSON lines")
    add("--log-level", default="warning")
    return parser


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value


def _taint(text: str) -> dict[str, str]:
    head, _, effect = text.rpartition(":")
    key, value = _pair(head or text)
    return {"key": key, "value": value, "effect": effect if head else "NoSchedule"}


if __name__ == "__main__":
    sys.exit(main())
