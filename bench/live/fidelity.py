#!/usr/bin/env python3
"""The same jobs on a real Slurm and in the simulator, side by side, for five schedulers.

``python3 bench/live/fidelity.py`` (as root, in the checkout's environment; about 25 minutes).
Five clusters of docker/minislurm run the workload of docker/workload.py at the same time: Slurm
alone with its default settings and tuned, and the daemon with ``fifo``, ``sjf`` and
``multifactor``; ``--repeat 4`` runs four of each, to see how far real runs differ. Each is then
simulated with the submit and run times of its own run. Slurm tells these in whole seconds: each is
shifted by up to one, in several seeds.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from statistics import fmean

import pandas as pd
from bed import GPUS, NODES, ROOT, Bed, Row, beds_of, epoch_s, side_by_side

from slurm_ext.engine.settings import LeverSettings
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.metrics import measure
from slurm_ext.sim.outcome import JobOutcome, SimResult
from slurm_ext.sim.scenario import Scenario, run
from slurm_ext.sim.settings import SlurmSettings
from slurm_ext.sim.workload import TraceJob, Workload

sys.path.insert(0, str(ROOT / "docker"))
from workload import Item, items, submit

ROWS = (
    Row("Slurm, default settings", None, sched="default"),
    Row("Slurm, tuned", None),
    Row("`fifo`", {"policy.name": '"fifo"'}),
    Row("`sjf`", {"policy.name": '"sjf"', "history.use": "false"}),
    Row("`multifactor`", {"policy.name": '"multifactor"', "history.use": "false"}),
)
CLUSTER = ClusterSpec.parse(f"{NODES}x{GPUS}/64/500")
INTERVAL_S = 2
END_S = 3600.0
TUNED = SlurmSettings(
    sched_interval_s=2, queue_depth=1000, submit_delay_s=1, bf_interval_s=2, bf_resolution_s=30,
    bf_max_job_test=1000, start_latency_s=0,
)  # fmt: skip
"""As the mini-Slurm has it with ``--sched tuned``; start latency is part of the run times."""


def real(bed: Bed, work: Sequence[Item]) -> None:
    """Submit all at their moments and wait for the last."""
    with bed.daemon():
        due = time.monotonic()
        jobs = []
        for item in work:
            due += item.after_s
            time.sleep(max(0.0, due - time.monotonic()))
            jobs.append(int(submit(item, bed.env)))
        ended = bed.wait(jobs, END_S)
        if len(ended) < len(jobs):
            raise SystemExit(f"{bed.row.name}: {len(jobs) - len(ended)} jobs have not ended")


def ran(text: str, gpus: int) -> SimResult:
    """The jobs of a dump that have ended, with times since the first submit."""
    rows = [dict(re.findall(r"(\S+?)=(\S+)", line)) for line in text.splitlines() if line.strip()]
    rows.sort(key=_age)
    first_s = epoch_s(rows[0]["SubmitTime"])
    found = []
    for number, row in enumerate(rows, 1):
        submitted, start, end = (
            epoch_s(row[n]) - first_s for n in ("SubmitTime", "StartTime", "EndTime")
        )
        nodes = int(row["NumNodes"].split("-")[0])
        days, _, clock = row["TimeLimit"].rpartition("-")
        hours, minutes, seconds = map(int, clock.split(":"))
        spec = TraceJob(
            job_id=number,
            submit_s=submitted,
            run_s=max(1, end - start),
            gpus=nodes * int(row["TresPerNode"].rpartition(":")[2]),
            limit_s=86_400 * int(days or 0) + 3600 * hours + 60 * minutes + seconds,
            nodes=nodes,
            cpus=int(row["NumCPUs"]),
        )
        found.append(JobOutcome(spec, start, start, end))
    return SimResult("real", gpus, tuple(found), 0)


def _age(row: dict[str, str]) -> tuple[str, int, int]:
    """What Slurm sorts equal priorities by; tasks of an array get job ids as they start."""
    array = row.get("ArrayJobId", row["JobId"])
    return row["SubmitTime"], int(array), int(row.get("ArrayTaskId", "0"))


def simulated(row: Row, seen: SimResult, seed: int) -> SimResult:
    """The same submissions and run times under the same scheduler."""
    slurm = TUNED if row.sched == "tuned" else SlurmSettings(start_latency_s=0)
    slurm = replace(slurm, size_weight=1000)  # as the mini-Slurm has it
    driver, policy = "stock", "fifo"
    if row.settings is not None:
        driver, policy = "enforce", str(row.settings["policy.name"]).strip('"')
        slurm = replace(slurm, submit_lease_s=2 * INTERVAL_S + 2)  # job_submit.lua
    scenario = Scenario(driver, policy, slurm=slurm, levers=LeverSettings(interval_s=INTERVAL_S))
    rng = random.Random(seed)
    jobs = [
        replace(o.spec, submit_s=o.spec.submit_s + rng.randint(0, 1),
                run_s=o.spec.run_s + rng.randint(0, 1))
        for o in seen.jobs
    ]  # fmt: skip
    return run(scenario, Workload.of("real", jobs), CLUSTER)


def correlation(one: SimResult, other: SimResult) -> float:
    """Spearman's rank correlation of the starts, job by job."""
    starts = [pd.Series([o.first_start_s for o in result.jobs]) for result in (one, other)]
    return float(starts[0].rank().corr(starts[1].rank()))


