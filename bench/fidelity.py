"""A real run on the mini-Slurm and the same jobs in the simulator, side by side: ``--help``.

``scontrol -o show job > FILE`` after a run of docker/workload.py (cluster started with ``--param
MinJobAge=7200``, so that nothing is forgotten). Submit times and run times are those of the run.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np

from slurm_ext.engine.settings import LeverSettings
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.metrics import measure
from slurm_ext.sim.outcome import JobOutcome, SimResult
from slurm_ext.sim.scenario import Scenario, run
from slurm_ext.sim.settings import SlurmSettings
from slurm_ext.sim.workload import TraceJob, Workload

TUNED = SlurmSettings(
    sched_interval_s=2, queue_depth=1000, submit_delay_s=1, bf_interval_s=2, bf_resolution_s=30,
    bf_max_job_test=1000, start_latency_s=0,
)  # fmt: skip
"""As the mini-Slurm has it with ``--sched tuned``; start latency is part of the run times."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", type=Path, help="output of 'scontrol -o show job'")
    parser.add_argument("--cluster", default="4x8/64/500")
    parser.add_argument("--driver", default="stock", choices=["stock", "enforce"])
    parser.add_argument("--policy", default="fifo")
    parser.add_argument("--default-sched", action="store_true", help="Slurm's default settings")
    parser.add_argument("--interval", type=int, default=2, help="seconds between daemon cycles")
    args = parser.parse_args()
    real = ran(args.jobs.read_text(encoding="utf-8"), ClusterSpec.parse(args.cluster).gpus)
    slurm = SlurmSettings(start_latency_s=0) if args.default_sched else TUNED
    if args.driver == "enforce":  # job_submit.lua lets new jobs wait for the next cycle
        slurm = replace(slurm, submit_lease_s=args.interval + 2)
    scenario = Scenario(
        args.driver, args.policy, slurm=slurm, levers=LeverSettings(interval_s=args.interval)
    )
    workload = Workload.of("real", [o.spec for o in real.jobs])
    made = run(scenario, workload, ClusterSpec.parse(args.cluster))
    print(f"{'':24}{'real':>10}{'simulated':>12}")
    a, b = measure(real).as_dict(), measure(made).as_dict()
    for name in ("jobs", "jct_mean_s", "jct_median_s", "jct_p95_s", "makespan_s", "utilisation"):
        print(f"{name:24}{a[name]:>10.3f}{b[name]:>12.3f}")
    print(f"rank correlation of the starts, job by job: {correlation(real, made):.3f}")
    return 0


def ran(text: str, gpus: int) -> SimResult:
    """The jobs of a dump that have ended, with times since the first submit."""
    rows = [dict(re.findall(r"(\S+?)=(\S+)", line)) for line in text.splitlines() if line.strip()]
    first_s = min(_moment(r["SubmitTime"]) for r in rows)
    found = []
    for row in rows:
        submit, start, end = (
            _moment(row[n]) - first_s for n in ("SubmitTime", "StartTime", "EndTime")
        )
        nodes = int(row["NumNodes"].split("-")[0])
        days, _, clock = row["TimeLimit"].rpartition("-")
        hours, minutes, seconds = map(int, clock.split(":"))
        spec = TraceJob(
            job_id=int(row["JobId"]),
            submit_s=submit,
            run_s=max(1, end - start),
            gpus=nodes * int(row["TresPerNode"].rpartition(":")[2]),
            limit_s=86_400 * int(days or 0) + 3600 * hours + 60 * minutes + seconds,
            nodes=nodes,
            cpus=int(row["NumCPUs"]),
        )
        found.append(JobOutcome(spec, start, start, end))
    return SimResult("real", gpus, tuple(sorted(found, key=lambda o: o.spec.job_id)), 0)


def _moment(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def correlation(one: SimResult, other: SimResult) -> float:
    """Spearman's rank correlation of first starts."""
    ranks = [
        np.argsort(np.argsort([o.first_start_s for o in result.jobs], kind="stable"))
        for result in (one, other)
    ]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


if __name__ == "__main__":
    sys.exit(main())
