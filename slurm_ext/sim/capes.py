"""The workload of Capes et al. (2018): ResNet-110 on CIFAR-10 on up to 8 GPUs, Poisson arrivals.

Epoch times, mean gaps and job counts are recalled from the paper, not checked against it.
"""

from __future__ import annotations

from random import Random

from .errors import TraceError
from .workload import TraceJob, Workload

EPOCHS = 160
EPOCH_S = {1: 138.0, 2: 81.9, 4: 47.25, 8: 29.6}
"""GPUs -> seconds an epoch."""

SPEED = " ".join(f"{gpus}:{1 / seconds:.9g}" for gpus, seconds in EPOCH_S.items())
ARRIVALS = {"extreme": (250.0, 206), "moderate": (500.0, 114), "none": (1000.0, 44)}
"""Contention -> mean seconds between arrivals, jobs."""


def capes(contention: str, seed: int, gpus: int = 8) -> Workload:
    """A seeded workload of jobs that ask for ``gpus`` GPUs; the cluster has 64.

    :raises TraceError: unknown contention or size.
    """
    if contention not in ARRIVALS:
        raise TraceError(f"contention {contention!r}: one of {', '.join(ARRIVALS)}")
    if gpus not in EPOCH_S:
        raise TraceError(f"{gpus} GPUs: one of {', '.join(map(str, EPOCH_S))}")
    rng = Random(seed)
    mean_s, count = ARRIVALS[contention]
    at_s, jobs = 0.0, []
    for number in range(1, count + 1):
        at_s += rng.expovariate(1 / mean_s)
        run_s = round(EPOCHS * EPOCH_S[gpus])
        jobs.append(
            TraceJob(number, int(at_s), run_s, gpus, run_s, model="resnet110", restart_s=10,
                     checkpoint_s=round(EPOCH_S[8]), speed=SPEED)
        )  # fmt: skip
    return Workload.of(f"capes-{contention}-{seed}", jobs)
