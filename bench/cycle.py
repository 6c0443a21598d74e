#!/usr/bin/env python3
"""A whole cycle from observe to plan on a real Slurm, beside slurmctld's own backfill.

Starts a real Slurm (docker/minislurm), fills it, queues jobs that all want to run, and
measures one process that observes and decides as the daemon does (mode enforce, nothing sent).
slurmctld's backfill keeps its locks for up to bf_yield_interval, and every reader of jobs waits
for them: so the looks come at random moments, each beside a query for one job that shows the
wait alone, and alternate with a bare `squeue -h -o %i`. The figures of slurmctld's backfill on the
same queue come from sdiag.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "bench"))

from observe import MINISLURM, load, submit  # noqa: E402

from slurm_ext.daemon.config import load as load_config  # noqa: E402
from slurm_ext.daemon.runner import Runner  # noqa: E402
from slurm_ext.slurm.cli import CliSlurm  # noqa: E402

SCRIPT = ["--wrap", "exec sleep 86400"]


def fill(nodes: int, pending: int) -> None:
    """Occupy most GPUs, then queue a mixed backlog."""
    rng = random.Random(1)
    work = [["-N1", "--gres=gpu:7", "-c7", "--mem=8000", "-t", "1-0", *SCRIPT]] * nodes
    for i in range(pending):
        size = rng.choice((1, 2, 2, 4, 8, 8))
        count = rng.choice((1, 1, 1, 2, 4))
        limit = rng.choice(("30", "120", "600", "1-0"))
        work.append(
            [f"-N{count}", f"--gpus-per-node={size}", f"-c{size}", f"--mem={size * 1000}",
             "-t", limit, "-J", f"job{i}", *SCRIPT]
        )  # fmt: skip
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(submit, work))


def timed(argv: list[str]) -> float:
    """Seconds a command takes."""
    begun = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def cpu_s() -> float:
    """CPU seconds of this process and of the commands it has started so far."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def measure(cycles: int, policy: str, job_id: str) -> dict[str, object]:
    """Durations of each cycle in seconds and the peak memory, in this process."""
    rng = random.Random(2)
    config = load_config(Path("/dev/null"), {"mode": "enforce", "policy.name": policy})
    runner = Runner(config, CliSlurm(), None, dry_run=True)
    rows = []
    with ThreadPoolExecutor(1) as pool:
        for _ in range(cycles):
            time.sleep(rng.uniform(0, 4))
            bare = timed(["squeue", "-h", "-o", "%i"])
            time.sleep(rng.uniform(0, 4))
            wait = pool.submit(timed, ["scontrol", "show", "job", job_id])
            before = cpu_s()
            result = runner.run()
            used = cpu_s() - before
            rows.append({**result.durations_s, "wait": wait.result(), "bare": bare, "cpu": used})
    own = resource.getrusage(resource.RUSAGE_SELF)
    clients = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "rows": rows,
        "jobs": len(result.observation.jobs),
        "planned": len(result.plan.order),
        "rss_mib": own.ru_maxrss // 1024,
        "client_rss_mib": clients.ru_maxrss // 1024,
    }


