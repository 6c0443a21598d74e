"""Run times expected of the jobs in the queue, from the artefact that ``history fit`` writes.

The file is looked at in every cycle and read again when it has changed. One that is missing,
damaged, stale or of another cluster is not used: jobs are planned with their limits, and the
reason is kept for ``status``. numpy is all that is needed.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from slurm_ext.accounting.artefact import ArtefactError, Durations, check, read
from slurm_ext.accounting.features import Features, of_job
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.units import EpochS

from .config import Config

log = logging.getLogger(__name__)

BUDGET_S, BUDGET_ONCE_S = 1.0, 60.0
"""For a cycle of the daemon, and for verbs that look only once."""
FIRST_BUCKET_S = 30
GROWTH = 1.15
"""Running jobs are estimated anew when their time run has grown by this factor."""

_Request = tuple[Features, int]
_Seen = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True)
class HistoryState:
    """For ``status``: what is used, or ``problem``, why nothing is.

    ``coverage``: see :class:`~slurm_ext.accounting.artefact.Head`. ``estimated`` of ``jobs`` that
    wait or run; ``waiting`` of them were left for the next cycle.
    """

    problem: str = ""
    fitted_s: EpochS = 0
    attempts: int = 0
    coverage: float | None = None
    jobs: int = 0
    estimated: int = 0
    waiting: int = 0


@dataclass(slots=True)
class Estimator:
    """Holds the loaded artefact and the estimates made from it; both may be lost harmlessly.

    ``budget_s``: time for new estimates in one look; what is left over waits for the next.
    """

    budget_s: float = BUDGET_S
    state: HistoryState = field(default_factory=HistoryState)
    model: Durations | None = None
    _seen: _Seen | None = None
    _known: dict[_Request, Estimate | None] = field(default_factory=dict)
    _read: Durations | None = None
    _broken: ArtefactError | None = None
    _said: str = ""

    def of(
        self, jobs: Iterable[Job], config: Config, cluster: str, now_s: EpochS
    ) -> dict[JobKey, Estimate]:
        """Estimates of pending and running jobs; empty without a sound artefact."""
        self._refresh(config, cluster, now_s)
        if self.model is None:
            self._known = {}
            return {}
        head, open_jobs = self.model.head, [j for j in jobs if j.state.pending or j.state.running]
        found, waiting = self._estimates(self.model, open_jobs, now_s)
        self.state = HistoryState(
            "", head.fitted_s, head.attempts, head.coverage, len(open_jobs), len(found), waiting
        )
        return found

    def _estimates(
        self, model: Durations, jobs: list[Job], now_s: EpochS
    ) -> tuple[dict[JobKey, Estimate], int]:
        before, self._known = self._known, {}
        found: dict[JobKey, Estimate] = {}
        waiting, until = 0, time.monotonic() + self.budget_s
        # Running jobs first: the holes are planned with them.
        for job in sorted(jobs, key=lambda j: j.state.pending):
            elapsed_s = _elapsed_s(job, now_s)
            request = (of_job(job), bucket(elapsed_s))
            known = request in self._known
            if not known and request in before:
                self._known[request], known = before[request], True
            estimate = self._known.get(request)
            if not known or _passed(estimate, elapsed_s):
                if time.monotonic() > until:
                    waiting += 1
                    continue
                estimate = self._known[request] = model.estimate(request[0], float(elapsed_s))
            if estimate is not None:
                found[job.key] = _at_least(estimate, elapsed_s)
        return found, waiting

    def _refresh(self, config: Config, cluster: str, now_s: EpochS) -> None:
        """Load, reload or drop the artefact; a reason is logged once."""
        if not config.history.use:
            self.model, self._read, self._seen = None, None, None
            self.state = HistoryState("history.use is false")
            return
        path = config.artefact_path
        try:
            seen = _signature(path)
            if seen is None or seen != self._seen:
                # Remembered even if it cannot be read: a damaged file is not read every cycle.
                self._seen, self._read, self._known = seen, None, {}
                self._read = read(path)
                log.info("run times learnt from %d attempts", self._read.head.attempts)
            if self._read is None:
                raise self._broken or ArtefactError(f"{path}: cannot be used")
            check(path, self._read.head, now_s, cluster=cluster,
                  max_age_s=config.history.max_age_days * 86400)  # fmt: skip
            self.model, self._said = self._read, ""
        except ArtefactError as error:
            self.model, self._broken = None, error
            self.state = HistoryState(str(error))
            if str(error) != self._said:
                self._said = str(error)
                log.warning("planning with time limits: %s", error)


def bucket(elapsed_s: int) -> int:
    """Jobs in one bucket of time run share an estimate; 0 up to half a minute, then geometric."""
    if elapsed_s < FIRST_BUCKET_S:
        return 0
    return 1 + math.floor(math.log(elapsed_s / FIRST_BUCKET_S, GROWTH))


def _elapsed_s(job: Job, now_s: EpochS) -> int:
    if not job.state.running or job.start_s is None:
        return 0
    return max(0, now_s - job.start_s)


def _passed(estimate: Estimate | None, elapsed_s: int) -> bool:
    """Whether a shared estimate is behind the job: it was made for a little less time run."""
    return estimate is not None and 0 < estimate.p50_s <= elapsed_s


def _at_least(estimate: Estimate, elapsed_s: int) -> Estimate:
    if estimate.p10_s >= elapsed_s:
        return estimate
    p10, p50, p90, point = (max(s, float(elapsed_s)) for s in estimate[:4])
    return estimate._replace(p10_s=p10, p50_s=p50, p90_s=p90, point_s=point)


def _signature(path: Path) -> _Seen | None:
    """Changes when the file is replaced; None if it cannot be looked at."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (str(path), found.st_ino, found.st_mtime_ns, found.st_size)
