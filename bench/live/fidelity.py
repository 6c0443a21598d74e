#!/usr/bin/env python3
"""The same jobs on a real Slurm and in the simulator, side by side, for five schedulers.

``python3 bench/live/fidelity.py`` (as root, in the checkout's environment; about fifteen minutes).
Five clusters of docker/minislurm run the workload of docker/workload.py at the same time: Slurm
alone with its default settings and tuned, and the daemon with ``fifo``, ``sjf`` and
``multifactor``. Each is then simulated with the submit times and run times of its own run.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

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


def real(bed: Bed, work: Sequence[Item], out: dict[str, SimResult]) -> None:
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
    out[bed.row.name] = ran(bed.slurm("scontrol", "-o", "show", "job"), CLUSTER.gpus)


def ran(text: str, gpus: int) -> SimResult:
    """The jobs of a dump that have ended, with times since the first submit."""
    rows = [dict(re.findall(r"(\S+?)=(\S+)", line)) for line in text.splitlines() if line.strip()]
    first_s = min(epoch_s(r["SubmitTime"]) for r in rows)
    found = []
    for row in rows:
        submitted, start, end = (
            epoch_s(row[n]) - first_s for n in ("SubmitTime", "StartTime", "EndTime")
        )
        nodes = int(row["NumNodes"].split("-")[0])
        days, _, clock = row["TimeLimit"].rpartition("-")
        hours, minutes, seconds = map(int, clock.split(":"))
        spec = TraceJob(
            job_id=int(row["JobId"]),
            submit_s=submitted,
            run_s=max(1, end - start),
            gpus=nodes * int(row["TresPerNode"].rpartition(":")[2]),
            limit_s=86_400 * int(days or 0) + 3600 * hours + 60 * minutes + seconds,
            nodes=nodes,
            cpus=int(row["NumCPUs"]),
        )
        found.append(JobOutcome(spec, start, start, end))
    return SimResult("real", gpus, tuple(sorted(found, key=lambda o: o.spec.job_id)), 0)


def simulated(row: Row, seen: SimResult) -> SimResult:
    """The same submissions and run times under the same scheduler."""
    slurm = TUNED if row.sched == "tuned" else SlurmSettings(start_latency_s=0)
    slurm = replace(slurm, size_weight=1000)  # as the mini-Slurm has it
    driver, policy = "stock", "fifo"
    if row.settings is not None:
        driver, policy = "enforce", str(row.settings["policy.name"]).strip('"')
        slurm = replace(slurm, submit_lease_s=2 * INTERVAL_S + 2)  # job_submit.lua
    scenario = Scenario(driver, policy, slurm=slurm, levers=LeverSettings(interval_s=INTERVAL_S))
    return run(scenario, Workload.of("real", [o.spec for o in seen.jobs]), CLUSTER)


def correlation(one: SimResult, other: SimResult) -> float:
    """Spearman's rank correlation of the starts, job by job."""
    starts = [pd.Series([o.first_start_s for o in result.jobs]) for result in (one, other)]
    return float(starts[0].rank().corr(starts[1].rank()))


def table(rows: Sequence[Row], seen: dict[str, SimResult]) -> None:
    heads = ["mean JCT, real", "simulated", "p95 JCT, real", "simulated", "makespan, real",
             "simulated", "rank correlation of the starts"]  # fmt: skip
    print(f"\n| | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}")
    for row in rows:
        made = simulated(row, seen[row.name])
        a, b = measure(seen[row.name]).as_dict(), measure(made).as_dict()
        cells = [f"{a['jct_mean_s']:.1f} s"]
        cells.append(f"{b['jct_mean_s']:.1f} s ({b['jct_mean_s'] / a['jct_mean_s'] - 1:+.1%})")
        cells += [f"{x[key]:.0f} s" for key in ("jct_p95_s", "makespan_s") for x in (a, b)]
        cells.append(f"{correlation(seen[row.name], made):.3f}")
        print(f"| {row.name} | {' | '.join(cells)} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=150, help="submissions")
    parser.add_argument("--gap", type=float, default=4.0, help="mean seconds between them")
    parser.add_argument("--run", type=float, default=40.0, help="typical run time in seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the dumps there")
    parser.add_argument("--again", type=Path, metavar="DIR", help="simulate kept dumps again")
    args = parser.parse_args()
    seen: dict[str, SimResult] = {}
    if args.again is not None:
        for i, row in enumerate(ROWS):
            seen[row.name] = ran((args.again / f"{i}.txt").read_text(), CLUSTER.gpus)
        table(ROWS, seen)
        return 0
    work = list(items(args.count, args.seed, args.gap, args.run))
    with beds_of(ROWS, "fidelity") as beds:
        side_by_side(beds, lambda bed: real(bed, work, seen))
        if args.keep is not None:
            args.keep.mkdir(parents=True, exist_ok=True)
            for i, bed in enumerate(beds):
                (args.keep / f"{i}.txt").write_text(bed.slurm("scontrol", "-o", "show", "job"))
    table(ROWS, seen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
