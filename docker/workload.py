"""A small seeded workload of deep-learning-like jobs, submitted to whatever SLURM_CONF names."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

SIZES = (1, 1, 1, 2, 2, 4, 8)


@dataclass(frozen=True)
class Item:
    """One submission: ``after_s`` seconds after the one before."""

    after_s: float
    arguments: tuple[str, ...]


def items(count: int, seed: int, mean_gap_s: float, mean_run_s: float) -> Iterator[Item]:
    """Powers of two, log-normal run times, limits one and a half to four times too long."""
    rng = random.Random(seed)
    for number in range(count):
        gpus = rng.choice(SIZES)
        run_s = max(2, round(rng.lognormvariate(0, 0.8) * mean_run_s))
        limit_min = max(1, round(run_s * rng.uniform(1.5, 4) / 60))
        arguments = [
            f"--job-name={rng.choice(('resnet', 'bert', 'gpt', 'probe'))}{number % 7}",
            f"--gpus-per-node={gpus}",
            f"--cpus-per-task={gpus * rng.choice((1, 2, 4))}",
            f"--mem={gpus * 1000}",
            f"--time={limit_min}",
            f"--wrap=sleep {run_s}",
        ]
        if gpus == 8 and rng.random() < 0.3:
            arguments.append("--nodes=2")
        if rng.random() < 0.05:
            arguments.append("--array=0-3")
        yield Item(rng.expovariate(1 / mean_gap_s) if mean_gap_s else 0.0, tuple(arguments))


def submit(item: Item, env: Mapping[str, str] | None = None) -> str:
    """Submit one to the cluster of the environment; returns the job id."""
    command = ["sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp", *item.arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    return done.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gap", type=float, default=1.0, help="mean seconds between submissions")
    parser.add_argument("--run", type=float, default=15.0, help="typical run time in seconds")
    args = parser.parse_args()
    for item in items(args.count, args.seed, args.gap, args.run):
        time.sleep(item.after_s)
        print(submit(item), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
