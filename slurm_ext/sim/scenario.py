"""What to run, in words of the command line: driver, policy, backfill; and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slurm_ext.engine.settings import BackfillSettings, Context, GuardSettings, LeverSettings
from slurm_ext.engine.topology import UNKNOWN
from slurm_ext.model.decision import Mode
from slurm_ext.policies import get
from slurm_ext.topology.site import SiteTopology

from . import needs
from .allotted import AllotDriver
from .cluster import Cluster, ClusterSpec
from .errors import TraceError
from .foresee import FORESIGHTS
from .ideal import IdealDriver
from .links import Links, Places
from .outcome import SimResult
from .physics import Declared, Physics, StopCost
from .sensitivity import TwoSpeeds
from .settings import SlurmSettings
from .simulate import Simulation
from .sitelinks import SiteLinks
from .training import tables
from .training.job import Measured, TrainingJob
from .workload import TraceJob, Workload

DRIVERS = ("stock", "observe", "order", "enforce", "ideal")
"""Slurm alone; Slurm with the daemon in one of its modes; the decision core without a Slurm."""

PHYSICS: dict[str, Physics] = {
    "declared": Declared(), "synergy": TwoSpeeds(),
    "synergy-artifact": TwoSpeeds(whole_iterations=True),
}  # fmt: skip
"""How fast jobs run: by their speed column, or by what Synergy measured of their models."""

DURATIONS = ("limit", *FORESIGHTS)
"""What jobs are expected to run: their limits; the mean of a user's ended jobs of that size; the
mean of a user's two last ended jobs.
"""

BACKFILLS = ("none", "best_effort", "easy", "conservative", "slack")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One way to schedule a workload. ``policy`` and ``backfill`` mean nothing to ``stock``;
    ``round_s``, ``durations``, ``cost`` and ``stamp_rounds`` are for ``ideal``: decisions at
    multiples of ``round_s`` only (-1: as the policy has it; from ``round_start_s`` on), see
    :data:`DURATIONS`, the price of stopping a job, ends counted at the end of their round.
    ``fast``: place jobs that all fit without a whole decision. ``parameters``: of the policy.
    ``late``, ``max_slip_s``: with ``durations``, as in ``BackfillSettings``. ``one_start``: a
    decision of ``ideal`` starts one job at most, and is followed by another at once.
    ``physics``: how fast jobs run. ``training``: folder of measured tables by which jobs with a
    batch size run instead, in rounds. ``links``: what the place costs, for ``ideal`` only;
    ``topology``: the same by links and switches, which placement sees, too.
    """

    driver: str = "ideal"
    policy: str = "fifo"
    backfill: str = "easy"
    round_s: int = -1
    durations: str = "limit"
    late: str = "steps"
    max_slip_s: int = 3600
    one_start: bool = False
    cost: StopCost = field(default_factory=StopCost)
    stamp_rounds: bool = False
    round_start_s: int = 0
    fast: bool = False
    parameters: Mapping[str, object] = field(default_factory=dict)
    physics: Physics = field(default_factory=Declared)
    training: Path | None = None
    links: Links | None = None
    topology: SiteTopology | None = None
    slurm: SlurmSettings = field(default_factory=SlurmSettings)
    levers: LeverSettings = field(default_factory=LeverSettings)
    guard: GuardSettings = field(default_factory=GuardSettings)

    @property
    def label(self) -> str:
        if self.driver == "stock":
            return "stock"
        if self.driver == "ideal" and get(self.policy).allocation is not None:
            return self.policy
        return f"{self.policy} {self.backfill} ({self.driver})"

    def context(self) -> Context:
        """What the engine is told.

        :raises TraceError: unknown backfill.
        :raises PolicyError: unknown policy or parameter.
        """
        if self.backfill not in BACKFILLS:
            raise TraceError(f"backfill {self.backfill!r}: one of {', '.join(BACKFILLS)}")
        mode = Mode(self.driver) if self.driver in set(Mode) else Mode.OBSERVE
        return Context(
            policy=get(self.policy).with_parameters(self.parameters),
            mode=mode,
            topology=self.topology or UNKNOWN,
            gpu_speeds=self.links.gpu_speeds if self.links is not None else {},
            backfill=BackfillSettings(
                kind=self.backfill,
                durations="limit" if self.durations == "limit" else "p50",
                late=self.late,
                max_slip_s=self.max_slip_s,
            ),
            levers=self.levers,
            guard=replace(self.guard, max_starts_per_cycle=1) if self.one_start else self.guard,
        )


