"""The account of one job as plain data: what ``why --json`` prints. Its shape is documented in
docs/explain.md and does not change within a major version, except by new keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurm_ext.daemon.capture import Capture
from slurm_ext.daemon.records import Change
from slurm_ext.daemon.snapshot import Plain, preempt_of, reason_of
from slurm_ext.engine import account
from slurm_ext.engine.cycle import Step
from slurm_ext.engine.explain import sentence
from slurm_ext.engine.policy import Factor
from slurm_ext.engine.whatif import what_if
from slurm_ext.errors import SlurmExtError
from slurm_ext.model.decision import Decision, Reason, Verdict
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.units import indices_of

MadeOf = Mapping[JobKey, tuple[Factor, ...]]


def account_of(found: Capture, step: Step, job: Job, history: Sequence[Change]) -> Plain:
    """Everything there is to say about one job in one plan."""
    plan, obs = step.plan, found.observation
    decision = plan.decisions[job.key]
    ranked = decision.rank >= 0
    made_of: MadeOf = account.factors(obs, found.context, plan.order) if ranked else {}
    ahead, behind = _neighbours(step, job.key)
    rooms = _shapes(found, step, job)
    return {
        "id": job.address,
        "at_s": obs.now_s,
        "state": str(job.state.base),
        "policy": plan.policy,
        "waiting": len(plan.order),
        **verdict_of(decision, obs.now_s),
        "terms": {t.name: t.value for t in decision.terms},
        "factors": _factors(made_of.get(job.key, ())),
        "ahead": _neighbour(found, step, job.key, ahead, made_of) if ahead else None,
        "behind": _neighbour(found, step, job.key, behind, made_of) if behind else None,
        "holds": [
            {"node": s.node, "gpus": s.gpus, "cpus": s.cpus, "mem_mib": s.mem_mib}
            for s in job.alloc
        ],
        "end_s": job.end_s,
        "alternatives": [list(p.nodes) for p in decision.alternatives],
        "shapes": rooms,
        "would_start_with": _would_start_with(found, job, decision, rooms),
        "estimate": _estimate(found, job.key),
        "fence": _fence(step, job.key),
        "forecast": _forecast(step, job.key),
        "preempt": next((preempt_of(p) for p in plan.preempt if p.key == job.key), None),
        "victim_for": _victim_for(step, job.key),
        "slurm": {
            "reason": job.reason_text or job.reason,
            "priority": job.priority,
            "start_s": job.start_s if job.state.pending else None,
        },
        "history": [_change(c) for c in history],
    }


def _estimate(found: Capture, key: JobKey) -> Plain | None:
    estimate = found.context.estimates.get(key)
    return None if estimate is None else estimate._asdict()


def verdict_of(decision: Decision, now_s: int) -> Plain:
    """The part of the account that a what-if answers, too."""
    placement = decision.placement
    return {
        "verdict": str(decision.verdict),
        "rank": decision.rank,
        "stage": str(decision.reasons[0].stage) if decision.reasons else "",
        "reasons": [reason_of(r) for r in decision.reasons],
        "start_s": decision.start_s,
        "start_in_s": None if decision.start_s is None else max(0, decision.start_s - now_s),
        "nodes": list(placement.nodes) if placement else [],
        "gpu_indices": {s.node: list(indices_of(s.gpu_mask)) for s in placement.shares}
        if placement
        else {},
    }


def _neighbours(step: Step, key: JobKey) -> tuple[JobKey | None, JobKey | None]:
    order = step.plan.order
    if key not in order:
        return None, None
    at = order.index(key)
    ahead = order[at - 1] if at else None
    return ahead, order[at + 1] if at + 1 < len(order) else None


def _neighbour(found: Capture, step: Step, key: JobKey, other: JobKey, made_of: MadeOf) -> Plain:
    """The job next to ``key``, and what decided between the two."""
    decisions = step.plan.decisions
    first, second = decisions[key], decisions[other]
    if first.rank > second.rank:
        first, second = second, first
    why = account.decisive(first, second, made_of)
    job = next(j for j in found.observation.jobs if j.key == other)
    return {
        "id": job.address,
        "rank": decisions[other].rank,
        "verdict": str(decisions[other].verdict),
        "terms": {t.name: t.value for t in decisions[other].terms},
        "factors": _factors(made_of.get(other, ())),
        "decided_by": {"term": why.term, "factor": why.factor, "ahead": why.ahead,
                       "behind": why.behind},
    }  # fmt: skip


def _shapes(found: Capture, step: Step, job: Job) -> list[Plain]:
    if step.plan.decisions[job.key].verdict not in (Verdict.WAIT, Verdict.NEVER, Verdict.START):
        return []
    rooms = account.shapes(found.observation, found.context, step.plan, job)
    return [
        {"gpus": dict(r.gpus), "cpus": r.cpus, "mem_mib": r.mem_mib, "nodes": r.nodes,
         "usable": r.usable, "fit": r.fit, "could": r.could, "best_gpus": r.best_gpus,
         "best_cpus": r.best_cpus, "best_mem_mib": r.best_mem_mib}
        for r in rooms
    ]  # fmt: skip


def _would_start_with(
    found: Capture, job: Job, decision: Decision, rooms: Sequence[Plain]
) -> list[dict[str, str]]:
    """Single changes with which the job would start now: each was decided, none is guessed."""
    if decision.verdict is not Verdict.WAIT:
        return []
    request, facts = job.request, {k: v for r in decision.reasons for k, v in r.facts}
    tries: list[dict[str, str]] = []
    fence_in_s = facts.get("fence_in_s", facts.get("limit_s"))
    if isinstance(fence_in_s, int) and fence_in_s >= 60:
        tries.append({"limit": f"{fence_in_s // 60}m"})
    best = max((r["best_gpus"] for r in rooms), default=0)
    if 0 < best < request.gpus_per_node:
        tries.append({"gpus": str(best)})
    elif 0 < best < request.gpus_total:
        free = sum(r["best_gpus"] for r in rooms if r["fit"]) or best
        tries.append({"gpus": str(free)})
    if request.nodes_min > 1 and sum(r["fit"] for r in rooms) > 0:
        tries.append({"nodes": str(min(request.nodes_min - 1, sum(r["fit"] for r in rooms)))})
    if request.gpu_type:
        tries.append({"type": "any"})
    codes = {r.code for r in decision.reasons}
    for code, key in (("cpus_short", "cpus"), ("memory_short", "mem")):
        if code in codes and facts.get("best"):
            tries.append({key: str(facts["best"])})
    good = []
    for changes in tries:
        try:
            other = what_if(found.observation, found.context, job.key, changes)
        except SlurmExtError:  # such as fewer CPUs than tasks
            continue
        if other.plan.decisions[job.key].verdict is Verdict.START:
            good.append(changes)
    return good


def _fence(step: Step, key: JobKey) -> Plain | None:
    for fence in step.plan.fences:
        if fence.key == key:
            return {"start_s": fence.start_s, "nodes": list(fence.placement.nodes)}
    return None


def _forecast(step: Step, key: JobKey) -> Plain | None:
    found = step.plan.forecasts.get(key)
    return None if found is None else {"p50_s": found.p50_s, "p90_s": found.p90_s}


def _victim_for(step: Step, key: JobKey) -> list[int]:
    """Jobs that would gain if this running one were requeued."""
    return [
        p.key.job_id for p in step.plan.preempt if p.worth and key in {v.key for v in p.victims}
    ]


def _factors(made_of: Sequence[Factor]) -> list[Plain]:
    return [
        {"name": f.name, "value": f.value, "weight": f.weight, "contribution": f.contribution}
        for f in made_of
    ]


def _change(change: Change) -> Plain:
    told = Reason(change.code, change.stage, change.facts) if change.stage else None
    return {"at_s": change.at_s, "verdict": str(change.verdict), "code": change.code,
            "text": sentence(told) if told else change.code, "rank": change.rank,
            "start_s": change.start_s}  # fmt: skip
