"""Shapes of annotated jobs: what the policy's allocation part gives them beside all other jobs.

Waiting jobs get the shape they start with; for running elastic ones a restart in another shape is
proposed where it gains enough. What is not annotated keeps exactly its request, and its place in
the queue counts as that of anybody else. A job of which nothing is known stays as submitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slurm_ext.model.annotation import Annotation
from slurm_ext.model.decision import Mode, Reason, Resize, Shape, Stage, Term
from slurm_ext.model.job import Job, JobKey, NodeShare
from slurm_ext.model.observation import Observation
from slurm_ext.model.reshape import reshaped, shape_of

from .allocation import Amount, AtLaunch, Contender, Servers
from .allow import Allowed
from .begin import enforced
from .contend import (
    as_submitted,
    believable,
    curve,
    held_gpus,
    in_time,
    may_change,
    plain,
    scalable,
    settled,
)
from .explain import reason
from .growth import resizes
from .launch import NOTHING, amounts, fair_share, leaves_share
from .planner import Planner
from .pool import demand_of
from .preempt import immovable
from .restarting import by_job
from .search import place
from .settings import Context
from .sizes import at_size, sizes
from .view import JobView

Ordered = Sequence[tuple[JobView, tuple[Term, ...]]]


@dataclass(frozen=True, slots=True)
class Allotted:
    """The views with their shapes, what running jobs should change, and why, by job."""

    ordered: Ordered
    resizes: tuple[Resize, ...] = ()
    told: Mapping[JobKey, Reason] = field(default_factory=dict)


def allot(
    obs: Observation,
    ctx: Context,
    planner: Planner,
    ordered: Ordered,
    occupying: Sequence[Job],
    modes: Mapping[str, Mode],
) -> Allotted:
    """Shapes for this cycle. The planner's pool is as before afterwards.

    Nothing for policies without an allocation part for the daemon.
    """
    policy = ctx.policy
    if policy.allocation is None or policy.runs != "annotated":
        return Allotted(ordered)
    one = _Allotter(obs, ctx, planner, occupying, modes)
    mark = planner.pool.checkpoint()
    found = one.run(ordered)
    planner.pool.rollback(mark)
    return found


@dataclass(slots=True)
class _Group:
    """Jobs of one partition and GPU type, and the servers they contend for."""

    waiting: list[JobView] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)
    granted: dict[JobKey, int] = field(default_factory=dict)
    contenders: dict[JobKey, Contender] = field(default_factory=dict)
    starved: list[JobView] = field(default_factory=list)
    fair: Amount = NOTHING


@dataclass(slots=True)
class _Allotter:
    obs: Observation
    ctx: Context
    planner: Planner
    occupying: Sequence[Job]
    modes: Mapping[str, Mode]
    told: dict[JobKey, Reason] = field(default_factory=dict)

    def run(self, ordered: Ordered) -> Allotted:
        groups = self._groups(ordered)
        launch = isinstance(self.ctx.policy.allocation, AtLaunch)
        if not any(g.running or any(map(self._ours, g.waiting)) for g in groups.values()):
            return Allotted(ordered)
        for group in groups.values():
            if launch:
                group.running.clear()
                if group.waiting:
                    allowed = self._allowed(group.waiting[0].job)
                    group.fair = fair_share(self.planner.pool, allowed)
            else:
                self._divide(group)
        left = {key: len(group.waiting) for key, group in groups.items()}
        shaped: list[tuple[JobView, tuple[Term, ...]]] = []
        for view, terms in ordered:
            name = _group_of(view.job)
            if name in groups and not view.let_go and view.job.request.gpus:
                group = groups[name]
                left[name] -= 1
                alone = not left[name] and not group.starved
                if self._ours(view) and view.shape is None:
                    tried = self._cpus(view, group, alone) if launch else self._gpus(view, group)
                    view = self._in(view, tried)
                if not self._occupy(view):
                    group.starved.append(view)
            shaped.append((view, terms))
        wanted = () if launch else tuple(
            resize for group in groups.values() for resize in self._resizes(group)
        )  # fmt: skip
        return Allotted(shaped, wanted, self.told)

    # -- who takes part ----------------------------------------------------------------------

    def _groups(self, ordered: Ordered) -> dict[tuple[str, str], _Group]:
        groups: dict[tuple[str, str], _Group] = {}
        for view, _ in ordered:
            if view.job.request.gpus and view.job.partitions and not view.let_go:
                groups.setdefault(_group_of(view.job), _Group()).waiting.append(view)
        going = by_job(self.ctx.restarts)
        for job in self.occupying:
            annotation = self.ctx.annotations.get(job.key)
            if (
                annotation is not None
                and annotation.scaling.kind == "elastic"
                and job.job_id not in going
                and held_gpus(job)
                and enforced(job, self.modes)
                and not immovable(job, self.ctx, self.obs.now_s)
            ):
                groups.setdefault(_group_of(job), _Group()).running.append(job)
        return groups

    def _ours(self, view: JobView) -> bool:
        """Whether the job's annotation lets this policy change it."""
        if view.mode is not Mode.ENFORCE or view.annotation is None:
            return False
        if isinstance(self.ctx.policy.allocation, AtLaunch):
            known = view.annotation.sensitivity
            return bool(known.kind or known.cpus_per_gpu or known.mem_mib_per_gpu)
        return view.annotation.scaling.kind != "fixed"

    # -- GPU counts --------------------------------------------------------------------------

    def _divide(self, group: _Group) -> None:
        """Ask the policy who of this group should hold how many GPUs."""
        pool = self.planner.pool
        asked = group.waiting[0].job if group.waiting else as_submitted(group.running[0], self.ctx)
        nodes = self._allowed(asked).nodes
        free = np.where(nodes, pool.typed(pool.free, asked.request.gpu_type), 0)
        for job in group.running:
            for share in job.alloc:
                free[pool.index[share.node]] += share.gpus
        total = int(free.sum())
        if not total:
            return
        servers = Servers(tuple(int(n) for n in free), *(
            tuple(int(n) for n in part) for part in (pool.free.cpus, pool.free.mem)
        ))  # fmt: skip
        # By id: a requeue gives a job another submit time, but leaves it that.
        order = sorted(
            [v.key for v in group.waiting] + [j.key for j in group.running],
            key=lambda key: (key.job_id, key.submit_s),
        )
        line = {key: n for n, key in enumerate(order)}
        for job in group.running:
            counts = self._counts(as_submitted(job, self.ctx), self.ctx.annotations[job.key])
            self._enter(group, as_submitted(job, self.ctx), counts, line[job.key])
        for view in group.waiting:
            counts = ()
            if self._ours(view) and view.annotation and not self._fixed(view):
                counts = self._counts(view.job, view.annotation)
            if counts:
                self._enter(group, view.job, counts, line[view.key])
            else:
                group.contenders[view.key] = plain(view, line[view.key], total)
        allocation = self.ctx.policy.allocation
        assert allocation is not None
        granted = allocation.grants(
            list(group.contenders.values()), servers, self.obs.now_s, ()
        )  # fmt: skip
        group.granted = {g.key: g.gpus for g in granted}

    def _enter(self, group: _Group, job: Job, counts: tuple[int, ...], line: int) -> None:
        if counts:
            group.contenders[job.key] = scalable(
                job, self.ctx.annotations[job.key], counts, self.ctx, line,
                self.planner.pool.index, self.obs.now_s,
            )  # fmt: skip

    def _counts(self, job: Job, annotation: Annotation) -> tuple[int, ...]:
        """GPU counts the job can be given on these nodes; none without a speed at each of them."""
        size, total = self._largest(job)
        counts = tuple(
            count
            for count in sizes(annotation.scaling, job.request.gpus, total)
            if not isinstance(at_size(job.request, annotation, count, size), str)
        )
        if not believable(curve(job, annotation, self.ctx), (job.request.gpus, *counts)):
            return ()
        now_s = self.obs.now_s
        return tuple(n for n in counts if in_time(job, annotation, n, self.ctx, now_s))

    def _largest(self, job: Job) -> tuple[int, int]:
        """GPUs of the largest node the job may use, and of all of them."""
        pool = self.planner.pool
        nodes = self._allowed(job).static
        gpus = np.where(nodes, pool.typed(pool.capacity, job.request.gpu_type), 0)
        return int(gpus.max(initial=0)), int(gpus.sum())

    def _gpus(self, view: JobView, group: _Group) -> Shape | str:
        """The largest size up to the one granted that fits now."""
        assert view.annotation is not None
        if why := self._fixed(view):
            kept = view.entry if settled(view) else None
            return kept.shape if kept and kept.shape and not kept.failed_starts else why
        if view.key not in group.contenders or not (
            counts := self._counts(view.job, view.annotation)
        ):
            return "no speed is known, or none of its sizes can be had here or ends in time"
        most = group.granted.get(view.key, 0)
        size, _ = self._largest(view.job)
        for count in sorted((n for n in counts if n <= most), reverse=True):
            shape = at_size(view.job.request, view.annotation, count, size)
            if not isinstance(shape, str) and self._fits(view, shape):
                return shape
        return f"{most} GPUs are its share now, and no such size fits"

    def _fixed(self, view: JobView) -> str:
        """Why no other size is chosen for the job, or nothing."""
        if settled(view):
            return "a moldable job keeps its size once it has started"
        return may_change(view)

    def _resizes(self, group: _Group) -> list[Resize]:
        """Running jobs that should come back in another size, if that is worth it."""
        return resizes(
            self.obs, self.ctx, self.planner, group.running, group.contenders, group.granted,
            group.starved,
        )  # fmt: skip

    # -- CPUs and memory ---------------------------------------------------------------------

    def _cpus(self, view: JobView, group: _Group, alone: bool) -> Shape | str:
        """The first of the policy's amounts that fits now and leaves others their share."""
        allocation = self.ctx.policy.allocation
        assert view.annotation is not None
        assert isinstance(allocation, AtLaunch)
        if why := may_change(view):
            return why
        known = view.annotation.sensitivity
        for shape, more in amounts(view.job.request, known, allocation, group.fair):
            if isinstance(shape, str):
                return shape
            if self._fits(view, shape, group.fair if more and not alone else None):
                return shape
        return "no amount that is better fits now"

    # -- the pool ----------------------------------------------------------------------------

    def _allowed(self, job: Job) -> Allowed:
        """Not by the planner's own book, which must not know a job before it has its shape."""
        return self.planner.allowance.of(job, self.obs.now_s, 1)

    def _in(self, view: JobView, tried: Shape | str) -> JobView:
        """The view in that shape, and the reason in words."""
        before = shape_of(view.job.request)
        if isinstance(tried, str):
            self.told[view.key] = reason("as_submitted", Stage.ALLOCATE, because=tried)
            return view
        if tried == before:
            return view
        job = replace(view.job, request=reshaped(view.job.request, tried))
        self.told[view.key] = reason(
            "shaped", Stage.ALLOCATE, asked_gpus=before.gpus, asked_cpus=before.cpus,
            gpus=tried.gpus, cpus=tried.cpus, because=f"policy {self.ctx.policy.name}",
        )  # fmt: skip
        return replace(view, job=job, shape=tried, submitted=before)

    def _fits(self, view: JobView, shape: Shape, fair: Amount | None = None) -> bool:
        """Whether it could start so now; with ``fair``, and the GPUs left keep that much each."""
        job = replace(view.job, request=reshaped(view.job.request, shape))
        pool = self.planner.pool
        found = self._place(view, job)
        return bool(found) and (fair is None or leaves_share(pool, found, fair))

    def _occupy(self, view: JobView) -> bool:
        """Take the room the job would start on; of an array for every task that fits."""
        done = 0
        while done < view.job.array_count and (shares := self._place(view, view.job)):
            self.planner.pool.take(shares)
            done += 1
        return done > 0

    def _place(self, view: JobView, job: Job) -> tuple[NodeShare, ...]:
        pool = self.planner.pool
        if not pool.free.gpus.any():
            return ()  # the ordinary case far down a long queue
        allowed = self.planner.allowance.of(job, view.eligible_s, view.duration_s)
        if allowed.missing_required:
            return ()
        demand = demand_of(job.request, memory_counts=pool.memory_counts)
        found = place(
            pool, pool.free, demand, allowed.nodes, self.ctx.policy.placement,
            required=allowed.required,
        )  # fmt: skip
        return found[0].shares if found else ()


def _group_of(job: Job) -> tuple[str, str]:
    return (job.partitions[0] if job.partitions else "", job.request.gpu_type)
