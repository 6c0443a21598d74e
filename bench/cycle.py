#!/usr/bin/env python3
"""A whole cycle from observe to plan on a real Slurm, beside slurmctld's own backfill.

Starts a real Slurm (docker/minislurm), fills it, queues jobs that all want to run, and
measures one process that observes and decides as the daemon does (mode enforce, nothing sent).
The figures of slurmctld's backfill on the same queue come from sdiag.
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


def measure(cycles: int, policy: str) -> dict[str, object]:
    """Durations of each cycle in seconds and the peak memory, in this process."""
    config = load_config(Path("/dev/null"), {"mode": "enforce", "policy.name": policy})
    runner = Runner(config, CliSlurm(), None, dry_run=True)
    rows = []
    for _ in range(cycles):
        result = runner.run()
        rows.append(dict(result.durations_s))
    used = resource.getrusage(resource.RUSAGE_SELF)
    clients = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "rows": rows,
        "jobs": len(result.observation.jobs),
        "planned": len(result.plan.order),
        "rss_mib": used.ru_maxrss // 1024,
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
    parser.add_argument("--cycles", type=int, default=6)
    parser.add_argument("--policy", default="sjf")
    parser.add_argument("--sched", choices=("tuned", "default"), default="tuned",
                        help="slurmctld's scheduler parameters")  # fmt: skip
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.cycles, args.policy)))
        return 0
    nodes, pending = (20, 300) if args.small else (500, 10_000)
    nodes, pending = args.nodes or nodes, args.pending or pending
    with tempfile.TemporaryDirectory(prefix="slurm_ext-bench-") as place:
        up = ["up", "--dir", place, "--nodes", str(nodes), "--gpus", "8", "--sched", args.sched]
        up += ["--max-jobs", str(2 * (pending + nodes)), "--timeout", "600"]
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


def report(args: argparse.Namespace) -> None:
    argv = [sys.executable, __file__, "--measure", "--cycles", str(args.cycles)]
    argv += ["--policy", args.policy]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    print(load())
    print(f"{found['jobs']} jobs seen, {found['planned']} planned, policy {args.policy}")
    print(f"{'':>8} {'observe s':>10} {'decide s':>9} {'sum s':>7}")
    for number, row in enumerate(found["rows"]):
        both = row["observe"] + row["decide"]
        name = "cold" if number == 0 else f"warm {number}"
        print(f"{name:>8} {row['observe']:>10.3f} {row['decide']:>9.3f} {both:>7.3f}")
    warm = sorted(r["observe"] + r["decide"] for r in found["rows"][1:])
    median = warm[len(warm) // 2]
    print(f"we: {found['planned']} jobs in {median:.2f} s: {found['planned'] / median:.0f} jobs/s")
    print(backfill_rate())
    print(f"memory: ours {found['rss_mib']} MiB, largest client {found['client_rss_mib']} MiB")


if __name__ == "__main__":
    raise SystemExit(main())
