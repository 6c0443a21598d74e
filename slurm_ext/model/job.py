"""A job as Slurm shows it: identity, state, request, allocation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from .units import EpochS, GpuMask


class BaseState(StrEnum):
    """Base job states (squeue(1), JOB STATE CODES); UNKNOWN for any that is newer than us."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class JobState:
    """Base state plus flags such as COMPLETING, CONFIGURING, REQUEUED, RESIZING.

    Text output shows the first flag instead of the base: then the base is UNKNOWN.
    """

    base: BaseState
    flags: frozenset[str] = frozenset()

    @property
    def pending(self) -> bool:
        """Waiting and on no node: COMPLETING jobs still hold theirs."""
        return self.base is BaseState.PENDING and not self.completing

    @property
    def completing(self) -> bool:
        return "COMPLETING" in self.flags

    @property
    def running(self) -> bool:
        return self.base is BaseState.RUNNING

    @property
    def occupies(self) -> bool:
        """Whether the job holds resources (unknown states hold what they show as allocated)."""
        return (
            self.completing
            or self.base in (BaseState.RUNNING, BaseState.SUSPENDED, BaseState.UNKNOWN)
            or "CONFIGURING" in self.flags
            or "STAGE_OUT" in self.flags
        )

    @property
    def ended(self) -> bool:
        return not self.occupies and self.base is not BaseState.PENDING


class JobKey(NamedTuple):
    """Identity across id wrap and requeue (a requeue rewrites the submit time).

    A named tuple, not a dataclass: it is hashed and compared a few times per job and cycle.
    """

    job_id: int
    submit_s: EpochS

    def __str__(self) -> str:
        return f"{self.job_id}@{self.submit_s}"


@dataclass(frozen=True, slots=True)
class Request:
    """What a job asks for, normalised. GPU fields are 0 when not given; at most one
    of total, per node, per task is the governing one, in this order: per node, per task, total.

    ``nodes_max`` None: Slurm may spread over any number (``--gpus=12``).
    ``cpus`` is the job's total as Slurm shows it (a lower bound while pending).
    ``mem_per_node_mib`` / ``mem_per_cpu_mib``: one is set; 0 per node with ``mem_whole_node``.
    ``unplannable`` names what we cannot model (``shard``, ``switches``, …): such a job is left to
    Slurm with that as the reason.
    """

    nodes_min: int = 1
    nodes_max: int | None = None
    cpus: int = 1
    tasks: int = 1
    cpus_per_task: int = 1
    tasks_per_node: int = 0
    cpus_per_gpu: int = 0
    gpus_per_node: int = 0
    gpus_per_task: int = 0
    gpus_total: int = 0
    gpu_type: str = ""
    mem_per_node_mib: int = 0
    mem_per_cpu_mib: int = 0
    mem_per_gpu_mib: int = 0
    mem_whole_node: bool = False
    min_cpus_node: int = 1
    features: str = ""
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    exclusive: bool = False
    unplannable: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """GPUs of the whole job (per one array task), a lower bound if nodes may vary."""
        if self.gpus_per_node:
            return self.gpus_per_node * self.nodes_min
        if self.gpus_per_task:
            return self.gpus_per_task * self.tasks
        return self.gpus_total


@dataclass(frozen=True, slots=True)
class NodeShare:
    """What one job holds, or would hold, on one node.

    ``gpu_mask`` 0 with ``gpus`` > 0: count known, indices not. ``cpu_ids``: first and last of
    each range of CPUs, numbered by socket, core, thread as Slurm does; empty if not known.
    """

    node: str
    cpus: int
    mem_mib: int
    gpus: int = 0
    gpu_mask: GpuMask = 0
    gpu_type: str = ""
    cpu_ids: tuple[tuple[int, int], ...] = ()


class SlurmFactors(NamedTuple):
    """Slurm's own factors of a waiting job's priority, each 0 to 1 (sprio(1), normalised).

    Slurm works out none whose ``PriorityWeight…`` is 0 (slurm.conf(5)): that one is 0.
    """

    age: float = 0.0
    fair_share: float = 0.0
    qos: float = 0.0
    partition: float = 0.0
    size: float = 0.0
    association: float = 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """One queue record: a job, one array task, or the pending rest of an array.

    ``array_tasks`` is the raw task list of a record that stands for several pending tasks
    (``0-9%2``), with ``array_count`` its number of tasks and ``array_throttle`` 0 for none.
    ``limit_s`` None: unlimited. ``partitions`` in the order given by the user.
    ``reason`` is the token (``Resources``), ``reason_text`` all that Slurm printed.
    ``begin_s`` is the eligible time while it is ahead (``--begin``, a lease, a requeue delay).
    ``site_factor`` and ``factors`` None: not asked for, or not to be had.
    ``requeueable`` None: not shown. ``alloc``: what it holds now; ``ran_on``: the nodes of a job
    that has ended.
    """

    key: JobKey
    name: str
    user: str
    account: str
    partitions: tuple[str, ...]
    state: JobState
    request: Request
    uid: int = -1
    qos: str = ""
    reason: str = ""
    reason_text: str = ""
    priority: int = 0
    nice: int = 0
    site_factor: int | None = None
    factors: SlurmFactors | None = None
    limit_s: int | None = None
    begin_s: EpochS | None = None
    start_s: EpochS | None = None
    end_s: EpochS | None = None
    deadline_s: EpochS | None = None
    alloc: tuple[NodeShare, ...] = ()
    ran_on: tuple[str, ...] = ()
    array_job_id: int = 0
    array_task_id: int | None = None
    array_tasks: str = ""
    array_count: int = 1
    array_throttle: int = 0
    het_job_id: int = 0
    het_offset: int | None = None
    reservation: str = ""
    dependency: str = ""
    comment: str = ""
    admin_comment: str = ""
    restarts: int = 0
    batch: bool = True
    requeueable: bool | None = None
    cron: bool = False

    @property
    def job_id(self) -> int:
        return self.key.job_id

    @property
    def address(self) -> str:
        """How ``scontrol`` must be told of exactly this record (and no other array task)."""
        if self.array_task_id is not None and self.array_job_id:
            return f"{self.array_job_id}_{self.array_task_id}"
        return str(self.key.job_id)

    @property
    def held(self) -> bool:
        return self.state.pending and self.priority == 0

    @property
    def held_by_operator(self) -> bool:
        """Held as by ``scontrol hold`` of an operator, which we are.

        JobHeldUser is the owner's own, or Slurm's after a failed launch. With a sentence for a
        reason it was Slurm (``scontrol hold`` clears the sentence), whatever the token says.
        """
        by_hand = self.reason_text in ("", "JobHeldAdmin")
        return self.held and self.reason == "JobHeldAdmin" and by_hand