def run(
    scenario: Scenario,
    workload: Workload,
    spec: ClusterSpec,
    progress: Callable[[int, int], None] | None = None,
) -> SimResult:
    """One run of a workload, to the end of its last job.

    :raises TraceError: unknown driver, or jobs that can never run on this cluster.
    """
    if scenario.driver not in DRIVERS:
        raise TraceError(f"driver {scenario.driver!r}: one of {', '.join(DRIVERS)}")
    impossible = [why for job in workload.jobs if (why := never_fits(job, spec))]
    if impossible:
        raise TraceError("\n".join([f"{len(impossible)} jobs can never run", *impossible[:20]]))
    if scenario.driver != "ideal" and (scenario.links or scenario.topology):
        what = "--links, --gpu-speeds, --preset, --topology"
        raise TraceError(f"{what}: not with driver {scenario.driver}, only ideal")
    if scenario.driver == "ideal":
        return _ideal(scenario, workload, spec).run(progress)
    context = None if scenario.driver == "stock" else scenario.context()
    return Simulation(workload, spec, scenario.slurm, context, label=scenario.label).run(progress)


def _ideal(scenario: Scenario, workload: Workload, spec: ClusterSpec) -> IdealDriver | AllotDriver:
    """The driver without a Slurm that suits the policy."""
    context = scenario.context()
    policy = context.policy
    if scenario.durations not in DURATIONS:
        raise TraceError(f"durations {scenario.durations!r}: one of {', '.join(DURATIONS)}")
    trained = scenario.training is not None
    needs.check(policy, workload, lossless=scenario.cost.lossless, trained=trained)
    foresight = FORESIGHTS[scenario.durations]() if scenario.durations != "limit" else None
    round_s = policy.round_s if scenario.round_s < 0 else scenario.round_s
    if policy.allocation is None:
        return IdealDriver(
            workload, spec, context, kill=scenario.slurm.kill, round_s=round_s,
            foresight=foresight, fast=scenario.fast, links=_links(scenario, spec),
            label=scenario.label,
        )  # fmt: skip
    if scenario.training is not None:
        return _trained(scenario, scenario.training, workload, spec)
    return AllotDriver(
        workload, spec, policy.allocation, scenario.physics, scenario.cost, round_s=round_s,
        round_start_s=scenario.round_start_s, stamp_rounds=scenario.stamp_rounds,
        foresight=foresight, links=_links(scenario, spec), label=scenario.label,
    )  # fmt: skip


def _links(scenario: Scenario, spec: ClusterSpec) -> Places | None:
    if scenario.links is None and scenario.topology is None:
        return None
    links = replace(scenario.links or Links(), node_gpus=spec.node_size())
    if scenario.topology is None:
        return links
    return SiteLinks(scenario.topology, links, Cluster(spec).records())


TRAINING_ROUND_S = 60
"""Training jobs are looked at that often if neither policy nor user says otherwise."""


def _trained(
    scenario: Scenario, folder: Path, workload: Workload, spec: ClusterSpec
) -> AllotDriver:
    """Jobs by measured tables under a policy's allocation part."""
    policy, apps = scenario.context().policy, tables.load(folder)
    assert policy.allocation is not None
    missing = [j for j in workload.jobs if not j.batch or j.model not in apps]
    if missing:
        raise TraceError(
            f"--training: job {missing[0].job_id} has no batch size, or no tables for "
            f"{missing[0].model!r}; known: {', '.join(apps)}"
        )
    adapts = "goodput" in policy.needs
    node_gpus = spec.node_size()

    def make(job: TraceJob, *args: Any, **more: Any) -> TrainingJob:
        return TrainingJob(
            job, *args, app=apps[job.model], adapts=adapts, node_gpus=node_gpus, **more
        )

    round_s = scenario.round_s if scenario.round_s > 0 else policy.round_s or TRAINING_ROUND_S
    return AllotDriver(
        workload, spec, policy.allocation, Measured(), scenario.cost, round_s=round_s,
        round_start_s=scenario.round_start_s, stamp_rounds=True, make=make, label=scenario.label,
    )  # fmt: skip


def never_fits(job: TraceJob, spec: ClusterSpec) -> str:
    """Why no schedule can ever start this job, or nothing; what sbatch would refuse."""
    groups = [g for g in spec.groups if g.partition == job.partition]
    if not groups:
        return f"job {job.job_id}: no partition {job.partition}"
    groups = [g for g in groups if not job.gpu_type or g.gpu_type == job.gpu_type]
    if not groups:
        return f"job {job.job_id}: no GPUs of type {job.gpu_type}"
    nodes = job.nodes or -(-job.gpus // max(1, spec.node_size(job.gpu_type)))
    fits = [g for g in groups if g.gpus * nodes >= job.gpus
            and g.cpus * nodes >= job.cpus and g.mem_mib * nodes >= job.mem_mib]  # fmt: skip
    if sum(g.count for g in fits) < nodes:
        return f"job {job.job_id}: {job.gpus} GPUs on {nodes} nodes do not fit this cluster"
    return ""


def without_impossible(workload: Workload, spec: ClusterSpec) -> tuple[Workload, list[str]]:
    """The workload without jobs that can never run, and what was wrong with those."""
    reasons = {job.job_id: never_fits(job, spec) for job in workload.jobs}
    kept = [job for job in workload.jobs if not reasons[job.job_id]]
    return Workload.of(workload.name, kept, workload.bad), [why for why in reasons.values() if why]
