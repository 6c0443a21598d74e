"""Reason codes and their sentences: the text catalogue, and the tests of what is short."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slurm_ext.model.decision import Placement, Reason, Stage
from slurm_ext.model.job import Job
from slurm_ext.model.units import Fact

from .allow import Allowed
from .pool import Demand, Free, Pool
from .search import fit
from .topology import UNKNOWN, Ring

SENTENCES: Mapping[str, str] = {
    # view: not ours, or not now for Slurm itself
    "partition_unmanaged": "partition {partition} is not managed",
    "opted_out": "the job opted out with {marker!r} in its comment",
    "surrendered": "left to Slurm for good: {because}",
    "held": "held by its owner or an administrator ({reason})",
    "cron_job": "a scrontab job; Slurm accepts no changes to it",
    "het_job": "a heterogeneous job; Slurm starts its components together",
    "in_reservation": "the job runs inside a reservation that is not ours",
    "interactive": "an interactive job; interactive jobs are left to Slurm",
    "special_state": "in a special state that belongs to an administrator ({detail})",
    "unplannable": "asks for something that is not modelled ({detail}); left to Slurm",
    "features_unplannable": "its feature constraint {detail!r} is left to Slurm",
    "dependency": "waits for {dependency}",
    "begin_time": "not before its own begin time",
    "requeue_delay": "it was requeued, and Slurm makes it wait {for_s} s more",
    "limit_in_slurm": "Slurm refuses it for now: {reason}",
    "array_throttled": "{throttle} of its tasks run, as many as its own throttle allows",
    "bad_annotation": "its annotation is not used: {problem}",
    # allocate: shapes of annotated jobs
    "shaped": "asked {asked_gpus} GPUs, {asked_cpus} CPUs; is given {gpus} GPUs, {cpus} CPUs: "
    "{because}",
    "as_submitted": "stays as submitted: {because}",
    "resize": "would come back with {gpus} in place of {held} GPUs: saves {gain_gpu_s}, costs "
    "{cost_gpu_s} GPU-seconds",
    # place
    "fits": "fits now on {nodes}",
    "bandwidth": "its GPUs will probably reach {gbps} GB/s in a ring, {best_gbps} at best; limited "
    "by {bottleneck}",
    "gpus_busy": "needs {need} GPUs, {free} of {total} suitable ones are free",
    "fragmented": "needs {need} GPUs per node on {nodes_need} nodes; {free} are free, but at most "
    "{best} on one node, {nodes_fit} nodes have enough",
    "cpus_short": "{nodes_gpus} nodes have the GPUs, but none of them {cpus} free CPUs "
    "(at most {best})",
    "memory_short": "{nodes_gpus} nodes have GPUs and CPUs, but none of them {mem_mib} MiB "
    "(at most {best} MiB)",
    "nodes_busy": "needs {nodes_need} nodes, {nodes_fit} have room now",
    "nodes_unavailable": "enough nodes exist, but {down} of them are down, drained or not usable",
    "reservation_window": "would run into reservation {reservation}; fits if its limit is at most "
    "{limit_s} s",
    "required_unavailable": "the nodes it names are not free now",
    "never_fits": "no set of nodes of its partitions can ever hold it",
    "no_such_node": "names a node that does not exist",
    # backfill
    "behind_fence": "fits now, but would still run at the planned start of job {fence_job} in "
    "{fence_in_s} s; fits if its limit is at most that long",
    "behind_blocked": "strict order: job {blocked_job} before it waits",
    "array_behind_fence": "only {fit} of its tasks could start without delaying job {fence_job}",
    "fenced": "promised a start in {in_s} s on {nodes}",
    "no_release_helps": "no expected end of a running job makes room for it",
    # preempt: proposals
    "preempt_worth": "requeueing {victims} would start it now: costs {cost_gpu_s} GPU-seconds, "
    "saves {gain_gpu_s} of waiting",
    "preempt_dear": "requeueing {victims} would start it now, but costs {cost_gpu_s} GPU-seconds "
    "and saves only {gain_gpu_s}, less than {min_gain} times that",
    "preempt_none": "no set of preemptible jobs makes room for it ({candidates} could be requeued)",
    # restarts under way
    "restarting": "restart {purpose}: {step}, for {for_s} s now",
    "restart_waits": "no restart is begun for it now: {because}",
    "gets_room": "{victims} save their state and make room for it",
    # reconcile and guard
    "let_go": "let go {ago_s} s ago; Slurm has not started it yet",
    "start_budget": "the limit of {limit} starts a cycle is reached",
    "max_deferral": "deferred for {deferred_s} s in all; from now on it belongs to Slurm",
    "not_started": "let go {times} times, but Slurm did not start it: it asks for something "
    "that is not modelled; from now on it belongs to Slurm",
    "running": "running",
}
"""Every code a decision may carry; ``{name}`` are facts of the reason."""


def sentence(reason: Reason) -> str:
    """The reason in words; an unknown code or a missing fact shows as it is, never raises."""
    facts = dict(reason.facts)
    template = SENTENCES.get(reason.code)
    if template is None:
        return f"{reason.code} {facts}" if facts else reason.code
    try:
        text = template.format(**facts)
    except (KeyError, IndexError, ValueError):
        text = f"{reason.code} {facts}"
    return f"{text}; would help: {reason.would_change}" if reason.would_change else text


def reason(code: str, stage: Stage, would_change: str = "", **facts: Fact) -> Reason:
    return Reason(code, stage, tuple(facts.items()), would_change)


def bandwidth(pool: Pool, placement: Placement) -> tuple[Reason, ...]:
    """The predicted ring bandwidth of a placement already taken, if anything is known of it."""
    ring = _ring_of(pool, placement)
    if ring is None:
        return ()
    return (
        reason(
            "bandwidth", Stage.PLACE, gbps=round(ring.gbps, 1),
            best_gbps=round(ring.best_gbps, 1), bottleneck=ring.bottleneck or "nothing",
        ),
    )  # fmt: skip


def _ring_of(pool: Pool, placement: Placement) -> Ring | None:
    """Predicted ring bandwidth of a placement that is counted on its uplinks already."""
    if pool.topology is UNKNOWN or sum(s.gpus for s in placement.shares) < 2:
        return None
    where = [pool.index[s.node] for s in placement.shares]
    masks = [s.gpu_mask for s in placement.shares]
    if len(where) == 1:
        return pool.topology.ring_within(where[0], masks[0])
    nodes = np.array(where, dtype=np.int64)
    gpus = np.array([s.gpus for s in placement.shares], dtype=np.int64)
    inside = np.array([pool.topology.score(i, m) for i, m in zip(where, masks, strict=True)])
    crossing = dict(pool.slots.crossing)
    for name in pool.topology.uplinks(nodes):
        crossing[name] = crossing.get(name, 1) - 1
    return pool.topology.ring(nodes, inside, gpus, crossing)


def why_not_placed(pool: Pool, free: Free, job: Job, demand: Demand, allowed: Allowed) -> Reason:
    """What is short right now, in the order GPUs, CPUs, memory, nodes, with the numbers."""
    if allowed.missing_required:
        return reason("no_such_node", Stage.PLACE, "name existing nodes")
    if demand.total_gpus:
        gpu_reason = _gpus_short(pool, free, demand, allowed)
        if gpu_reason is not None:
            return gpu_reason
    per_node = demand.gpus if demand.uniform else min(1, demand.unit_gpus)
    with_gpus = allowed.nodes & (pool.typed(free, demand.gpu_type) >= per_node)
    with_cpus = with_gpus & (free.cpus >= pool.cpus_needed(demand.cpus))
    if not with_cpus.any() and with_gpus.any():
        best = int(free.cpus[with_gpus].max())
        return reason(
            "cpus_short", Stage.PLACE, f"ask for at most {best} CPUs per node",
            nodes_gpus=int(with_gpus.sum()), cpus=demand.cpus, best=best,
        )  # fmt: skip
    if with_cpus.any() and not (with_cpus & (free.mem >= demand.mem_mib)).any():
        best = int(free.mem[with_cpus].max())
        return reason(
            "memory_short", Stage.PLACE, f"ask for at most {best} MiB per node",
            nodes_gpus=int(with_cpus.sum()), mem_mib=demand.mem_mib, best=best,
        )  # fmt: skip
    if job.request.required_nodes:
        return reason("required_unavailable", Stage.PLACE, "drop --nodelist")
    found = fit(pool, free, demand, allowed.nodes)
    return reason(
        "nodes_busy", Stage.PLACE,
        nodes_need=demand.nodes_min, nodes_fit=int(found.ok.sum()),
    )  # fmt: skip


def _gpus_short(pool: Pool, free: Free, demand: Demand, allowed: Allowed) -> Reason | None:
    here = pool.typed(free, demand.gpu_type)[allowed.nodes]
    total = pool.typed(pool.capacity, demand.gpu_type)[allowed.nodes]
    if int(here.sum()) < demand.total_gpus:
        return reason(
            "gpus_busy", Stage.PLACE,
            need=demand.total_gpus, free=int(here.sum()), total=int(total.sum()),
        )  # fmt: skip
    if demand.uniform and int((here >= demand.gpus).sum()) < demand.nodes_min:
        best = int(here.max(initial=0))
        return reason(
            "fragmented", Stage.PLACE, f"ask for at most {best} GPUs per node",
            need=demand.gpus, nodes_need=demand.nodes_min, free=int(here.sum()), best=best,
            nodes_fit=int((here >= demand.gpus).sum()),
        )  # fmt: skip
    return None