def backfill_rate() -> str:
    """What sdiag says of slurmctld's own backfill."""
    text = subprocess.run(["sdiag"], capture_output=True, text=True, check=True).stdout
    part = text[text.find("Backfilling stats") :]
    values = {
        name: int(found.group(1))
        for name, pattern in (
            ("cycle_us", r"Last cycle: (\d+)"),
            ("tried", r"Last depth cycle \(try sched\): (\d+)"),
        )
        if (found := re.search(pattern, part))
    }
    if not values.get("cycle_us"):
        return "slurmctld has not finished a backfill cycle"
    rate = values.get("tried", 0) / (values["cycle_us"] / 1e6)
    return (
        f"slurmctld backfill: {values.get('tried', 0)} jobs tried in "
        f"{values['cycle_us'] / 1e6:.2f} s: {rate:.0f} jobs/s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="20 nodes, 300 pending jobs")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pending", type=int)
    parser.add_argument("--cycles", type=int, default=16)
    parser.add_argument("--policy", default="sjf")
    parser.add_argument("--sched", choices=("tuned", "default"), default="tuned",
                        help="slurmctld's scheduler parameters")  # fmt: skip
    parser.add_argument("--param", action="append", default=[], metavar="KEY=VALUE",
                        help="a slurm.conf setting; KEY+=VALUE extends a comma list")  # fmt: skip
    parser.add_argument("--conf", help="slurm.conf of a cluster to measure as it is")
    parser.add_argument("--measure", metavar="JOB", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.cycles, args.policy, args.measure)))
        return 0
    if args.conf:
        os.environ["SLURM_CONF"] = args.conf
        report(args)
        return 0
    nodes, pending = (20, 300) if args.small else (500, 10_000)
    nodes, pending = args.nodes or nodes, args.pending or pending
    with tempfile.TemporaryDirectory(prefix="slurm_ext-bench-") as place:
        up = ["up", "--dir", place, "--nodes", str(nodes), "--gpus", "8", "--sched", args.sched]
        up += ["--max-jobs", str(2 * (pending + nodes)), "--timeout", "600"]
        up += [f"--param={setting}" for setting in args.param]
        subprocess.run([*MINISLURM, *up], check=True)
        try:
            os.environ["SLURM_CONF"] = f"{place}/etc/slurm.conf"
            begun = time.monotonic()
            fill(nodes, pending)
            print(f"{nodes} + {pending} jobs submitted in {time.monotonic() - begun:.0f} s")
            report(args)
        finally:
            subprocess.run([*MINISLURM, "down", "--dir", place, "--grace", "0"], check=False)
    return 0


def spread(values: list[float]) -> str:
    """Least, median and largest value."""
    ordered = sorted(values)
    shown = (ordered[0], ordered[len(ordered) // 2], ordered[-1])
    return " ".join(f"{value:>8.3f}" for value in shown)


def report(args: argparse.Namespace) -> None:
    job_id = subprocess.run(
        ["squeue", "-h", "-t", "PD", "-o", "%i"], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    argv = [sys.executable, __file__, "--measure", job_id, "--cycles", str(args.cycles)]
    argv += ["--policy", args.policy]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    print(load())
    print(f"{found['jobs']} jobs seen, {found['planned']} planned, policy {args.policy}")
    print(
        f"{'':>8} {'observe s':>10} {'of it wait':>10} {'decide s':>9} {'CPU s':>7} {'bare s':>7}"
    )
    for number, row in enumerate(found["rows"]):
        name = "cold" if number == 0 else f"warm {number}"
        print(
            f"{name:>8} {row['observe']:>10.3f} {row['wait']:>10.3f} {row['decide']:>10.3f}"
            f" {row['cpu']:>10.3f} {row['bare']:>10.3f}"
        )
    warm = found["rows"][2:]  # the second look still asks for all details
    both = [row["observe"] + row["decide"] for row in warm]
    own = [row["observe"] + row["decide"] - row["wait"] for row in warm]
    print(f"{'':>24} {'least':>8} {'median':>8} {'most':>8}")
    for name, values in (
        ("observe", [row["observe"] for row in warm]),
        ("wait for locks", [row["wait"] for row in warm]),
        ("decide", [row["decide"] for row in warm]),
        ("observe + decide", both),
        ("... without the wait", own),
        ("CPU, ours and clients'", [row["cpu"] for row in warm]),
        ("bare squeue -h -o %i", [row["bare"] for row in found["rows"]]),
    ):
        print(f"{name:>24} {spread(values)}")
    median = sorted(both)[len(both) // 2]
    print(f"we: {found['planned']} jobs in {median:.2f} s: {found['planned'] / median:.0f} jobs/s")
    print(backfill_rate())
    print(f"memory: ours {found['rss_mib']} MiB, largest client {found['client_rss_mib']} MiB")


if __name__ == "__main__":
    raise SystemExit(main())
