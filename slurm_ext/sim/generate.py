"""Seeded synthetic deep-learning workloads with the shape of published clusters.

Sources: sizes and durations as counted in the Philly log (Jeon et al., ATC 2019); class split
image/language/speech 20/70/10 and models after Synergy (Mohan et al., OSDI 2022); limits 2-10
times too long, in the steps people write. ``random.Random``: the same seed gives the same
workload on every machine and Python version.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from random import Random

from .cluster import ClusterSpec
from .errors import TraceError
from .workload import TraceJob, Workload

DAY_S = 86_400

LIMIT_STEPS_S = tuple(60 * m for m in (
    5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440, 2160, 2880, 4320, 5760,
    7200, 10080, 14400, 20160, 28800, 43200,
))  # fmt: skip
"""Time limits people write, up to 30 days."""

MODELS = {
    "image": ("alexnet", "shufflenet", "resnet18", "mobilenet", "resnet50"),
    "language": ("gnmt", "transformer", "lstm"),
    "speech": ("m5", "deepspeech"),
}

EFFICIENCY = {"image": 0.9, "language": 0.8, "speech": 0.95}
"""Speed of elastic jobs grows with the GPU count to this power; assumed, not measured."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a workload looks like; the defaults are Philly's, with run times of at most 10 days.

    ``load``: GPU time asked for over GPU time there is, while jobs arrive; it sets the time span.
    ``ln_mean`` / ``ln_sd``: of the logarithm of run time in seconds; several-GPU jobs run
    ``wide_factor`` times as long. ``swing``: the busiest hour has (1+swing) times the mean rate,
    the quietest (1-swing). ``limit_min`` / ``limit_max``: limit over run time, log-uniform.
    ``users``: their activity follows Zipf's law. ``elastic``: share of jobs that can change their
    number of GPUs, from one to twice what they ask for; see :data:`EFFICIENCY`.
    """

    jobs: int = 1000
    load: float = 0.9
    sizes: tuple[tuple[int, float], ...] = (
        (1, 0.80), (2, 0.025), (4, 0.06), (8, 0.098), (16, 0.017),
    )  # fmt: skip
    ln_mean: float = 6.3
    ln_sd: float = 2.9
    wide_factor: float = 2.5
    run_min_s: int = 10
    run_max_s: int = 10 * DAY_S
    swing: float = 0.5
    peak_hour: float = 15.0
    limit_min: float = 2.0
    limit_max: float = 10.0
    users: int = 40
    classes: tuple[tuple[str, float], ...] = (("image", 0.2), ("language", 0.7), ("speech", 0.1))
    checkpoint_s: int = 1800
    restart_s: int = 60
    elastic: float = 0.3

    def problems(self) -> list[str]:
        """What is wrong with these numbers."""
        found = []
        if self.jobs < 1:
            found.append("jobs: at least 1")
        if not 0 < self.load < math.inf:
            found.append("load: above 0 and finite")
        if not 0 <= self.swing < 1:
            found.append("swing: from 0 to below 1")
        if not 1 <= self.limit_min <= self.limit_max:
            found.append("limit_min, limit_max: 1 <= min <= max")
        if not 0 < self.run_min_s <= self.run_max_s:
            found.append("run_min_s, run_max_s: 0 < min <= max")
        if not self.sizes or any(g < 1 or w < 0 for g, w in self.sizes):
            found.append("sizes: GPUs of at least 1 with weights of at least 0")
        if not 0 <= self.elastic <= 1:
            found.append("elastic: from 0 to 1")
        if self.users < 1:
            found.append("users: at least 1")
        return found


def generate(shape: Shape, spec: ClusterSpec, seed: int) -> Workload:
    """A workload for a cluster; sizes above its number of GPUs are left out of the mix.

    :raises TraceError: the shape cannot be.
    """
    problems = shape.problems()
    sizes = [(g, w) for g, w in shape.sizes if g <= spec.gpus]
    if not problems and sum(w for _, w in sizes) <= 0:
        problems.append(f"sizes: none fits {spec.gpus} GPUs")
    if problems:
        raise TraceError("\n".join(problems))
    rng, other = Random(seed), Random(f"elastic {seed}")
    drawn = [_size_and_run(shape, sizes, rng) for _ in range(shape.jobs)]
    work_gpu_s = sum(gpus * run_s for gpus, run_s in drawn)
    span_s = work_gpu_s / (spec.gpus * shape.load)
    arrivals = sorted(_arrival(shape, span_s, rng) for _ in range(shape.jobs))
    weights = [1 / (rank + 1) for rank in range(shape.users)]
    jobs = []
    for number, ((gpus, run_s), submit_s) in enumerate(zip(drawn, arrivals, strict=True), 1):
        family = _weighted(shape.classes, rng)
        jobs.append(
            TraceJob(
                job_id=number,
                submit_s=submit_s,
                run_s=run_s,
                gpus=gpus,
                limit_s=_limit(shape, run_s, rng),
                user=f"user{rng.choices(range(shape.users), weights)[0]:03d}",
                model=rng.choice(MODELS.get(family, (family,))),
                checkpoint_s=shape.checkpoint_s,
                restart_s=shape.restart_s,
                speed=_curve(gpus, family) if other.random() < shape.elastic else "",
            )
        )
    return Workload.of(f"generated-{seed}", jobs)


def _size_and_run(shape: Shape, sizes: list[tuple[int, float]], rng: Random) -> tuple[int, int]:
    gpus = rng.choices([g for g, _ in sizes], [w for _, w in sizes])[0]
    run = math.exp(rng.gauss(shape.ln_mean, shape.ln_sd)) * (shape.wide_factor if gpus > 1 else 1.0)
    return gpus, round(min(max(run, shape.run_min_s), shape.run_max_s))


def _arrival(shape: Shape, span_s: float, rng: Random) -> int:
    """A moment of the span, thinned by the hour of the day (rejection sampling)."""
    while True:
        at_s = rng.random() * span_s
        hours = at_s / 3600 - shape.peak_hour
        rate = (1 + shape.swing * math.cos(hours / 24 * 2 * math.pi)) / (1 + shape.swing)
        if rng.random() < rate:
            return int(at_s)


def _curve(gpus: int, family: str) -> str:
    """Powers of two up to twice the size, and the size itself."""
    counts = sorted({gpus, *(1 << i for i in range(int(math.log2(2 * gpus)) + 1))})
    power = EFFICIENCY.get(family, 0.8)
    return " ".join(f"{count}:{count**power:.4g}" for count in counts)


def _limit(shape: Shape, run_s: int, rng: Random) -> int:
    """The next step people write at or above a multiple of the run time."""
    low, high = math.log(shape.limit_min), math.log(shape.limit_max)
    wanted = run_s * math.exp(rng.uniform(low, high))
    position = bisect_left(LIMIT_STEPS_S, wanted)
    return LIMIT_STEPS_S[position] if position < len(LIMIT_STEPS_S) else math.ceil(wanted)


def _weighted(choices: tuple[tuple[str, float], ...], rng: Random) -> str:
    return rng.choices([c for c, _ in choices], [w for _, w in choices])[0]
