#!/usr/bin/env python3
"""Elastic jobs under ``doubling``, sensitive ones under ``synergy``, on a real Slurm.

``python3 bench/live/elastic.py elastic|sensitive`` (as root, in the checkout's environment; ten to
twenty minutes). Clusters of docker/minislurm, one a scheduler, get the same submissions at the same
time. The jobs are the bundled trainer: its speed follows its GPUs (ring model) and its CPUs, it
checkpoints on the signal and goes on at another size. Nobody but the daemon reads annotations, so
elsewhere each job runs as it was submitted. The elastic jobs all ask for 8 GPUs, with a time limit
that is enough for one: on fewer GPUs than the limit allows nobody is put.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bed import GPUS, NODES, ROOT, Bed, Row, Span, beds_of, figures, side_by_side

from slurm_ext.engine.parts.speed import fit_theta

TRAINER = ROOT / "sbatch_templates" / "trainer.py"
EPOCH_S = {1: 138.0, 2: 81.9, 4: 47.25, 8: 29.6}
"""GPUs -> seconds an epoch of ResNet-110 on CIFAR-10 (Capes et al. 2018, recalled)."""
THETA = tuple(t / 1000 for t in fit_theta(list(EPOCH_S.items())))
CPUS_A_GPU = 8
"""The fair share of the mini-Slurm's nodes: 64 CPUs, 8 GPUs."""
WANTED = {"image": 12, "speech": 16, "language": 1}
"""CPUs per GPU for full speed."""
SAMPLE_S = 2.0
END_S = 3600.0

DAEMON = {
    "history.use": "false", "guard.min_runtime_before_requeue_s": 30,
    # An hour's work in minutes: the hourly budgets would end the run.
    "guard.max_requeues_per_hour": 500, "restart.max_per_job_hour": 20,
}  # fmt: skip
ALONE = (
    Row("Slurm, default settings", None, sched="default"),
    Row("Slurm, tuned", None),
    Row("`multifactor`", {**DAEMON, "policy.name": '"multifactor"'}),
    Row("`sjf`", {**DAEMON, "policy.name": '"sjf"'}),
)
ROWS = {
    "elastic": (
        *ALONE,
        *(
            Row(f"`{name}`", {**DAEMON, "policy.name": f'"{name}"'})
            for name in ("doubling", "hesrpt")
        ),
    ),
    "sensitive": (*ALONE, Row("`synergy`", {**DAEMON, "policy.name": '"synergy"'})),
}


@dataclass(frozen=True)
class Submission:
    """``words`` of the annotation; ``options`` of the trainer. ``run_s``: as submitted."""

    at_s: float
    gpus: int
    run_s: float
    limit_s: float
    words: str
    options: tuple[str, ...]


def per_unit_s(gpus: int) -> float:
    """The ring model."""
    t0, t1, t2, t3 = THETA
    return t0 / gpus + t1 * (gpus - 1) + t2 * (gpus - 1) / gpus + t3


def submissions(
    kind: str, seed: int, count: int, typical_s: float, load: float
) -> list[Submission]:
    """Log-normal run times, Poisson arrivals that ask for ``load`` times the GPUs."""
    rng = random.Random(seed)
    found: list[Submission] = []
    for _ in range(count):
        run_s = max(20.0, typical_s * rng.lognormvariate(0, 0.7))
        gpus = 8 if kind == "elastic" else rng.choice((1, 1, 2, 4))
        found.append((_elastic if kind == "elastic" else _sensitive)(rng, gpus, run_s))
    area = sum(s.gpus * s.run_s for s in found)
    gap_s = area / (load * NODES * GPUS) / count
    at_s, placed = 0.0, []
    for one in found:
        at_s += rng.expovariate(1 / gap_s)
        placed.append(replace(one, at_s=at_s))
    return placed


def _elastic(_: random.Random, gpus: int, run_s: float) -> Submission:
    work = run_s / per_unit_s(gpus)
    words = (
        f"scaling=elastic,gpus=1..8,signal=USR1,grace=10s,checkpoint_every=1m,restart_cost=8s,"
        f"work={work:.0f},theta={'/'.join(f'{t:.6g}' for t in THETA)}"
    )
    limit_s = 1.5 * work * per_unit_s(1) + 60
    options = ("--work", f"{work:.0f}", "--cpus-per-gpu", "1")
    return Submission(0, gpus, run_s, limit_s, words, options)


def _sensitive(rng: random.Random, gpus: int, run_s: float) -> Submission:
    """``run_s`` at the fair share of CPUs."""
    family = rng.choice(tuple(WANTED))
    wanted = WANTED[family]
    work = run_s / per_unit_s(gpus) * min(1.0, CPUS_A_GPU / wanted)
    words = f"sensitivity={family},cpus_per_gpu={wanted},work={work:.0f}"
    options = ("--work", f"{work:.0f}", "--cpus-per-gpu", str(wanted))
    return Submission(0, gpus, run_s, 2.5 * run_s, words, options)


