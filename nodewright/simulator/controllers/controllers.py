"""All controllers of the embedded cluster in one object, over one set of watches.

Relies on any client with `transport.Client`'s methods: the embedded server's, or the real one. The simulation and `nodewright simulate`
rely on it. Against a real control plane it must not run beside kube-controller-manager.
"""

import asyncio
import random
from collections.abc import Iterable

from controller_runtime.clock import Clock, SystemClock
from controller_runtime.events import EventRecorder
from controller_runtime.transport import Resource
from nodewright.simulator.controllers.disruption import DisruptionController
from nodewright.simulator.controllers.eviction import TaintEviction
from nodewright.simulator.controllers.garbage import GarbageCollector
from nodewright.simulator.controllers.job_ttl import JobTtlController
from nodewright.simulator.controllers.jobs import JobController
from nodewright.simulator.controllers.nodes import NodeController
from nodewright.simulator.controllers.picture import Picture
from nodewright.simulator.controllers.pod_garbage import PodGarbageCollector
from nodewright.simulator.controllers.requests import ClusterClient, Requests
from nodewright.simulator.controllers.settings import ControllerSettings

CONFIG_MAP = Resource(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True)


class Controllers:
    """`await run()` until cancelled; `await wait_ready()` returns when all watches are synced and the controllers work.

    Must be made while the loop runs. All state but Jobs' back-offs and timers is on the server: a new one goes on where one ended.
    """

    def __init__(
        self,
        client: ClusterClient,
        *,
        clock: Clock | None = None,
        settings: ControllerSettings | None = None,
        collected: Iterable[Resource] = (CONFIG_MAP,),
        events: bool = True,
        rng: random.Random | None = None,
    ) -> None:
        """`collected`: further resources, served from the start, whose objects own or are owned, such as custom resources.

        `events` False writes none.
        """
        clock = clock or SystemClock()
        settings = settings or ControllerSettings()
        requests = Requests(client)
        self.picture = Picture(client, collected, clock=clock, rng=rng)
        recorder = EventRecorder(client, "job-controller", "job-controller", clock=clock) if events else None
        picture = self.picture
        self._recorder = recorder
        self._parts = (
            JobController(requests, picture, settings=settings, clock=clock, recorder=recorder),
            JobTtlController(requests, picture, settings=settings, clock=clock),
            GarbageCollector(requests, picture, settings=settings),
            DisruptionController(requests, picture, settings=settings, clock=clock),
            NodeController(requests, picture, settings=settings, clock=clock),
            TaintEviction(requests, picture, settings=settings, clock=clock),
            PodGarbageCollector(requests, picture, settings=settings, clock=clock),
        )
        self._ready = asyncio.Event()

    async def run(self) -> None:
        """Watch and work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.picture.run(), name="controllers: watches")
            await self.picture.wait_synced()
            for part in self._parts:
                group.create_task(part.run(), name=type(part).__name__)
            if self._recorder is not None:
                group.create_task(self._recorder.run(), name="controllers: events")
            self._ready.set()

    async def wait_ready(self) -> None:
        """Return when every watch is synced."""
        await self._ready.wait()
