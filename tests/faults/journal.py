"""Every change of the cluster in the order in which it happened, read from etcd below the API server.

Revisions of etcd are one order for all kinds, and its watch goes on while the API server is down, so a claim about "every moment" can be
held against every moment: no gap, no guess which of two writes came first. The control plane has to store JSON
(``--storage-media-type=application/json``). Nothing of the product is asked; the fault tests replay a journal through their claims.
"""

import asyncio
import base64
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import msgspec

from nodewright.model.objects import Job, Node, NodeWrightObject, ObjectMeta, Pod

JSON_STORAGE: Final = "--storage-media-type=application/json"


class Lease(msgspec.Struct, frozen=True):
    """A lease with its spec as plain values."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}


KINDS: Final[dict[str, tuple[str, type[msgspec.Struct]]]] = {
    "/registry/minions/": ("Node", Node),
    "/registry/jobs/nodewright/": ("Job", Job),
    "/registry/pods/nodewright/": ("Pod", Pod),
    "/registry/nodewright.nvidia.com/nodewrights/": ("NodeWright", NodeWrightObject),
    "/registry/leases/nodewright/": ("Lease", Lease),
}
"""Where etcd keeps what we look at."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One write: `old` is what it replaced, `new` what it left (None: deleted). `time` is when we heard of it, Unix seconds."""

    revision: int
    time: float
    kind: str
    name: str
    old: Any
    new: Any


@dataclass(slots=True)
class Picture:
    """The cluster at one moment, by kind and name."""

    nodes: dict[str, Node] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    crs: dict[str, NodeWrightObject] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)

    def of(self, kind: str) -> dict[str, Any]:
        """The objects of a kind."""
        kinds = {"Node": self.nodes, "Job": self.jobs, "Pod": self.pods, "NodeWright": self.crs, "Lease": self.leases}
        return kinds[kind]  # type: ignore[return-value]

    def apply(self, moment: Moment) -> None:
        """Go on to the next moment."""
        if moment.new is None:
            self.of(moment.kind).pop(moment.name, None)
        else:
            self.of(moment.kind)[moment.name] = moment.new


class _KeyValue(msgspec.Struct):
    key: bytes
    mod_revision: str
    value: bytes = b""


class _Event(msgspec.Struct):
    kv: _KeyValue
    type: str = "PUT"


class _Result(msgspec.Struct):
    events: list[_Event] = []
    canceled: bool = False
    cancel_reason: str = ""


class _Line(msgspec.Struct):
    result: _Result


class Journal:
    """Records from construction on; `now` is the newest picture. All methods belong to the loop of `run`."""

    def __init__(self, etcd_url: str) -> None:
        self.moments: list[Moment] = []
        self.now = Picture()
        self._url = f"{etcd_url}/v3/watch"
        self._line = msgspec.json.Decoder(_Line)
        self._decoders = {prefix: msgspec.json.Decoder(type_) for prefix, (_, type_) in KINDS.items()}
        self._moved = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled; from the beginning of the cluster. RuntimeError when etcd ends the watch: the journal had a hole."""
        body = {
            "create_request": {"key": _base64("/registry/"), "range_end": _base64("/registry0"), "start_revision": "1"}
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.post(self._url, json=body) as answer:
            answer.raise_for_status()
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._take(line)
        raise RuntimeError("etcd ended the watch: the journal would have a hole")

    def _take(self, line: bytes) -> None:
        result = self._line.decode(line).result
        if result.canceled:
            raise RuntimeError(f"etcd cancelled the watch: {result.cancel_reason}")
        for event in result.events:
            self._record(event)
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _record(self, event: _Event) -> None:
        key = event.kv.key.decode()
        prefix = next((one for one in KINDS if key.startswith(one)), None)
        if prefix is None:
            return
        kind, name = KINDS[prefix][0], key.removeprefix(prefix)
        new = None if event.type == "DELETE" else self._decoders[prefix].decode(event.kv.value)
        old = self.now.of(kind).get(name)
        moment = Moment(int(event.kv.mod_revision), time.time(), kind, name, old, new)
        self.moments.append(moment)
        self.now.apply(moment)

    async def until(self, true: Callable[[], object], *, within: float) -> bool:
        """Wait until `true()` is, looked at after each change and each half second; False after `within` seconds."""
        deadline = asyncio.get_running_loop().time() + within
        while not true():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            moved = self._moved
            try:
                async with asyncio.timeout(min(left, 0.5)):
                    await moved.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(0.05)  # what comes together is looked at once
        return True


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
