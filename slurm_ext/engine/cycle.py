"""decide(): one pure step from what Slurm shows to what is to be done, with every reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from slurm_ext.model.decision import Decision, Plan, Stage, Term, Verdict
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.observation import Observation

from . import guard
from .allot import Allotted, allot
from .begin import judged
from .explain import reason
from .forecast import forecasts
from .frontier import exposed_free, frontier, overtaking, plugs
from .mix import job_mix
from .nodes import fixed_nodes, with_nodes
from .planner import Planner
from .policy import beside
from .pool import Pool
from .preempt import proposals
from .promises import settled
from .reconcile import Reconciler
from .reserve import reservations
from .restarting import (
    by_job,
    coming_back,
    favoured,
    keep_growth,
    leaving,
    tell,
    unready,
    with_adopted,
)
from .settings import Context, Memory
from .steps import Release
from .timeline import releases
from .view import Aside, JobView, look_at


@dataclass(frozen=True, slots=True)
class Step:
    """A plan with what must be committed before it is applied, and what the next cycle needs.

    ``entries``: changed ledger entries. ``gone``: keys of the ledger whose jobs have ended or were
    requeued. ``moved``: the entries of the latter under their new keys, as they were before.
    """

    plan: Plan
    entries: tuple[LedgerEntry, ...]
    gone: tuple[JobKey, ...]
    memory: Memory
    moved: tuple[LedgerEntry, ...] = ()


def decide(obs: Observation, ctx: Context) -> Step:
    """Order, place, backfill, guard, reconcile. Equal arguments give equal results.

    The order of the records does not matter; estimates that cannot be are not used.
    """
    obs = replace(
        obs, jobs=tuple(sorted(obs.jobs, key=attrgetter("key"))),
        reservations=tuple(sorted(obs.reservations, key=attrgetter("name"))),
    )  # fmt: skip
    moved = carried(obs, ctx.ledger)
    ctx = replace(
        ctx, ledger=with_adopted(obs, {**ctx.ledger, **moved}, ctx.restarts),
        estimates={k: e for k, e in ctx.estimates.items() if e.sound},
    )  # fmt: skip
    obs = with_nodes(obs, ctx.ledger, ctx.memory.fixed_nodes)
    occupying = [j for j in obs.jobs if j.state.occupies]
    modes = guard.effective_modes(obs, ctx, ctx.memory)
    views, asides, surrendered = _sort(obs, replace(ctx, partition_modes=modes))
    pool = Pool(
        obs.nodes, occupying, obs.controller, topology=ctx.topology, speeds=ctx.gpu_speeds,
        mix=job_mix([*occupying, *(v.job for v in views)]),
    )  # fmt: skip
    before = pool.free.copy()
    ends = leaving(occupying, ctx.restarts, ctx.annotations, obs.now_s)
    timeline = releases(occupying, obs.now_s, ctx.backfill, ctx.estimates, ends)
    # Whoever could take the room of a job that is being stopped must be in our hands before.
    soon = [*timeline, *(Release(obs.now_s, j.alloc) for j in occupying if j.key in ends)]
    if ctx.restarts:
        keep_growth(obs, ctx, pool, ctx.policy.placement)
    planner = Planner(obs, pool, ctx.policy, ctx.backfill, timeline,
                      ctx.guard.max_starts_per_cycle, ctx.memory.promises)  # fmt: skip
    ordered = _ordered(views, occupying, ctx, obs.now_s)
    for view, _ in ordered:
        if view.let_go:
            planner.keep_place(view)
    allotted = allot(obs, ctx, planner, ordered, occupying, modes)
    ordered = list(allotted.ordered)
    planner.walk([(v, terms) for v, terms in ordered if not v.let_go])
    in_order = [v for v, _ in ordered]
    can_rank = obs.controller.multifactor and ctx.levers.site_factor and ctx.levers.ladder > 0
    until_s = obs.now_s + 2 * ctx.levers.interval_s
    exposed = frontier(
        planner, in_order, exposed_free(planner, before, soon, until_s), ctx.levers,
        plugged=can_rank,
    )  # fmt: skip
    reconciler = Reconciler(
        obs.now_s, ctx.levers, planner.decisions, exposed, can_rank,
        limit=ctx.guard.max_patches_per_cycle, plugs=plugs(planner, in_order),
        overtaking=overtaking(planner, in_order) if ctx.levers.pin else frozenset(),
        unready=unready(ctx.restarts),
    )  # fmt: skip
    reconciler.run(in_order, asides, occupying)
    reconciler.keep_up(ctx.ledger, in_order)
    memory = replace(
        guard.next_memory(obs, ctx, in_order, planner.decisions),
        promises=planner.promises.left(v.key for v in in_order),
        kept=settled(occupying, ctx.memory.promises, ctx.memory.kept),
        fixed_nodes=fixed_nodes(obs, ctx),
    )
    decisions = _all_decisions(planner, asides, occupying)
    _tell_bad_annotations(decisions, ctx)
    tell(decisions, ctx.restarts, obs.now_s)
    _tell_shapes(decisions, allotted)
    reserve, unreserve = reservations(obs, planner.fences, modes, ctx.levers)
    entries = {**moved, **reconciler.entries}
    for entry in surrendered:
        entries[entry.key] = replace(entries.get(entry.key, entry), surrendered=entry.surrendered)
    wake_at_s = obs.now_s + 1 if reconciler.captured else _wake(planner, obs.now_s)
    plan = Plan(
        now_s=obs.now_s,
        policy=ctx.policy.name,
        decisions=decisions,
        order=tuple(v.key for v in in_order),
        fences=tuple(planner.fences),
        forecasts=forecasts(planner, in_order, occupying, ctx.estimates)
        if ctx.backfill.forecast
        else {},
        patches=tuple(reconciler.patches),
        reserve=tuple(reserve),
        unreserve=tuple(unreserve),
        preempt=proposals(obs, ctx, planner, in_order, occupying),
        resizes=allotted.resizes,
        modes=modes,
        wake_at_s=wake_at_s,
        stats={
            **_stats(obs, pool, decisions, reconciler, exposed),
            **planner.promises.stats(),
            **{f"promises_{k}": v for k, v in memory.kept._asdict().items()},
        },
    )
    _tell_refused(decisions, judged(obs, plan, ctx)[1])
    return Step(plan, tuple(entries.values()), _gone(obs, ctx), memory, tuple(moved.values()))


def carried(obs: Observation, ledger: Mapping[JobKey, LedgerEntry]) -> Mapping[JobKey, LedgerEntry]:
    """Entries of requeued jobs under their new key, to be kept whatever is done with the job.

    A requeue rewrites the submit time but keeps our node list, which must still be undone.
    """
    if not ledger:
        return {}
    pending = {j.job_id: j for j in obs.jobs if j.state.pending and j.restarts}
    found: dict[JobKey, LedgerEntry] = {}
    for key, entry in ledger.items():
        job = pending.get(key.job_id)
        if job is None or job.key in ledger or job.key.submit_s <= key.submit_s:
            continue
        found[job.key] = replace(
            entry, key=job.key, lease_until_s=None, held=False, released_s=None,
            deferred_since_s=None, original_begin_s=0,
        )  # fmt: skip
    return found


def _sort(obs: Observation, ctx: Context) -> tuple[list[JobView], list[Aside], list[LedgerEntry]]:
    views: list[JobView] = []
    asides: list[Aside] = []
    surrendered: list[LedgerEntry] = []
    restarts = by_job(ctx.restarts)
    for job in obs.jobs:
        if not job.state.pending:
            continue
        found = look_at(job, obs, ctx)
        if isinstance(found, JobView) and restarts:
            found = coming_back(found, restarts)
        if isinstance(found, JobView):
            why = guard.surrender(found.entry, ctx, obs.now_s)
            if why is not None and found.entry is not None:
                surrendered.append(replace(found.entry, surrendered=why.code))
                found = Aside(job, why, False, found.entry)
        if isinstance(found, JobView):
            views.append(found)
        else:
            asides.append(found)
    return views, asides, surrendered


def _ordered(
    views: Sequence[JobView], running: Sequence[Job], ctx: Context, now_s: int
) -> list[tuple[JobView, tuple[Term, ...]]]:
    terms = beside(ctx.policy.ordering, running, ctx.annotations).terms(views, now_s)
    paired = list(zip(views, terms, strict=True))
    first = favoured(ctx.restarts)
    paired.sort(
        key=lambda p: (p[0].key.job_id not in first, *[t.value for t in p[1]], p[0].job.key)
    )
    return paired


def _all_decisions(
    planner: Planner, asides: Sequence[Aside], occupying: Sequence[Job]
) -> dict[JobKey, Decision]:
    decisions = dict(planner.decisions)
    for aside in asides:
        verdict = Verdict.INELIGIBLE if aside.managed else Verdict.UNMANAGED
        decisions[aside.job.key] = Decision(aside.job.key, verdict, (aside.reason,))
    running = (reason("running", Stage.VIEW),)
    for job in occupying:
        decisions[job.key] = Decision(job.key, Verdict.RUNNING, running, start_s=job.start_s)
    return decisions


def _tell_bad_annotations(decisions: dict[JobKey, Decision], ctx: Context) -> None:
    """A bad annotation changes nothing but what is said about its job."""
    for key, problem in ctx.bad_annotations.items():
        if key in decisions:
            told = reason("bad_annotation", Stage.VIEW, problem=problem)
            decision = decisions[key]
            decisions[key] = replace(decision, reasons=(*decision.reasons, told))


def _tell_shapes(decisions: dict[JobKey, Decision], allotted: Allotted) -> None:
    """What annotated jobs are given, after the reasons of the plan itself."""
    told = {**allotted.told, **{r.key: r.reason for r in allotted.resizes}}
    for key, why in told.items():
        if key in decisions:
            decision = decisions[key]
            decisions[key] = replace(decision, reasons=(*decision.reasons, why))


def _tell_refused(decisions: dict[JobKey, Decision], refused: Mapping[JobKey, str]) -> None:
    """Why restarts that are worth it are not begun."""
    for key, why in refused.items():
        if key in decisions:
            told = reason("restart_waits", Stage.PREEMPT, because=why)
            decisions[key] = replace(decisions[key], reasons=(*decisions[key].reasons, told))


def _wake(planner: Planner, now_s: int) -> int | None:
    ends = [r.end_s for r in planner.timeline if r.end_s > now_s]
    return min(ends, default=None)


def _gone(obs: Observation, ctx: Context) -> tuple[JobKey, ...]:
    if not ctx.ledger:
        return ()
    here = {j.key for j in obs.jobs if not j.state.ended}
    return tuple(sorted(key for key in ctx.ledger if key not in here))


def _stats(
    obs: Observation,
    pool: Pool,
    decisions: dict[JobKey, Decision],
    reconciler: Reconciler,
    exposed: frozenset[JobKey],
) -> dict[str, float]:
    counts: dict[str, float] = {f"jobs_{v.value}": 0 for v in Verdict}
    for decision in decisions.values():
        counts[f"jobs_{decision.verdict.value}"] += 1
    usable = [n for n in obs.nodes if n.usable]
    counts["gpus_total"] = int(pool.capacity.gpus.sum())
    counts["gpus_usable"] = sum(n.gpu_count for n in usable)
    counts["gpus_used"] = sum(max(n.gpu_used.bit_count(), n.gpu_used_count) for n in obs.nodes)
    counts["patches"] = len(reconciler.patches)
    counts["patches_dropped"] = reconciler.dropped
    counts["frontier"] = len(exposed)
    counts["problems"] = len(obs.problems)
    return counts
