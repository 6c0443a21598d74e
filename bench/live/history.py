#!/usr/bin/env python3
"""What learnt run times are worth on a real Slurm: users who repeat themselves, limits too long.

``python3 bench/live/history.py`` (as root, in the checkout's environment; about ten minutes). Four
clusters of docker/minislurm run the same submissions side by side: tuned Slurm alone, and the
daemon with policy ``sjf`` on time limits, on learnt run times for the order alone, and on learnt
run times for order and backfill (``backfill.durations = "p90"``). First a pass that nobody has
learnt from; then ``history sync`` and ``history fit`` against one of them; then a second pass with
other jobs of the same users and names. Both passes are printed.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bed import GPUS, NODES, POLL_S, Bed, Row, Span, beds_of, figures, side_by_side

USERS = ("hx-ann", "hx-bob", "hx-cem", "hx-dia")
FACTORS = (2.0, 3.4, 5.8, 10.0)
END_S = 600.0
LEARNT = "state/durations.npz"


@dataclass(frozen=True)
class Kind:
    """Work that one user does again and again."""

    user: str
    name: str
    gpus: int
    typical_s: float
    limit_min: int


@dataclass(frozen=True)
class Submission:
    at_s: float
    kind: Kind
    number: int
    run_s: int


def kinds(rng: random.Random) -> list[Kind]:
    """Four kinds a user. Each user has a habit: limits 2, 3.4, 5.8 or 10 times what is needed."""
    found = []
    for user, factor in zip(USERS, FACTORS, strict=True):
        for name in ("train", "tune", "eval", "data"):
            typical_s = math.exp(rng.uniform(math.log(12), math.log(60)))
            limit_min = max(1, round(typical_s * factor / 60))
            found.append(Kind(user, name, rng.choice((1, 1, 2, 4, 8)), typical_s, limit_min))
    return found


def submissions(seed: int, count: int, load: float, work: Sequence[Kind]) -> list[Submission]:
    """Poisson arrivals that ask for ``load`` times the cluster's GPUs."""
    rng = random.Random(seed)
    chosen = [rng.choice(work) for _ in range(count)]
    runs = [max(2, round(k.typical_s * rng.lognormvariate(0, 0.25))) for k in chosen]
    area = sum(k.gpus * r for k, r in zip(chosen, runs, strict=True))
    gap_s = area / (load * NODES * GPUS) / count
    found, at_s = [], 0.0
    for number, (kind, run_s) in enumerate(zip(chosen, runs, strict=True)):
        at_s += rng.expovariate(1 / gap_s)
        found.append(Submission(at_s, kind, number, min(run_s, kind.limit_min * 60 - 1)))
    return found


ROWS = (
    Row("Slurm alone, tuned", None),
    Row("sjf on limits", {"history.use": "false"}),
    Row("sjf on learnt run times", {"backfill.durations": '"limit"'}),
    Row("the same, backfill by p90", {"backfill.durations": '"p90"'}),
)
TEACHER = 2
"""The cluster with accounting; its history is what is learnt from."""


def submit(bed: Bed, one: Submission) -> int:
    kind = one.kind
    return int(bed.slurm(
        "runuser", "-u", kind.user, "--", "sbatch", "--parsable", "--output=/dev/null",
        f"--job-name={kind.name}_{one.number:04d}", f"--gpus-per-node={kind.gpus}",
        f"--cpus-per-task={kind.gpus}", f"--mem={kind.gpus * 500}", f"--time={kind.limit_min}",
        f"--wrap=sleep {one.run_s}",
    ))  # fmt: skip


def one_pass(bed: Bed, work: Sequence[Submission], out: dict[str, dict[str, float]]) -> None:
    """Submit all at their moments, wait for the last, note the figures."""
    with bed.daemon():
        begun = time.monotonic()
        jobs = {}
        for one in work:
            time.sleep(max(0.0, begun + one.at_s - time.monotonic()))
            jobs[submit(bed, one)] = one
        ended = bed.wait(list(jobs), END_S)
    done = {job: ran for job, ran in ended.items() if ran.state == "COMPLETED"}
    spans = [Span(r.submit_s, r.start_s, r.end_s, jobs[j].kind.gpus) for j, r in done.items()]
    out[bed.row.name] = {**figures(spans), "missing": len(jobs) - len(done)}


def await_accounting(bed: Bed, jobs: int) -> None:
    """slurmdbd learns of the last ends late."""
    end_by = time.monotonic() + END_S
    while bed.slurm("sacct", "-X", "-a", "-n", "-o", "state%20").count("COMPLETED") < jobs:
        if time.monotonic() > end_by:
            raise SystemExit("accounting does not know of all jobs; did one fail?")
        time.sleep(POLL_S)


def run(beds: Sequence[Bed], work: Sequence[Submission], title: str) -> dict[str, dict[str, float]]:
    out: dict[str, dict[str, float]] = {}
    side_by_side(beds, lambda bed: one_pass(bed, work, out))
    print(f"\n{title}: {len(work)} jobs\n")
    heads = ("mean wait s", "mean JCT s", "median JCT s", "p95 JCT s", "slowdown", "makespan s")
    print(f"| | {' | '.join(heads)} | GPU use |")
    print("|---|---|---|---|---|---|---|---|")
    for bed in beds:
        f = out[bed.row.name]
        late = f" ({f['missing']} not ended)" if f["missing"] else ""
        print(f"| {bed.row.name}{late} | {f['wait_s']:.1f} | {f['jct_s']:.1f} | "
              f"{f['jct_median_s']:.0f} | {f['jct_p95_s']:.0f} | {f['slowdown']:.2f} | "
              f"{f['makespan_s']:.0f} | {f['use']:.1%} |", flush=True)  # fmt: skip
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=150, help="jobs a pass")
    parser.add_argument("--load", type=float, default=1.6, help="GPUs asked for over GPUs there")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write all figures as JSON")
    args = parser.parse_args()
    work = kinds(random.Random(args.seed))
    with beds_of(ROWS, "history-live", users=USERS, teacher=TEACHER) as beds:
        first = run(beds, submissions(args.seed + 1, args.count, args.load, work), "first pass")
        teacher = beds[TEACHER]
        await_accounting(teacher, args.count)
        print("\n" + teacher.ours("history", "sync") + teacher.ours("history", "fit"))
        for bed in beds[TEACHER:]:
            if bed is not teacher:
                (bed.directory / LEARNT).write_bytes((teacher.directory / LEARNT).read_bytes())
        second = run(beds, submissions(args.seed + 2, args.count, args.load, work), "second pass")
        if args.keep is not None:
            args.keep.write_text(json.dumps({"first": first, "second": second}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
