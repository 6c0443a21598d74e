"""Prometheus metrics of the daemon: what the cluster looks like, what we decided, what it cost.

Names follow https://prometheus.io/docs/practices/naming/; no metric has a user or job in it, so
that their number stays bounded and nothing private is scraped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from slurm_ext import __version__
from slurm_ext.model.decision import Verdict
from slurm_ext.model.job import JobKey
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.restart import Restart, RestartStage

from .metrics_calls import Calls
from .metrics_room import Room
from .metrics_runs import Runs

if TYPE_CHECKING:
    from .runner import CycleResult

SIZES = ((0, "0"), (1, "1"), (4, "2-4"), (8, "5-8"), (16, "9-16"), (64, "17-64"))
WAITS_S = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400, 3 * 86400, 7 * 86400)
PHASES_S = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30)


def size_of(gpus: int) -> str:
    """The size class of a job by its GPUs."""
    for most, name in SIZES:
        if gpus <= most:
            return name
    return "65+"


class Metrics:
    """Counters and gauges in a registry of their own.

    :raises ImportError: without prometheus_client (extra ``metrics``).
    """

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

        self.registry = registry = CollectorRegistry()

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"slurm_ext_{name}", text, labels, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"slurm_ext_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, steps: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(
                f"slurm_ext_{name}", text, labels, buckets=steps, registry=registry
            )  # fmt: skip

        self._gpus = gauge("gpus", "GPUs of the cluster by state", "state")
        self._jobs = gauge("jobs", "Jobs by our verdict", "verdict")
        self._waiting = gauge("waiting_jobs", "Planned jobs that wait, by GPUs", "size")
        self._waiting_gpus = gauge("waiting_gpus", "GPUs that waiting jobs ask for", "size")
        self._oldest = gauge("oldest_wait_seconds", "Wait of the job waiting longest", "size")
        self._marks = gauge("marks", "Jobs on which a mark of ours stands, by kind", "kind")
        self._fences = gauge("fences", "Promised starts in force")
        self._mode = gauge("partition_mode", "1 for the mode in force", "partition", "mode")
        self._estimated = gauge("estimated_jobs_ratio", "Share of planned jobs with an estimate")
        self._last = gauge("last_cycle_timestamp_seconds", "When the last good cycle looked")
        self._problems = gauge("problems", "Records of the last look that could not be read")
        self._cycles = counter("cycles", "Cycles by outcome", "outcome")
        self._phase = histogram("cycle_phase_seconds", "Parts of a cycle", PHASES_S, "phase")
        self._actions = counter(
            "actions", "Writes to jobs by lever and outcome", "lever", "outcome"
        )
        self._put_off = counter("actions_put_off", "Writes put off for lack of tokens")
        self._starts = counter("starts", "Starts seen: on the planned nodes, or why not", "outcome")
        self._wait = histogram("wait_seconds", "Submit to start", WAITS_S, "size")
        self._late = histogram("start_delay_seconds", "Let go to seen running", WAITS_S)
        self._jct = histogram("job_completion_seconds", "Submit to end", WAITS_S, "size")
        self._restarts = counter(
            "restarts", "Restarts that are over, by purpose and how they ended", "kind", "outcome"
        )
        self._requeues = counter("restart_requeues", "Jobs requeued by restarts", "kind")
        self._lost = counter("restart_lost_gpu_seconds", "Work that requeues undid", "kind")
        self._back = histogram("restart_seconds", "Decision to seen running again", WAITS_S, "kind")
        self._restarting = gauge("restarting_jobs", "Restarts under way", "stage")
        self._kept = counter("promises", "Promised jobs seen running, by outcome", "outcome")
        self._late_s = counter("promises_late_seconds", "Seconds by which promises were missed")
        self._coverage = gauge(
            "prediction_coverage_ratio", "Share of last week's run times within P10 to P90 (0.8)"
        )
        self._seen_requeues = counter("requeues", "Running jobs seen queued again, whoever did it")
        self._requeued_gpu_s = counter(
            "requeued_gpu_seconds", "GPU time of runs that were requeued; lost but for checkpoints"
        )
        self._info = Info("slurm_ext_build", "Versions and policy", registry=registry)
        self._free = gauge("free_gpus", "Free GPUs of usable nodes, by what they are good for",
                           "use")  # fmt: skip
        self._stranded = gauge("stranded_gpus", "Free GPUs that nobody can use, by cause", "cause")
        registry.register(Calls())
        self._runs, self._room = Runs(), Room()
        self._promised = (0, 0, 0)
        self._modes: set[tuple[str, str]] = set()

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        from prometheus_client import generate_latest

        room = self._room.of_last_cycle()
        if room is not None:
            self._free.labels("whole_nodes").set(room.whole_nodes)
            self._free.labels("any").set(room.free)
            self._stranded.labels("cpus").set(room.stranded_cpus)
            self._stranded.labels("memory").set(room.stranded - room.stranded_cpus)
            self._stranded.labels("fragments").set(room.fragments)
        return generate_latest(self.registry)

    def failed(self) -> None:
        """A cycle gave no decision."""
        self._cycles.labels("failed").inc()

    def cycle(self, result: CycleResult) -> None:
        """Take in one good cycle."""
        self._cycles.labels("ok").inc()
        self._last.set(result.observation.now_s)
        self._problems.set(len(result.observation.problems))
        for phase, seconds in result.durations_s.items():
            self._phase.labels(phase).observe(seconds)
        stats = result.plan.stats
        for state in ("total", "usable", "used"):
            self._gpus.labels(state).set(stats.get(f"gpus_{state}", 0))
        for verdict in Verdict:
            self._jobs.labels(str(verdict)).set(stats.get(f"jobs_{verdict.value}", 0))
        self._fences.set(len(result.plan.fences))
        self._queue(result)
        self._standing(result.context.ledger)
        self._partition_modes(result)
        self._count_actions(result)
        self._count_starts(result)
        self._count_restarts(result.restarts)
        self._count_promises(result)
        self._count_runs(result)
        if result.history.coverage is not None:
            self._coverage.set(result.history.coverage)
        self._info.info({
            "version": __version__, "policy": result.plan.policy,
            "slurm": result.observation.controller.release,
        })  # fmt: skip
        self._room.take(result)

    # -- parts -----------------------------------------------------------------------------

    def _queue(self, result: CycleResult) -> None:
        jobs, gpus, oldest = {}, {}, {}
        for name in [name for _, name in SIZES] + ["65+"]:
            jobs[name] = gpus[name] = oldest[name] = 0
        decisions = result.plan.decisions
        estimated = planned = 0
        for job in result.observation.jobs:
            decision = decisions.get(job.key)
            if decision is None or decision.rank < 0:
                continue
            planned += 1
            estimated += job.key in result.context.estimates
            if decision.verdict is not Verdict.WAIT:
                continue
            size = size_of(job.request.gpus)
            jobs[size] += max(1, job.array_count)
            gpus[size] += job.request.gpus * max(1, job.array_count)
            oldest[size] = max(oldest[size], result.observation.now_s - job.key.submit_s)
        for name in jobs:
            self._waiting.labels(name).set(jobs[name])
            self._waiting_gpus.labels(name).set(gpus[name])
            self._oldest.labels(name).set(oldest[name])
        self._estimated.set(estimated / planned if planned else 0)

    def _standing(self, ledger: Mapping[JobKey, LedgerEntry]) -> None:
        entries = ledger.values()
        self._marks.labels("lease").set(sum(e.lease_until_s is not None for e in entries))
        self._marks.labels("hold").set(sum(e.held for e in entries))
        self._marks.labels("pin").set(sum(bool(e.pinned) for e in entries))
        self._marks.labels("rank").set(sum(e.site_factor != 0 for e in entries))
        self._marks.labels("surrendered").set(sum(bool(e.surrendered) for e in entries))

    def _partition_modes(self, result: CycleResult) -> None:
        now = {(name, str(mode)) for name, mode in result.plan.modes.items()}
        for gone in self._modes - now:
            self._mode.remove(*gone)
        for name, mode in now:
            self._mode.labels(name, mode).set(1)
        self._modes = now

    def _count_actions(self, result: CycleResult) -> None:
        failed = {id(patch) for patch, _ in result.applied.errors}
        for patch in result.applied.patches:
            outcome = "error" if id(patch) in failed else "ok"
            self._actions.labels(str(patch.lever), outcome).inc()
        self._put_off.inc(result.applied.put_off)

    def _count_starts(self, result: CycleResult) -> None:
        if not result.starts:
            return
        gpus = {j.key: sum(s.gpus for s in j.alloc) for j in result.observation.jobs}
        for record in result.starts:
            self._starts.labels("as_planned" if record.same_nodes else record.why).inc()
            waited_s = max(0, record.start_s - record.key.submit_s)
            self._wait.labels(size_of(gpus[record.key])).observe(waited_s)
            if record.planned_s is not None and record.same_nodes:
                self._late.observe(max(0, record.start_s - record.planned_s))

    def _count_promises(self, result: CycleResult) -> None:
        kept = result.step.memory.kept
        now = (kept.on_time, kept.late, kept.late_s)
        # A memory that was lost begins at nothing again.
        news = [max(0, new - old) for new, old in zip(now, self._promised, strict=True)]
        self._kept.labels("on_time").inc(news[0])
        self._kept.labels("late").inc(news[1])
        self._late_s.inc(news[2])
        self._promised = now

    def _count_runs(self, result: CycleResult) -> None:
        seen = self._runs.look(result.observation.jobs, result.observation.now_s)
        for gpus, seconds in seen.ended:
            self._jct.labels(size_of(gpus)).observe(seconds)
        self._seen_requeues.inc(seen.requeues)
        self._requeued_gpu_s.inc(seen.lost_gpu_s)

    def _count_restarts(self, restarts: Sequence[Restart]) -> None:
        for stage in RestartStage:
            if stage is not RestartStage.OVER:
                count = sum(one.stage is stage for one in restarts)
                self._restarting.labels(str(stage)).set(count)
        for one in restarts:
            if one.active:
                continue
            kind = "resize" if one.gainer is None else "preempt"
            self._restarts.labels(kind, one.outcome).inc()
            if one.stopped:
                self._requeues.labels(kind).inc()
                self._lost.labels(kind).inc(one.lost_gpu_s)
            if one.back_s is not None:
                self._back.labels(kind).observe(one.back_s - one.begun_s)


def available() -> Metrics | None:
    """The metrics, or None where prometheus_client is not installed."""
    try:
        return Metrics()
    except ImportError:
        return None
