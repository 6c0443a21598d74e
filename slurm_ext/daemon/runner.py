"""One cycle of the daemon: observe, decide, apply, record. No loop, no signals."""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from slurm_ext.engine.cycle import Step, decide
from slurm_ext.engine.settings import Context, Memory
from slurm_ext.errors import JournalError, SlurmExtError
from slurm_ext.model.decision import Plan
from slurm_ext.model.job import JobKey
from slurm_ext.model.observation import Observation
from slurm_ext.model.progress import Progress
from slurm_ext.model.restart import Past, Restart
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.fallback import Fallback, Standing, Switch
from slurm_ext.slurm.port import SlurmPort
from slurm_ext.topology.site import SiteTopology, mismatches

from . import restarts
from .annotations import AnnotationReader, Annotations
from .apply import Applied, Tokens, apply
from .attained import Attained
from .config import Config
from .context import context, wants_factors
from .curves import Curves
from .estimates import BUDGET_ONCE_S, BUDGET_S, Estimator, HistoryState
from .journal import Journal
from .outcome import starts
from .progress_files import ProgressFiles
from .records import CycleRecord, StartRecord
from .topology import read_topology

log = logging.getLogger(__name__)

FACTOR_LOOK_EVERY = 20
"""Cycles between two readings of every SiteFactor: the ledger is usually right about them."""


@contextmanager
def _no_collection() -> Iterator[None]:
    """Put garbage collection off until the cycle is over.

    With 10,000 jobs it comes some 170 times a cycle and takes a third of the time of decide();
    what a cycle leaves behind is freed by reference counts anyway.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What one cycle saw, knew, decided and did; ``starts`` it noticed.

    ``restarts`` as they are after it, with those that ended in it. ``ways``: how the ways to
    Slurm stood then, ``switch`` the last change among them.
    """

    cycle: int
    observation: Observation
    context: Context
    step: Step
    applied: Applied
    durations_s: Mapping[str, float]
    starts: tuple[StartRecord, ...] = ()
    history: HistoryState = field(default_factory=HistoryState)
    restarts: tuple[Restart, ...] = ()
    ways: tuple[Standing, ...] = ()
    switch: Switch | None = None

    @property
    def plan(self) -> Plan:
        return self.step.plan

    @property
    def wake_at_s(self) -> EpochS | None:
        """When to look again at the latest, where the ordinary interval is too long."""
        moments = (self.plan.wake_at_s, restarts.wake_at_s(self.restarts, self.plan.now_s))
        return min((m for m in moments if m is not None), default=None)


