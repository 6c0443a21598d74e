"""The workload of docker/workload.py in the simulator, beside a real run: ``--help``.

A real run gives its figures as a dump, ``TZ=UTC sacct -P -X -D -a -S … --format=JobIDRaw,User,
State,Submit,Start,End,ElapsedRaw,TimelimitRaw,AllocNodes,AllocTRES,JobName``. Without one only the
simulated figures are printed.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from slurm_ext.engine.settings import LeverSettings
from slurm_ext.sim import report, traces
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.compare import compare
from slurm_ext.sim.scenario import Scenario
from slurm_ext.sim.settings import SlurmSettings
from slurm_ext.sim.workload import TraceJob, Workload

ROOT = Path(__file__).resolve().parents[1]
TUNED = SlurmSettings(
    sched_interval_s=2, queue_depth=1000, submit_delay_s=1, bf_interval_s=2, bf_resolution_s=30,
    bf_max_job_test=1000,
)  # fmt: skip
"""As the mini-Slurm has it with ``--sched tuned``."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--gap", type=float, default=1.0)
    parser.add_argument("--run", type=float, default=15.0)
    parser.add_argument("--cluster", default="4x8/64/64")
    parser.add_argument("--interval", type=int, default=2, help="seconds between daemon cycles")
    parser.add_argument("--sacct", type=Path, help="dump of a real run")
    args = parser.parse_args()
    workload = as_trace(args.count, args.seed, args.gap, args.run)
    daemon = Scenario(
        "enforce",
        slurm=replace(TUNED, submit_lease_s=args.interval + 2),
        levers=LeverSettings(interval_s=args.interval, lease_s=60),
    )
    scenarios = [
        Scenario("stock"),
        Scenario("stock", slurm=TUNED),
        *(replace(daemon, policy=p) for p in ("fifo", "sjf")),
    ]
    found = compare(scenarios, [workload], ClusterSpec.parse(args.cluster))
    for table in report.tables(found, len(found)):
        Console(width=140).print(table)
    if args.sacct is not None:
        real = traces.read(args.sacct, "sacct")
        print(f"real: {len(real.jobs)} jobs with GPUs")
        for name, values in real_figures(args.sacct).items():
            print(f"{name}: {values:.1f} s")
    return 0


def as_trace(count: int, seed: int, gap_s: float, run_s: float) -> Workload:
    """What docker/workload.py submits, array tasks as jobs of their own."""
    made = runpy.run_path(str(ROOT / "docker" / "workload.py"))
    jobs: list[TraceJob] = []
    at_s = 0.0
    for item in made["items"](count, seed, gap_s, run_s):
        at_s += item.after_s
        said: dict[str, Any] = dict(a[2:].split("=", 1) for a in item.arguments)
        nodes = int(said.get("nodes", 1))
        for _ in range(4 if "array" in said else 1):
            jobs.append(
                TraceJob(
                    job_id=len(jobs) + 1,
                    submit_s=round(at_s),
                    run_s=int(said["wrap"].split()[1]),
                    gpus=int(said["gpus-per-node"]) * nodes,
                    limit_s=60 * int(said["time"]),
                    nodes=nodes,
                    cpus=int(said["cpus-per-task"]) * nodes,
                    mem_mib=int(said["mem"]) * nodes,
                )
            )
    return Workload.of(f"workload-{seed}", jobs)


def real_figures(path: Path) -> dict[str, float]:
    """Mean JCT and makespan of a dump with ``Submit`` and ``End``."""
    import pandas as pd

    rows = pd.read_csv(path, sep="|")
    submit, end = pd.to_datetime(rows["Submit"]), pd.to_datetime(rows["End"])
    return {
        "mean JCT": float((end - submit).dt.total_seconds().mean()),
        "makespan": float((end.max() - submit.min()).total_seconds()),
    }


if __name__ == "__main__":
    sys.exit(main())