SCRIPT = """#!/bin/bash
export SLURM_EXT_SPOOL={spool}
unset SLURM_GPUS_PER_NODE SLURM_NTASKS SLURM_NPROCS SLURM_CPUS_PER_TASK
{python} {trainer} --state {state}/$SLURM_JOB_ID.json --theta {theta} {options} &
trainer=$!
trap 'kill -USR1 $trainer' USR1
trap 'kill -TERM $trainer' TERM
while kill -0 $trainer 2>/dev/null; do wait $trainer; code=$?; done
exit $code
"""


def submit(bed: Bed, one: Submission) -> int:
    script = SCRIPT.format(
        spool=bed.directory / "spool", python=sys.executable, trainer=TRAINER,
        state=bed.directory / "checkpoints", theta=" ".join(f"{t:.6g}" for t in THETA),
        options=" ".join(one.options),
    )  # fmt: skip
    return int(bed.slurm(
        "sbatch", "--parsable", "--output=/dev/null", "--requeue", "--chdir=/tmp", "--ntasks=1",
        f"--gpus-per-node={one.gpus}", f"--cpus-per-task={one.gpus * CPUS_A_GPU}",
        f"--mem={one.gpus * 1000}", f"--time={max(1, round(one.limit_s / 60))}",
        f"--comment=slurm_ext:{one.words}", text=script,
    ))  # fmt: skip


def held(bed: Bed) -> int:
    """GPUs in use now."""
    rows = re.findall(
        r"gpu(?::[^:\s]+)?:(\d+) (\d+)", bed.slurm("squeue", "-h", "-t", "R", "-o", "%b %D")
    )
    return sum(int(gpus) * int(nodes) for gpus, nodes in rows)


def one_pass(bed: Bed, work: Sequence[Submission], out: dict[str, dict[str, float]]) -> None:
    """Submit all at their moments, wait for the last, note the figures."""
    for name in ("spool", "checkpoints"):
        (bed.directory / name).mkdir()
    with bed.daemon():
        begun, clock = time.monotonic(), time.time()
        due = list(work)
        jobs: dict[int, Submission] = {}
        area, sampled = 0.0, begun
        while time.monotonic() - begun < END_S:
            while due and begun + due[0].at_s <= time.monotonic():
                one = due.pop(0)
                jobs[submit(bed, one)] = one
            now = time.monotonic()
            area += held(bed) * (now - sampled)
            sampled = now
            if not due and len(bed.ended()) == len(work):
                break
            time.sleep(min(SAMPLE_S, max(0.0, begun + due[0].at_s - now) if due else SAMPLE_S))
    done = {job: ran for job, ran in bed.ended().items() if ran.state == "COMPLETED"}
    # A requeue rewrites the submit time: it is that of the submission that counts.
    spans = [Span(clock + jobs[j].at_s, r.start_s, r.end_s, jobs[j].gpus) for j, r in done.items()]
    out[bed.row.name] = {
        **figures(spans), "missing": len(work) - len(done), "gpu_s": area,
        "use": area / (NODES * GPUS * (max(s.end_s for s in spans) - clock)),
        "restarts": sum(ran.restarts for ran in done.values()),
    }  # fmt: skip


def report(rows: Sequence[Row], out: dict[str, dict[str, float]]) -> None:
    heads = (
        "mean JCT s",
        "median JCT s",
        "p95 JCT s",
        "makespan s",
        "GPU use",
        "GPU-hours",
        "restarts",
    )
    print(f"\n| | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}")
    for row in rows:
        f = out[row.name]
        late = f" ({f['missing']:.0f} not completed)" if f["missing"] else ""
        print(f"| {row.name}{late} | {f['jct_s']:.1f} | {f['jct_median_s']:.0f} | "
              f"{f['jct_p95_s']:.0f} | {f['makespan_s']:.0f} | {f['use']:.1%} | "
              f"{f['gpu_s'] / 3600:.2f} | {f['restarts']:.0f} |", flush=True)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(ROWS))
    parser.add_argument("--count", type=int, default=60, help="jobs")
    parser.add_argument("--typical", type=float, default=90.0, help="run time as submitted, s")
    parser.add_argument("--load", type=float, default=1.5, help="GPUs asked for over GPUs there")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", help="contenders with one of these in their names, comma-separated"
    )
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="keep the daemons' logs there")
    args = parser.parse_args()
    work = submissions(args.kind, args.seed, args.count, args.typical, args.load)
    rows = [
        row
        for row in ROWS[args.kind]
        if not args.only or any(word in row.name for word in args.only.split(","))
    ]
    out: dict[str, dict[str, float]] = {}
    with beds_of(rows, "elastic") as beds:
        side_by_side(beds, lambda bed: one_pass(bed, work, out))
        if args.logs is not None:
            args.logs.mkdir(parents=True, exist_ok=True)
            for i, bed in enumerate(beds):
                log = bed.directory / "daemon.log"
                if log.exists():
                    (args.logs / f"{i}.log").write_bytes(log.read_bytes())
    report(rows, out)
    if args.keep is not None:
        args.keep.write_text(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
