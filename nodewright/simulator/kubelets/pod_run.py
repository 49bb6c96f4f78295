"""One pod on one simulated node: a pure state machine that is driven by time.

`advance(now)` does everything that is due, `wake_at` says when to call again, `revision` rises with each change a real kubelet would
report. Nothing here waits, sends or reads a clock, so every behaviour of a kubelet that the operator relies on is provable in
microseconds. The shell (`kubelets.kubelets`) owns time and writes; `pod_status` turns a run into the API's status.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from nodewright.simulator.kubelets.container_run import ContainerRun, Phase, Termination
from nodewright.simulator.kubelets.pod_view import Container, LivePod, Pod, asks_for_reboot, labels_of
from nodewright.simulator.kubelets.timing import KILLED, LOST, NEVER, TERMINATED_BY_SIGNAL, Cause, Timing
from nodewright.simulator.ledger import Event
from nodewright.simulator.rules import Kind, Outcome, Step

Recorder = Callable[["PodRun", Event, ContainerRun | None, str, float], None]


class PodRun:
    """The run of one pod. Guarantees: a container starts only after all before it succeeded; nothing starts once the pod is stopping."""

    def __init__(
        self,
        pod: Pod,
        *,
        decide: Callable[[Step], Outcome | None],
        record: Recorder,
        timing: Timing | None = None,
        earlier_attempts: int = 0,
        offset: float = 0.0,
    ) -> None:
        """`offset` added to a machine time gives Unix time; `earlier_attempts` are those of the Job's pods before this one."""
        self.pod = pod
        self.uid = pod.metadata.uid
        self.labels = labels_of(pod)
        self.timing = timing or Timing()
        self.offset = offset
        self.earlier_attempts = earlier_attempts
        self._decide = decide
        self._record = record
        self._inits = [self._new(container, init=True) for container in pod.spec.init_containers]
        self._mains = [self._new(container, init=False) for container in pod.spec.containers]
        self._work = self._work_container()
        self.acknowledged_at: float | None = None
        self.never_acknowledged = False
        self.refusal: tuple[str, str] | None = None
        self.cause: Cause | None = None
        self.disrupted = False
        self.ended = False
        self.sandbox_seen = False
        self.volumes_missing = False
        self.reboot_wanted = False
        self.deletion_wanted = False
        self.revision = 0
        self.wake_at = -NEVER
        self._kill_at = NEVER
        self._kill_by = NEVER
        reason = "PodInitializing" if self._inits else "ContainerCreating"
        for run in self.containers:
            run.show_waiting(reason)

    @property
    def containers(self) -> Iterator[ContainerRun]:
        """Init containers, then main containers."""
        yield from self._inits
        yield from self._mains

    @property
    def inits(self) -> list[ContainerRun]:
        """The init containers in their order."""
        return self._inits

    @property
    def mains(self) -> list[ContainerRun]:
        """The main containers."""
        return self._mains

    @property
    def attempts(self) -> int:
        """Attempts this pod counts for: one, and one for each restart in place."""
        return 1 + max((run.restarts for run in self.containers), default=0)

    def advance(self, now: float) -> None:
        """Do all that is due at `now` and set `wake_at`."""
        if self.acknowledged_at is None and not self.never_acknowledged:
            self._acknowledge(now)
        if self.acknowledged_at is not None and not self.ended:
            deadline = self.pod.spec.active_deadline_seconds
            if deadline is not None and self.cause is None and self.acknowledged_at + deadline <= now:
                self.stop(now, Cause.DEADLINE, grace=self.pod.spec.termination_grace_period_seconds)
            if self.cause is None:
                self._progress(now)
            if self.cause is not None:  # _progress may have begun an eviction
                self._wind_down(now)
        self.wake_at = self._next_time()

    def stop(self, now: float, cause: Cause, *, grace: float) -> None:
        """Begin to stop the containers; asked again, only a shorter grace counts. Call `advance` after it."""
        if self.ended or self.never_acknowledged:
            return
        self.cause = self.cause or cause
        self._kill_at = min(self._kill_at, now + min(self.timing.terminate_seconds / self.timing.speed, grace))
        self._kill_by = min(self._kill_by, now + grace)
        self.wake_at = now

    def lose_containers(self, now: float) -> None:
        """The node lost power or rebooted: what ran is gone. Jobs' package pods fail, others start again from the first container."""
        if self.acknowledged_at is None or self.ended:
            return
        for run in self.containers:
            if run.phase is Phase.RUNNING:
                lost = Termination(exit_code=LOST, reason="Unknown", started_at=run.started_at, finished_at=now)
                self._end(run, lost, "lost", now)
        if self.cause is not None or self.pod.spec.restart_policy == "Never":
            self._finish()
            return
        for run in self.containers:
            run.phase, run.retry_at, run.back_off = Phase.WAITING, now, 0.0

    def vanish(self, now: float) -> None:
        """The pod object is gone without its kubelet's consent: kill what runs, report nothing."""
        for run in self.containers:
            if run.phase is Phase.RUNNING:
                self._end(run, Termination(exit_code=KILLED, reason="Error"), f"killed:{Cause.GONE}", now)
        self.ended = True

    def resume(self, live: LivePod, *, now: float, acknowledged_at: float) -> None:
        """Go on where an earlier kubelet process stopped: what had ended stays so, what ran goes on and ends one step from now."""
        self.acknowledged_at = acknowledged_at
        if any(old.state.running or old.state.terminated for old in live.status.init_container_statuses):
            # Mounted before the first container ran: what became of their source since does not matter.
            self.volumes_missing = False
        status = {old.name: old for old in (*live.status.init_container_statuses, *live.status.container_statuses)}
        for run in self.containers:
            old = status.get(run.spec.name)
            if old is None:
                continue
            run.restarts = old.restart_count
            run.attempt = self.earlier_attempts + run.restarts + 1
            if old.state.terminated is not None:
                ended = old.state.terminated
                run.phase = Phase.TERMINATED
                run.termination = Termination(
                    exit_code=ended.exit_code, reason=ended.reason, started_at=acknowledged_at, finished_at=now
                )
            elif old.state.running is not None:
                run.outcome = self._decide(self._step(run, run.attempt)) or self._default(run, run.restarts)
                self._run(run, now)
                run.observe_at = NEVER
            run.show(self.offset)
        self.sandbox_seen = True

    def _new(self, container: Container, *, init: bool) -> ContainerRun:
        return ContainerRun(spec=container, init=init, pod_uid=self.uid)

    def _work_container(self) -> str:
        stage = self.labels.stage
        runs = [*self._inits, *self._mains]
        for run in runs:
            if run.spec.name == "interrupt" or (stage and run.spec.name.endswith(f"-{stage}")):
                return run.spec.name
        return runs[0].spec.name if runs else ""

    def _step(self, run: ContainerRun | None, attempt: int) -> Step:
        labels, pod = self.labels, self.pod
        name = "" if run is None else run.spec.name
        first = run is not None and run is (self._inits or self._mains)[0]
        return Step(
            node=pod.spec.node_name,
            pod=pod.metadata.name,
            job=labels.job,
            cr=labels.cr,
            package=labels.package,
            version=labels.version,
            stage=labels.stage,
            container=name,
            attempt=attempt,
            work=name == self._work,
            first=first,
        )

    def _acknowledge(self, now: float) -> None:
        outcome = self._decide(self._step(None, self.earlier_attempts + 1)) or Outcome()
        if outcome.kind is Kind.NEVER_ACK:
            self.never_acknowledged = True
            return
        self.acknowledged_at = now
        self.revision += 1
        if outcome.kind is Kind.REFUSE_ADMISSION:
            message = outcome.message or f"Pod was rejected: Node didn't have enough resource: {outcome.reason}"
            self.refusal = (outcome.reason, message)
            self.ended = True
            self._record(self, Event.REFUSED, None, outcome.reason, now)

    def _progress(self, now: float) -> None:
        if self.volumes_missing:
            return
        for run in self._inits:
            if not run.succeeded:
                self._drive(run, now)
                if not run.succeeded:
                    if run.phase is Phase.TERMINATED:  # and not to be restarted
                        self._finish()
                    return
        for run in self._mains:
            self._drive(run, now)
        if all(run.phase is Phase.TERMINATED for run in self._mains):
            self._finish()

    def _drive(self, run: ContainerRun, now: float) -> None:
        for _ in range(3):  # start, end and a first restart without delay may all be due
            if run.phase is Phase.WAITING and run.retry_at <= now:
                self._start(run, now)
            if run.observe_at <= now and (run.phase is Phase.WAITING or run.ends_at > now):
                self._look(run)
            if run.phase is Phase.RUNNING and run.ends_at <= now:
                self._end_by_outcome(run, now)
            if run.phase is not Phase.TERMINATED or not self._restarts(run):
                return
            self._back_off(run, now)

    def _start(self, run: ContainerRun, now: float) -> None:
        restarts = run.restarts + (run.termination is not None)
        attempt = self.earlier_attempts + restarts + 1
        outcome = self._decide(self._step(run, attempt)) or self._default(run, restarts)
        if outcome.kind is Kind.PULL_FAILURE:
            assert self.acknowledged_at is not None
            if outcome.seconds is None or now < self.acknowledged_at + outcome.seconds:
                self._fail_pull(run, outcome, now)
                return
            outcome = self._default(run, restarts)
        if outcome.kind is Kind.CONFIG_ERROR:
            self._wait(run, "CreateContainerConfigError", outcome.message or "configmap not found")
            run.retry_at = now + self.timing.mount_retry_seconds / self.timing.speed
            return
        run.outcome, run.attempt, run.restarts = outcome, attempt, restarts
        run.last_termination, run.termination = run.termination, None
        self._run(run, now)
        self._record(self, Event.START, run, "", now)

    def _run(self, run: ContainerRun, now: float) -> None:
        seconds = run.outcome.seconds
        if seconds is None or run.outcome.kind is Kind.PULL_FAILURE:
            of = self.timing.step_of
            seconds = self.timing.step_seconds if of is None else of(self._step(run, run.attempt))
        if run.outcome.kind is Kind.HANG:
            seconds = NEVER
        run.phase, run.started_at, run.ends_at = Phase.RUNNING, now, now + seconds
        run.observe_at = now + self.timing.look_seconds / self.timing.speed

    def _default(self, run: ContainerRun, restarts: int) -> Outcome:
        """Without a rule: a reboot interrupt reboots once a pod, a workload runs until it is stopped, all else succeeds."""
        if run.spec.name == "interrupt":
            return Outcome(kind=Kind.REBOOT) if restarts == 0 and asks_for_reboot(run.spec.args) else Outcome()
        forever = not run.init and not self.labels.job and self.pod.spec.restart_policy == "Always"
        return Outcome(kind=Kind.HANG) if forever else Outcome()

    def _fail_pull(self, run: ContainerRun, outcome: Outcome, now: float) -> None:
        run.pull_failures += 1
        message = outcome.message or f'failed to pull and unpack image "{run.spec.image}": not found'
        self._wait(run, "ErrImagePull", message)
        run.retry_at = now + self.timing.back_off(run.pull_failures)
        run.observe_at = now + self.timing.look_seconds / self.timing.speed

    def _look(self, run: ContainerRun) -> None:
        run.observe_at = NEVER
        if run.phase is Phase.RUNNING:
            self._show(run)
        else:
            self._wait(run, "ImagePullBackOff", f'Back-off pulling image "{run.spec.image}"')

    def _end_by_outcome(self, run: ContainerRun, now: float) -> None:
        outcome, at = run.outcome, run.ends_at
        ended = Termination(exit_code=0, reason="Completed", started_at=run.started_at, finished_at=at)
        match outcome.kind:
            case Kind.FAIL:
                ended = replace(
                    ended, exit_code=outcome.exit_code, reason=outcome.reason or "Error", message=outcome.message
                )
            case Kind.OOM:
                ended = replace(ended, exit_code=KILLED, reason="OOMKilled")
            case Kind.STATUS_UNKNOWN:
                message = "The container could not be located when the pod was terminated"
                ended = Termination(exit_code=KILLED, reason="ContainerStatusUnknown", message=message)
            case Kind.EVICT:
                run.ends_at = NEVER
                self.disrupted = True
                self.stop(now, Cause.EVICTED, grace=0.0)
                return
            case Kind.REBOOT:
                run.ends_at = NEVER
                self.reboot_wanted = True
                return
            case _:
                pass
        self._end(run, ended, "succeeded" if ended.exit_code == 0 else f"failed:{ended.exit_code}", at)

    def _restarts(self, run: ContainerRun) -> bool:
        policy = self.pod.spec.restart_policy
        return policy != "Never" and (run.failed or (policy == "Always" and not run.init))

    def _back_off(self, run: ContainerRun, now: float) -> None:
        timing = self.timing
        if now - run.started_at >= 2 * timing.back_off_limit_seconds / timing.speed:
            run.back_off = 0.0  # it ran long enough to begin anew
        delay = run.back_off
        first = timing.back_off(1)
        run.back_off = min(max(first, 2 * delay), timing.back_off_limit_seconds / timing.speed)
        run.phase, run.retry_at, run.observe_at = Phase.WAITING, now + delay, NEVER
        if delay:
            meta = self.pod.metadata
            text = f"back-off {delay:g}s restarting failed container={run.spec.name} pod={meta.name}_{meta.namespace}({meta.uid})"
            run.last_termination = run.termination
            self._wait(run, "CrashLoopBackOff", text)

    def _wind_down(self, now: float) -> None:
        assert self.cause is not None
        running = [run for run in self.containers if run.phase is Phase.RUNNING]
        for run in running:
            stubborn = run.outcome.stubborn
            kill_at = self._kill_by if stubborn else self._kill_at
            if run.ends_at <= min(now, kill_at):
                self._end_by_outcome(run, now)
            elif kill_at <= now:
                code = KILLED if kill_at >= self._kill_by else TERMINATED_BY_SIGNAL
                killed = Termination(exit_code=code, reason="Error", started_at=run.started_at, finished_at=kill_at)
                self._end(run, killed, f"killed:{self.cause}", kill_at)
            elif run.observe_at <= now:
                self._look(run)
        if not any(run.phase is Phase.RUNNING for run in running):
            self._finish()

    def _wait(self, run: ContainerRun, reason: str, message: str) -> None:
        before = run.shown
        run.show_waiting(reason, message)
        self.revision += run.shown != before

    def _show(self, run: ContainerRun) -> None:
        run.show(self.offset)
        self.sandbox_seen = True
        self.revision += 1

    def _end(self, run: ContainerRun, termination: Termination, outcome: str, at: float) -> None:
        run.phase, run.termination, run.observe_at = Phase.TERMINATED, termination, NEVER
        self._show(run)
        self._record(self, Event.END, run, outcome, at)

    def _finish(self) -> None:
        self.ended = True
        self.revision += 1

    def _next_time(self) -> float:
        if self.ended or self.acknowledged_at is None:
            return NEVER
        times = []
        for run in self._current():
            times.append(run.observe_at)
            if run.phase is Phase.RUNNING:
                times.append(run.ends_at)
                if self.cause is not None:
                    times.append(self._kill_by if run.outcome.stubborn else self._kill_at)
            elif run.phase is Phase.WAITING and not self.volumes_missing:
                times.append(run.retry_at)
        if self.pod.spec.active_deadline_seconds is not None and self.cause is None:
            times.append(self.acknowledged_at + self.pod.spec.active_deadline_seconds)
        return min(times, default=NEVER)

    def _current(self) -> list[ContainerRun]:
        for run in self._inits:
            if not run.succeeded:
                return [run]
        return self._mains
