"""GPU time used: decayed per user and account, and attained service of a job across its requeues.

Decay as in Slurm's fair share: usage of an attempt halves every ``half_life_s`` from its end on
(priority/multifactor, PriorityDecayHalfLife); an attempt that still runs does not decay yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from slurm_ext.accounting.features import key
from slurm_ext.accounting.record import Attempt, Outcome
from slurm_ext.model.units import EpochS

HALF_LIFE_S = 7 * 86400


@dataclass(slots=True)
class Usage:
    """GPU-seconds: decayed, and as they were; ``attempts`` that held GPUs."""

    decayed_gpu_s: float = 0.0
    gpu_s: int = 0
    attempts: int = 0


class Service(NamedTuple):
    """What a job has had so far, over all its attempts (least-attained-service needs it).

    ``lost_s``: run time of attempts that were cut short and began again; ``restarts`` their number.
    """

    run_s: int
    gpu_s: int
    restarts: int
    lost_s: int


def gpu_seconds(attempt: Attempt) -> int:
    """GPU-seconds held by one attempt."""
    return attempt.gpus_alloc * attempt.run_s


def usage(
    attempts: Iterable[Attempt], now_s: EpochS, *, by: str = "user", half_life_s: int = HALF_LIFE_S
) -> dict[str, Usage]:
    """Usage by ``user`` or ``account`` (or any other text column of an attempt)."""
    found: dict[str, Usage] = {}
    for attempt in attempts:
        amount = gpu_seconds(attempt)
        if amount <= 0:
            continue
        one = found.setdefault(getattr(attempt, by), Usage())
        age_s = max(0, now_s - attempt.end_s) if attempt.end_s is not None else 0
        one.decayed_gpu_s += amount * 0.5 ** (age_s / half_life_s)
        one.gpu_s += amount
        one.attempts += 1
    return found


def attained(attempts: Iterable[Attempt]) -> dict[tuple[str, int], Service]:
    """Service by (cluster, job id).

    An id used again by another user, or after an attempt that was final, is another job: only the
    attempts of the newest job count.
    """
    found: dict[tuple[str, int], Service] = {}
    last: dict[tuple[str, int], Attempt] = {}
    for attempt in sorted(attempts, key=lambda a: (a.submit_s, a.end_s is None)):
        ident = (attempt.cluster, attempt.job_id)
        before, previous = found.get(ident), last.get(ident)
        if previous is not None and not _goes_on(previous, attempt):
            before = None
        last[ident] = attempt
        run_s, gpu_s = attempt.run_s, gpu_seconds(attempt)
        if before is None or previous is None:
            found[ident] = Service(run_s, gpu_s, 0, 0)
        else:
            found[ident] = Service(
                before.run_s + run_s, before.gpu_s + gpu_s, before.restarts + 1,
                before.lost_s + previous.run_s,
            )  # fmt: skip
    return found


@dataclass(frozen=True, slots=True)
class Restarts:
    """What starting again has cost: ``lost_gpu_s`` of attempts cut short that were taken up again.

    ``gap_s``: median from the end of an attempt to the start of the next, None without any.
    """

    jobs: int
    restarts: int
    lost_gpu_s: int
    gap_s: float | None


def restarts(attempts: Iterable[Attempt]) -> Restarts:
    """Over all jobs that were requeued or preempted and ran again."""
    previous: dict[tuple[str, int], Attempt] = {}
    gaps: list[int] = []
    jobs, lost = set(), 0
    for attempt in sorted(attempts, key=lambda a: a.submit_s):
        ident = (attempt.cluster, attempt.job_id)
        before = previous.get(ident)
        if before is not None and attempt.start_s is not None and _goes_on(before, attempt):
            jobs.add(ident)
            lost += gpu_seconds(before)
            gaps.append(max(0, attempt.start_s - (before.end_s or attempt.start_s)))
        previous[ident] = attempt
    return Restarts(len(jobs), len(gaps), lost, median(gaps) if gaps else None)


def cut_short(attempts: Iterable[Attempt]) -> list[tuple[float, ...]]:
    """Attempts of jobs that were cut short last time and may wait or run again.

    Rows (job id, submit, run s, GPU-s, user as a number), for the artefact.
    """
    chains: dict[tuple[str, int], list[Attempt]] = {}
    for attempt in sorted(attempts, key=lambda a: a.submit_s):
        chain = chains.setdefault((attempt.cluster, attempt.job_id), [])
        if chain and not _goes_on(chain[-1], attempt):
            chain.clear()
        chain.append(attempt)
    return [
        (float(a.job_id), float(a.submit_s), float(a.run_s), float(gpu_seconds(a)), key(a.user))
        for chain in chains.values()
        if _interrupted(chain[-1])
        for a in chain
    ]


def _goes_on(earlier: Attempt, later: Attempt) -> bool:
    """Whether the later record is the same job again (requeued), not its id after a wrap."""
    return earlier.user == later.user and earlier.name == later.name and _interrupted(earlier)


def _interrupted(attempt: Attempt) -> bool:
    return attempt.outcome != Outcome.ENDED and attempt.state in (
        "REQUEUED", "PREEMPTED", "NODE_FAIL", "REQUEUE_HOLD", "SPECIAL_EXIT"
    )  # fmt: skip
