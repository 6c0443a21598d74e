"""What a user declares about a job beyond what Slurm asks: all optional, all for this job only."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Scaling:
    """Which GPU counts the job can use.

    ``kind``: ``fixed``; ``moldable`` (any of the counts, chosen before the first start);
    ``elastic`` (may be changed by checkpoint and restart). ``min_gpus`` .. ``max_gpus`` of the
    whole job, 0: as submitted. ``powers_of_two``: only such counts.
    ``logical_workers``: counts must divide it (0: any).
    """

    kind: str = "fixed"
    min_gpus: int = 0
    max_gpus: int = 0
    powers_of_two: bool = True
    logical_workers: int = 0


def gpu_counts(low: int, high: int, *, powers_of_two: bool, logical_workers: int) -> list[int]:
    """GPU counts from ``low`` to ``high`` that the two rules allow, ascending."""
    return [
        n
        for n in range(max(1, low), high + 1)
        if (not powers_of_two or n & (n - 1) == 0)
        and (not logical_workers or logical_workers % n == 0)
    ]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How the job saves its state.

    ``signal`` (sbatch(1) --signal name, without SIG) goes to the batch shell (``to`` = ``batch``)
    or the steps (``steps``); the job has ``grace_s`` to acknowledge. ``interval_s``: between the
    job's own checkpoints (0: none of its own). ``restart_s``: start-up cost when it resumes.
    """

    signal: str = ""
    to: str = "batch"
    grace_s: int = 60
    interval_s: int = 0
    restart_s: int = 30


@dataclass(frozen=True, slots=True)
class Speed:
    """Progress per second against the GPU count, for one job.

    ``table``: (GPUs, units of work per second), ascending. ``theta``: parameters of the ring
    model, seconds per unit of work = t0/w + t1(w-1) + t2(w-1)/w + t3 (papers: Capes et al. 2018);
    empty when not given.
    """

    table: tuple[tuple[int, float], ...] = ()
    theta: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What CPUs and memory do for the job's speed.

    ``kind``: ``image``, ``speech``, ``language`` or empty. ``cpus_per_gpu`` / ``mem_mib_per_gpu``:
    the smallest amounts at which it runs at full speed, 0 for not known.
    """

    kind: str = ""
    cpus_per_gpu: int = 0
    mem_mib_per_gpu: int = 0


@dataclass(frozen=True, slots=True)
class Annotation:
    """The checked annotation of one job.

    ``deadline_s``: epoch second by which it should have ended, 0 for none. ``work``: units (steps
    or epochs, as the user counts) in all, 0 for not known. ``gpu_mem_mib``: needed per GPU.
    ``locality``: ``""``, ``node``, ``island`` or ``leaf``, a wish. ``debug``: asks for the
    interactive lane.
    """

    scaling: Scaling = field(default_factory=Scaling)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    speed: Speed = field(default_factory=Speed)
    sensitivity: Sensitivity = field(default_factory=Sensitivity)
    preemptible: bool = False
    deadline_s: int = 0
    family: str = ""
    work: float = 0.0
    communication: str = ""
    model_mib: int = 0
    locality: str = ""
    gpu_mem_mib: int = 0
    debug: bool = False
