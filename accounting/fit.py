"""``history fit``: from the store to an artefact, with a check of how good it would have been."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from slurm_ext.accounting.artefact import CUT_SHORT, ArtefactError, Head, save
from slurm_ext.accounting.features import Features, of_attempt
from slurm_ext.accounting.predict import Samples, Settings
from slurm_ext.accounting.record import FROM_OUTSIDE, Attempt, ending
from slurm_ext.accounting.store import Store
from slurm_ext.accounting.usage import cut_short
from slurm_ext.model.units import EpochS

WEEK_S = 7 * 86400
CHECKED = 5000
"""At most so many of the last week's jobs are predicted again."""
LEAST_CHECKED = 20
HISTORY_S = 365 * 86400
MAX_WAIT_S, MOST_CUT_SHORT = 30 * 86400, 20_000
"""Of attempts cut short, what the daemon is told of: their jobs may wait for the next run."""


@dataclass(slots=True)
class _Check:
    """Prequential figures of the last week: predicted at submit, compared at the end."""

    due: list[tuple[EpochS, int, Attempt, Features]] = field(default_factory=list)
    within: int = 0
    ea: float = 0.0
    judged: int = 0

    def predict_before(self, samples: Samples, until_s: EpochS) -> None:
        """Judge all that was submitted up to this moment by what is known now."""
        while self.due and self.due[0][0] <= until_s:
            _, _, attempt, job = heapq.heappop(self.due)
            found = samples.estimate(job)
            if found is not None:
                run_s = max(1.0, attempt.run_s)
                self.within += found.p10_s <= run_s <= found.p90_s
                self.ea += min(found.point_s, run_s) / max(found.point_s, run_s)
                self.judged += 1


def fit(store: Store, path: Path, now_s: EpochS, settings: Settings | None = None) -> Head:
    """Learn from the last year of the store and write the artefact.

    :raises ArtefactError: nothing to learn from, or the file cannot be written; the old one stays.
    :raises HistoryError: the store cannot be read.
    """
    samples = Samples(settings)
    rows = list(store.attempts("end_s > ? AND outcome != 'never_ran'", (now_s - HISTORY_S,)))
    if not rows:
        raise ArtefactError("the history holds no attempt that ran; run `slurm-ext history sync`")
    check = _check_of(rows, now_s)
    last_end_s, clusters = 0, set()
    for attempt in rows:
        if attempt.end_s is None:
            continue
        check.predict_before(samples, attempt.end_s)
        job = of_attempt(attempt)
        samples.learn(job, attempt.run_s, ended=ending(attempt))
        last_end_s = max(last_end_s, attempt.end_s)
        clusters.add(attempt.cluster)
    check.predict_before(samples, now_s)
    enough = check.judged >= LEAST_CHECKED
    head = Head(
        cluster=clusters.pop() if len(clusters) == 1 else "",
        fitted_s=now_s,
        last_end_s=last_end_s,
        attempts=len(rows),
        coverage=check.within / check.judged if enough else None,
        ea=check.ea / check.judged if enough else None,
        judged=check.judged,
        settings=samples.settings,
    )
    recent = [a for a in rows if (a.end_s or 0) > now_s - MAX_WAIT_S]
    cut = np.array(cut_short(recent)[-MOST_CUT_SHORT:], dtype=float).reshape(-1, len(CUT_SHORT))
    save(path, samples, head, cut)
    return head


def _check_of(rows: Iterable[Attempt], now_s: EpochS) -> _Check:
    recent = [
        a for a in rows
        if a.end_s is not None and a.submit_s > now_s - WEEK_S and ending(a) > FROM_OUTSIDE
    ]  # fmt: skip
    check = _Check([(a.submit_s, i, a, of_attempt(a)) for i, a in enumerate(recent[-CHECKED:])])
    heapq.heapify(check.due)
    return check