@dataclass(slots=True)
class Runner:
    """Runs cycles one after the other; what it remembers between them may be lost harmlessly.

    ``dry_run``: decide and record nothing, send nothing. ``can_note``: we may write AdminComment.
    """

    config: Config
    port: SlurmPort
    journal: Journal | None
    can_note: bool = False
    dry_run: bool = False
    memory: Memory = field(default_factory=Memory)
    last: Plan | None = None
    cycle: int = 0
    _tokens: Tokens = field(init=False)
    _estimator: Estimator = field(init=False)
    _attained: Attained = field(default_factory=Attained)
    _annotations: AnnotationReader = field(default_factory=AnnotationReader)
    _progress: ProgressFiles = field(default_factory=ProgressFiles)
    _curves: Curves = field(default_factory=Curves)
    _workdirs: dict[int, str] = field(default_factory=dict)
    _topology: SiteTopology = field(init=False)
    _started: set[JobKey] = field(default_factory=set)
    _said: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._topology = read_topology(self.config.topology)
        self._tokens = Tokens(self.config.levers.write_tokens_per_s, self.config.levers.write_burst)
        self._estimator = Estimator(BUDGET_ONCE_S if self.dry_run else BUDGET_S)
        if self.journal is not None:
            self.cycle = self.journal.last_cycle()
        if self.dry_run:
            self._annotations.max_new = sys.maxsize  # no later cycle will read the rest

    def reconfigure(self, config: Config) -> None:
        """Take a new configuration between two cycles.

        :raises ConfigError: it names files that cannot be used; the old one stays.
        """
        self._topology = read_topology(config.topology)
        self.config = config
        self._tokens = Tokens(config.levers.write_tokens_per_s, config.levers.write_burst)

    @_no_collection()
    def run(self) -> CycleResult:
        """One cycle.

        :raises SlurmUnavailableError: no observation, so no decision.
        :raises JournalError: nothing was sent, since nothing could be noted first.
        """
        self.cycle += 1
        clock = _Stopwatch()
        first = self.last is None
        regular = not self.dry_run and (first or self.cycle % FACTOR_LOOK_EVERY == 0)
        obs = self.port.observe(site_factors=regular or wants_factors(self.config))
        ways = (self.port.standings(), self.port.switch) if isinstance(self.port, Fallback) else ()
        clock.lap("observe")
        if first:
            for finding in mismatches(self._topology, obs.nodes):
                log.warning("topology: %s", finding)
        ledger = self.journal.entries() if self.journal is not None else {}
        annotations = self._annotations.read(obs.jobs)
        paused = self.journal.paused(obs.now_s) is not None if self.journal is not None else False
        cluster = obs.controller.value("ClusterName")
        ctx = context(
            self.config, ledger=ledger, memory=self.memory, paused=paused, can_note=self.can_note,
            estimates=self._estimator.of(obs.jobs, self.config, cluster, obs.now_s),
            attained_gpu_s=self._attained.of(obs.jobs, obs.now_s, self._estimator.model),
            annotations=annotations,
            topology=self._topology,
        )  # fmt: skip
        clock.lap("estimate")
        going: tuple[Restart, ...] = ()
        past = Past()
        if self.journal is not None:
            going, past = restarts.known(self.journal, ctx, obs.now_s)
        ctx = replace(ctx, progress=self._told(obs, annotations, going))
        ctx = replace(ctx, curves=self._curves.of(
            obs.jobs, annotations.good, ctx.progress, self.journal, obs.now_s,
            keep=not self.dry_run,
        ))  # fmt: skip
        clock.lap("progress")
        moved = restarts.moved(going, obs, ctx)
        ended = tuple(one for one in moved if not one.active)
        ctx = replace(
            ctx, restarts=tuple(one for one in moved if one.active),
            past=Past(past.requeues, (*past.over, *ended)),
        )  # fmt: skip
        records = starts(obs, self.last, ledger, self._started)
        with _without_gc():
            step = decide(obs, ctx)
        clock.lap("decide")
        applied = Applied((), (), 0)
        if self.journal is not None and not self.dry_run:
            applied = self._apply(step, ledger)
            clock.lap("apply")
            moved = self._restart(going, moved, obs, step.plan, ctx)
            clock.lap("restart")
            self.journal.record_starts(records)
            self.journal.record_changes(step.plan)
        self._remember(obs, step)
        clock.lap("record")
        result = CycleResult(
            self.cycle, obs, ctx, step, applied, clock.laps, tuple(records),
            self._estimator.state, moved, *ways,
        )  # fmt: skip
        self._record(result)
        return result

    def _told(
        self, obs: Observation, annotations: Annotations, going: Sequence[Restart]
    ) -> Mapping[JobKey, Progress]:
        """What running annotated jobs tell of their work."""
        settings = self.config.progress
        jobs = [j for j in obs.jobs if j.state.running and j.key in annotations.good]
        if not jobs or not (settings.workdir or settings.spool_dir):
            return {}
        if settings.workdir:
            here = {j.job_id for j in jobs}
            self._workdirs = {i: d for i, d in self._workdirs.items() if i in here}
            if new := sorted(here - self._workdirs.keys())[: settings.max_files]:
                self._workdirs |= dict.fromkeys(new, "") | dict(self.port.workdirs(new))
        return self._progress.read(jobs, self._workdirs, settings, [one.job_id for one in going])

    def _restart(
        self, before: Sequence[Restart], after: Sequence[Restart], obs: Observation, plan: Plan,
        ctx: Context,
    ) -> tuple[Restart, ...]:  # fmt: skip
        assert self.journal is not None
        if self._stale(obs.now_s):
            return tuple(before)
        return restarts.carry_out(
            before, after, obs, plan, ctx, self.port, self.journal, cycle=self.cycle
        )

    def _stale(self, at_s: EpochS) -> bool:
        """Whether we were stopped or slow, so that what we saw is no basis for acting any more."""
        return time.time() - at_s > self.config.cycle.stale_s

    def _apply(self, step: Step, ledger: Mapping) -> Applied:  # type: ignore[type-arg]
        assert self.journal is not None
        if self._stale(step.plan.now_s):
            log.warning("observation is %.0f s old: nothing sent", time.time() - step.plan.now_s)
            return Applied((), (), len(step.plan.patches))
        applied = apply(
            step, self.port, self.journal, self._tokens, ledger,
            cycle=self.cycle, monotonic_s=time.monotonic(),
        )  # fmt: skip
        said = {f"job {p.address}: {p.lever} refused: {o.detail}" for p, o in applied.errors}
        said |= set(applied.refused)
        for line in sorted(said - self._said):  # what goes on being refused is said once
            log.warning("%s", line)
        self._said = said
        return applied

    def _remember(self, obs: Observation, step: Step) -> None:
        here = {j.key for j in obs.jobs}
        running = {j.key for j in obs.jobs if not j.state.pending}
        self._started = (self._started | running) & here
        self.memory = step.memory
        self.last = step.plan

    def _record(self, result: CycleResult) -> None:
        if self.journal is None or self.dry_run:
            return
        counts = {
            **result.plan.stats,
            "sent": len(result.applied.patches),
            "errors": len(result.applied.errors),
            "put_off": result.applied.put_off,
            "started": len(result.starts),
        }
        self.journal.record_cycle(
            CycleRecord(
                cycle=result.cycle,
                at_s=result.plan.now_s,
                policy=result.plan.policy,
                config_digest=self.config.digest,
                durations_s=result.durations_s,
                counts=counts,
            )
        )

    def note_failure(self, error: SlurmExtError, at_s: int) -> None:
        """Record a failed cycle where that is still possible."""
        if self.journal is None or self.dry_run:
            return
        try:
            self.journal.record_cycle(CycleRecord(self.cycle, at_s, error=str(error)[:500]))
        except JournalError as failed:
            log.error("%s", failed)


@contextmanager
def _without_gc() -> Iterator[None]:
    """No search for cycles meanwhile: a fifth of the time in a long queue, and there are none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Stopwatch:
    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now
