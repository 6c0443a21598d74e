"""The account of one job as plain data: what ``why --json`` prints. Its shape is documented in
docs/explain.md and does not change within a major version, except by new keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slurm_ext.daemon.capture import Capture
from slurm_ext.daemon.records import Change
from slurm_ext.engine import account
from slurm_ext.engine.cycle import Step
from slurm_ext.engine.explain import sentence
from slurm_ext.engine.policy import Factor
from slurm_ext.model.decision import Decision, Preemption, Reason, Verdict
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.units import indices_of

Plain = dict[str, Any]
MadeOf = Mapping[JobKey, tuple[Factor, ...]]


def account_of(found: Capture, step: Step, job: Job, history: Sequence[Change]) -> Plain:
    """Everything there is to say about one job in one plan."""
    plan, obs = step.plan, found.observation
    decision = plan.decisions[job.key]
    ranked = decision.rank >= 0
    made_of: MadeOf = account.factors(obs, found.context, plan.order) if ranked else {}
    ahead, behind = _neighbours(step, job.key)
    return {
        "id": job.address,
        "state": str(job.state.base),
        "policy": plan.policy,
        "waiting": len(plan.order),
        **verdict_of(decision, obs.now_s),
        "terms": {t.name: t.value for t in decision.terms},
        "factors": _factors(made_of.get(job.key, ())),
        "ahead": _neighbour(found, step, job.key, ahead, made_of) if ahead else None,
        "behind": _neighbour(found, step, job.key, behind, made_of) if behind else None,
        "alternatives": [list(p.nodes) for p in decision.alternatives],
        "shapes": _shapes(found, step, job),
        "fence": _fence(step, job.key),
        "preempt": next((preempt_of(p) for p in plan.preempt if p.key == job.key), None),
        "victim_for": _victim_for(step, job.key),
        "slurm": {
            "reason": job.reason_text or job.reason,
            "priority": job.priority,
            "start_s": job.start_s if job.state.pending else None,
        },
        "history": [_change(c) for c in history],
    }


def verdict_of(decision: Decision, now_s: int) -> Plain:
    """The part of the account that a what-if answers, too."""
    placement = decision.placement
    return {
        "verdict": str(decision.verdict),
        "rank": decision.rank,
        "stage": str(decision.reasons[0].stage) if decision.reasons else "",
        "reasons": [_reason(r) for r in decision.reasons],
        "start_s": decision.start_s,
        "start_in_s": None if decision.start_s is None else max(0, decision.start_s - now_s),
        "nodes": list(placement.nodes) if placement else [],
        "gpu_indices": {s.node: list(indices_of(s.gpu_mask)) for s in placement.shares}
        if placement
        else {},
    }


def preempt_of(proposal: Preemption) -> Plain:
    """A preemption plan; costs and gain in GPU-seconds."""
    return {
        "job_id": proposal.key.job_id,
        "worth": proposal.worth,
        "reason": _reason(proposal.reason),
        "cost_gpu_s": proposal.cost_gpu_s,
        "gain_gpu_s": proposal.gain_gpu_s,
        "optimal": proposal.optimal,
        "nodes": list(proposal.placement.nodes) if proposal.placement else [],
        "victims": [
            {"id": v.address, "nodes": list(v.nodes), "gpus": v.gpus, "lost_gpu_s": v.lost_gpu_s,
             "grace_gpu_s": v.grace_gpu_s, "restart_gpu_s": v.restart_gpu_s}
            for v in proposal.victims
        ],
    }  # fmt: skip


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


def _fence(step: Step, key: JobKey) -> Plain | None:
    for fence in step.plan.fences:
        if fence.key == key:
            return {"start_s": fence.start_s, "nodes": list(fence.placement.nodes)}
    return None


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


def _reason(reason: Reason) -> Plain:
    return {"code": reason.code, "stage": str(reason.stage), "text": sentence(reason),
            "facts": dict(reason.facts), "would_change": reason.would_change}  # fmt: skip


def _change(change: Change) -> Plain:
    told = Reason(change.code, change.stage, change.facts) if change.stage else None
    return {"at_s": change.at_s, "verdict": str(change.verdict), "code": change.code,
            "text": sentence(told) if told else change.code, "rank": change.rank,
            "start_s": change.start_s}  # fmt: skip