def table(seen: dict[str, list[SimResult]], seeds: int) -> None:
    heads = ["mean JCT, real", "simulated", "p95 JCT, real", "simulated", "makespan, real",
             "simulated", "rank correlation of the starts: real, real", "simulated, real",
             "simulated, simulated"]  # fmt: skip
    print(f"\n| | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}")
    for row in ROWS:
        runs = seen.get(row.name)
        if runs is None:
            continue
        made = [simulated(row, runs[seed % len(runs)], seed) for seed in range(seeds)]
        cells = []
        for key in ("jct_mean_s", "jct_p95_s", "makespan_s"):
            a, b = ([measure(x).as_dict()[key] for x in side] for side in (runs, made))
            cells += [spread(a), f"{spread(b)}, {fmean(b) / fmean(a) - 1:+.1%}"]
        cells += [alike(combinations(runs, 2)), alike(product(made, runs)),
                  alike(combinations(made, 2))]  # fmt: skip
        print(f"| {row.name} | {' | '.join(cells)} |", flush=True)


def spread(values: Sequence[float]) -> str:
    """Mean, and the range if there is one."""
    low, high = min(values), max(values)
    return f"{fmean(values):.0f} s" + (f" ({low:.0f} to {high:.0f})" if len(values) > 1 else "")


def alike(pairs: Iterable[tuple[SimResult, SimResult]]) -> str:
    found = [correlation(a, b) for a, b in pairs]
    return f"{fmean(found):.3f}" if found else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=150, help="submissions")
    parser.add_argument("--gap", type=float, default=4.0, help="mean seconds between them")
    parser.add_argument("--run", type=float, default=40.0, help="typical run time in seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=[r.name for r in ROWS], metavar="ROW")
    parser.add_argument("--repeat", type=int, default=1, help="real runs of each row")
    parser.add_argument("--seeds", type=int, default=16, help="simulations of each row")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the dumps there")
    parser.add_argument("--again", type=Path, metavar="DIR", help="simulate kept dumps again")
    args = parser.parse_args()
    seen: dict[str, list[SimResult]] = {}
    if args.again is not None:
        for row in ROWS:
            for path in sorted(args.again.glob(f"{ROWS.index(row)}-*.txt")):
                seen.setdefault(row.name, []).append(ran(path.read_text(), CLUSTER.gpus))
        table(seen, args.seeds)
        return 0
    work = list(items(args.count, args.seed, args.gap, args.run))
    rows = [row for row in ROWS if args.only is None or row.name in args.only] * args.repeat
    with beds_of(rows, "fidelity") as beds:
        side_by_side(beds, lambda bed: real(bed, work))
        for number, bed in enumerate(beds):
            dump = bed.slurm("scontrol", "-o", "show", "job")
            seen.setdefault(bed.row.name, []).append(ran(dump, CLUSTER.gpus))
            if args.keep is not None:
                args.keep.mkdir(parents=True, exist_ok=True)
                (args.keep / f"{ROWS.index(bed.row)}-{number}.txt").write_text(dump)
    table(seen, args.seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
