"""The last cycle as plain data for readers: status socket, ``plan``, ``status``."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from slurm_ext import __version__
from slurm_ext.engine.explain import sentence
from slurm_ext.engine.restarting import purpose_of, step_of
from slurm_ext.model.decision import (
    Decision,
    Fence,
    JobPatch,
    Placement,
    Plan,
    Preemption,
    Reason,
    Verdict,
)
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import Job
from slurm_ext.model.node import Node
from slurm_ext.model.restart import Restart
from slurm_ext.model.units import indices_of

from .config import Config
from .runner import CycleResult
from .ways import ways_of

Plain = dict[str, Any]


def snapshot(result: CycleResult, config: Config) -> Plain:
    """Everything a reader may ask of the last cycle; job texts are as users wrote them."""
    obs, plan = result.observation, result.plan
    jobs = {j.key: j for j in obs.jobs}
    decisions = sorted(
        (d for d in plan.decisions.values() if d.key in jobs),
        key=lambda d: (d.rank < 0, d.rank, d.key),
    )
    return {
        "daemon": {"version": __version__, "pid": os.getpid(), "config": config.digest},
        "cycle": result.cycle,
        "at_s": plan.now_s,
        "cluster": obs.controller.value("ClusterName"),
        "slurm": obs.controller.release,
        **ways_of(result.ways, result.switch),
        "policy": plan.policy,
        "policy_parameters": result.context.policy.parameters(),
        "private_data": obs.controller.value("PrivateData"),
        "modes": {name: str(mode) for name, mode in plan.modes.items()},
        "durations_s": dict(result.durations_s),
        "stats": dict(plan.stats),
        "history": asdict(result.history),
        "jobs": [
            _job(jobs[d.key], d, plan, result.context.estimates.get(d.key)) for d in decisions
        ],
        "nodes": [_node(n) for n in obs.nodes],
        "fences": [_fence(f) for f in plan.fences],
        "patches": [_patch(p) for p in plan.patches],
        "reserve": [{"name": r.name, "nodes": list(r.nodes)} for r in plan.reserve],
        "unreserve": list(plan.unreserve),
        "preempt": [preempt_of(p) for p in plan.preempt],
        "restarts": [restart_of(r, plan.now_s) for r in result.restarts],
        "problems": [f"{p.kind} {p.subject}: {p.detail}" for p in obs.problems],
        "errors": [f"job {p.address}: {o.detail}" for p, o in result.applied.errors],
    }


def reason_of(reason: Reason) -> Plain:
    """One reason with its sentence."""
    return {"code": reason.code, "stage": str(reason.stage), "text": sentence(reason),
            "facts": dict(reason.facts), "would_change": reason.would_change}  # fmt: skip


def preempt_of(proposal: Preemption) -> Plain:
    """A preemption plan; costs and gain in GPU-seconds."""
    return {
        "job_id": proposal.key.job_id,
        "worth": proposal.worth,
        "reason": reason_of(proposal.reason),
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


def restart_of(one: Restart, now_s: int) -> Plain:
    """A restart under way, or one that ended in this cycle (``outcome``)."""
    return {
        "id": one.address,
        "purpose": purpose_of(one),
        "stage": str(one.stage),
        "text": step_of(one),
        "for_s": max(0, now_s - one.since_s),
        "begun_s": one.begun_s,
        "gainer": one.gainer.job_id if one.gainer is not None else None,
        "gpus": one.gpus,
        "shape": one.shape._asdict() if one.shape is not None else None,
        "lost_gpu_s": one.lost_gpu_s,
        "outcome": one.outcome,
        "detail": one.detail,
    }


def summary(result: CycleResult) -> Plain:
    """One line a cycle: when, how long, how many of what."""
    return {
        "cycle": result.cycle,
        "at_s": result.plan.now_s,
        "durations_s": dict(result.durations_s),
        "stats": dict(result.plan.stats),
        "sent": len(result.applied.patches),
        "errors": len(result.applied.errors),
        "started": len(result.starts),
    }


def _job(job: Job, decision: Decision, plan: Plan, estimate: Estimate | None) -> Plain:
    running = decision.verdict is Verdict.RUNNING
    nodes = [s.node for s in job.alloc]
    forecast = plan.forecasts.get(job.key)
    return {
        "id": job.address,
        "job_id": job.job_id,
        "submit_s": job.key.submit_s,
        "name": job.name,
        "user": job.user,
        "account": job.account,
        "partition": ",".join(job.partitions),
        "state": str(job.state.base),
        "gpus": sum(s.gpus for s in job.alloc) if running else job.request.gpus,
        "nodes": nodes if running else job.request.nodes_min,
        "tasks": job.array_count,
        "limit_s": job.limit_s,
        "estimate": None if estimate is None else estimate._asdict(),
        "priority": job.priority,
        "slurm_reason": job.reason,
        "verdict": str(decision.verdict),
        "rank": decision.rank,
        "terms": {t.name: t.value for t in decision.terms},
        "reasons": [reason_of(r) for r in decision.reasons],
        "placement": _placement(decision.placement),
        "alternatives": [_placement(a) for a in decision.alternatives],
        "start_s": decision.start_s,
        "promised_s": decision.start_s if decision.verdict is Verdict.WAIT else None,
        "forecast": None
        if forecast is None
        else {"p50_s": forecast.p50_s, "p90_s": forecast.p90_s},
    }


def _placement(placement: Placement | None) -> list[Plain] | None:
    if placement is None:
        return None
    return [
        {"node": s.node, "gpus": s.gpus, "gpu_indices": list(indices_of(s.gpu_mask)),
         "cpus": s.cpus, "mem_mib": s.mem_mib}
        for s in placement.shares
    ]  # fmt: skip


def _node(node: Node) -> Plain:
    return {
        "name": node.name,
        "states": sorted(node.states),
        "gpus": node.gpu_count,
        "gpu_types": {g.type: g.count for g in node.gpus},
        "gpus_used": max(node.gpu_used.bit_count(), node.gpu_used_count),
        "gpu_used_indices": list(indices_of(node.gpu_used)),
        "gpu_shared_indices": list(indices_of(node.gpu_shared)),
        "cpus": node.cpus,
        "cpus_used": node.cpus_alloc,
        "mem_mib": node.mem_mib,
        "mem_used_mib": node.mem_alloc_mib,
    }


def _fence(fence: Fence) -> Plain:
    return {
        "job_id": fence.key.job_id,
        "start_s": fence.start_s,
        "held_s": fence.held_s,
        "nodes": list(fence.placement.nodes),
    }


def _patch(patch: JobPatch) -> Plain:
    fields = ("site_factor", "begin_s", "required_nodes", "excluded_nodes", "hold")
    values = {name: getattr(patch, name) for name in fields}
    return {
        "id": patch.address,
        "lever": str(patch.lever),
        "why": patch.why,
        "values": {k: v for k, v in values.items() if v is not None},
    }
