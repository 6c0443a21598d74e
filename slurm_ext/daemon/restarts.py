"""Carries out restarts: a look moves each one on, what is due is noted, then sent.

The journal has every stage before anything of it is sent. After a crash the next cycle finds the
restarts there and sends again what has no answer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from slurm_ext.engine import guard
from slurm_ext.engine.begin import HOUR_S, begun, enforced
from slurm_ext.engine.restart import NOTHING, Sight, advance, told
from slurm_ext.engine.restarting import purpose_of, step_of
from slurm_ext.engine.settings import Context
from slurm_ext.model.annotation import Annotation
from slurm_ext.model.decision import JobPatch, Lever, Plan
from slurm_ext.model.job import JobKey
from slurm_ext.model.observation import Observation
from slurm_ext.model.restart import JobSignal, Past, Restart, RestartStage
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.port import Outcome, SlurmPort

from .journal import Journal

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 2
"""With a restart under way the next look comes so soon, to leave no GPU idle for long."""

_SENT = {
    RestartStage.SIGNAL: Lever.SIGNAL,
    RestartStage.REQUEUE: Lever.REQUEUE,
    RestartStage.REVIVE: Lever.REQUEUE,
}


def known(journal: Journal, ctx: Context, now_s: EpochS) -> tuple[tuple[Restart, ...], Past]:
    """Restarts under way, and what limits new ones."""
    window_s = max(HOUR_S, ctx.restart.retry_after_s)
    rows = journal.restarts(now_s - window_s)
    over = tuple(one for one in rows if not one.active)
    return (
        tuple(one for one in rows if one.active),
        Past(journal.requeues_since(now_s - HOUR_S), over),
    )


def moved(restarts: Sequence[Restart], obs: Observation, ctx: Context) -> tuple[Restart, ...]:
    """The restarts after this look; those that end now are among them."""
    if not restarts:
        return ()
    jobs = {job.job_id: job for job in obs.jobs}
    waiting = {job.job_id for job in obs.jobs if job.state.pending}
    modes = guard.effective_modes(obs, ctx, ctx.memory)
    found = []
    for one in restarts:
        job = jobs.get(one.job_id)
        sight = Sight(
            now_s=obs.now_s,
            job=job,
            annotation=ctx.annotations.get(job.key) if job is not None else None,
            progress=ctx.progress.get(job.key, NOTHING) if job is not None else NOTHING,
            gainer_waits=one.gainer is not None and one.gainer.job_id in waiting,
            allowed=ctx.restart.enabled and job is not None and enforced(job, modes),
        )
        found.append(advance(one, sight, ctx.restart))
    return tuple(found)


def carry_out(
    before: Sequence[Restart],
    after: Sequence[Restart],
    obs: Observation,
    plan: Plan,
    ctx: Context,
    port: SlurmPort,
    journal: Journal,
    *,
    cycle: int,
) -> tuple[Restart, ...]:
    """Note what has changed, begin what is planned, send what is due; the restarts after that.

    :raises JournalError: nothing of it has been sent.
    :raises SlurmUnavailableError: the stages stand as they were; the next cycle sends again.
    """
    fresh = begun(obs, plan, ctx)
    changed = [new for old, new in zip(before, after, strict=True) if new is not old]
    now_s = obs.now_s
    _say(changed)
    for one in fresh:
        log.info("job %s: restart %s begins", one.address, purpose_of(one))
    if changed or fresh:
        journal.save_restarts([*changed, *fresh])
    restarts = [*after, *fresh]
    due = [one for one in restarts if one.active and one.stage in _SENT]
    if not due:
        return tuple(restarts)
    patches = [_patch(one) for one in due]
    ids = journal.commit_intents((), patches, cycle, now_s)
    outcomes = _send(due, ctx.annotations, port)
    journal.record_outcomes(ids, outcomes, now_s)
    answered = {
        id(one): told(one, now_s, ok=said.ok, benign=said.benign, detail=said.detail)
        for one, said in zip(due, outcomes, strict=True)
    }
    restarts = [answered.get(id(one), one) for one in restarts]
    journal.save_restarts(list(answered.values()))
    _say(list(answered.values()))
    return tuple(restarts)


def wake_at_s(restarts: Sequence[Restart], now_s: EpochS) -> EpochS | None:
    """When to look again because of restarts; None where nothing is urgent."""
    quick = any(one.active and not one.ready for one in restarts)
    return now_s + LOOK_AGAIN_S if quick else None


def _patch(one: Restart) -> JobPatch:
    why = "resize" if one.gainer is None else "preempt"
    return JobPatch(one.key, one.address, _SENT[one.stage], why=why)


def _send(
    due: Sequence[Restart], annotations: Mapping[JobKey, Annotation], port: SlurmPort
) -> tuple[Outcome, ...]:
    """Each kind in one call; the outcomes in the order of ``due``."""
    said: dict[int, Outcome] = {}
    signals = [one for one in due if one.stage is RestartStage.SIGNAL]
    if signals:
        outcomes = port.signal([_signal(one, annotations) for one in signals])
        said |= {one.job_id: outcome for one, outcome in zip(signals, outcomes, strict=True)}
    for stage in (RestartStage.REQUEUE, RestartStage.REVIVE):
        some = [one for one in due if one.stage is stage]
        if some:
            failed = stage is RestartStage.REVIVE
            outcomes = port.requeue([(one.key, one.address) for one in some], failed=failed)
            said |= {one.job_id: outcome for one, outcome in zip(some, outcomes, strict=True)}
    return tuple(said[one.job_id] for one in due)


def _signal(one: Restart, annotations: Mapping[JobKey, Annotation]) -> JobSignal:
    checkpoint = annotations[one.key].checkpoint
    return JobSignal(one.key, one.address, checkpoint.signal, checkpoint.to)


def _say(restarts: Sequence[Restart]) -> None:
    for one in restarts:
        state = step_of(one) + (f" ({one.detail})" if one.detail else "")
        log.info("job %s: restart %s: %s", one.address, purpose_of(one), state)
