#!/usr/bin/env python3
"""How long a look at Slurm takes, and what it costs: text, JSON, pyslurm, slurmrestd.

Starts a real Slurm (docker/minislurm), fills it with running and pending jobs and measures
a look in a process of its own for each way, and then writes. ``--conf`` measures a cluster
that is there already, as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from slurm_ext.model.decision import JobPatch, Lever  # noqa: E402
from slurm_ext.model.job import Job  # noqa: E402
from slurm_ext.slurm.cli import CliOptions, CliSlurm  # noqa: E402
from slurm_ext.slurm.native import NativeSlurm  # noqa: E402
from slurm_ext.slurm.native_process import ChildOptions  # noqa: E402
from slurm_ext.slurm.rest import RestOptions, RestSlurm  # noqa: E402
from slurm_ext.slurm.rest_token import Token, from_command  # noqa: E402
from slurm_ext.slurm.run import Answer, Runner  # noqa: E402
from slurm_ext.slurm.squeue import ARGUMENTS, Framing  # noqa: E402

MINISLURM = [sys.executable, str(ROOT / "docker" / "minislurm")]
KINDS = ("text", "json", "native", "rest")
SHAPES = (
    ["-N1", "--gres=gpu:a100:1", "--mem=4000"],
    ["-N1", "--gres=gpu:2", "-c8", "--mem=16G"],
    ["-N2", "--gpus-per-node=8", "-n2", "-c16"],
    ["--gpus=12", "--cpus-per-gpu=4"],
    ["-n4", "--gpus-per-task=1", "--mem-per-gpu=8G"],
    ["-N1-4", "--gpus-per-node=4", "--exclude=n1"],
    ["-c4", "--mem-per-cpu=2G"],
)


class CountingRunner(Runner):
    """Sums up what the commands print."""

    printed = 0

    def run(self, *args: Any, **kwargs: Any) -> Answer:
        answer = super().run(*args, **kwargs)
        self.printed += len(answer.stdout)
        return answer


def submit(arguments: list[str]) -> None:
    subprocess.run(
        ["sbatch", "-Q", "-o", "/dev/null", *arguments],
        check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def fill(running: int, pending: int) -> None:
    """Start ``running`` jobs, then queue ``pending`` ones of mixed shapes, half of them held."""
    script = ["--wrap", "exec sleep 86400"]
    work = [["-N1", "--gres=gpu:4", "-c8", "--mem=8000", "-t", "1-0", *script]] * running
    for i in range(pending):
        wait = ["-H"] if i % 2 else ["--begin=now+1day"]
        text = f"--comment=slurm_ext:size={i % 9}"
        work.append([*SHAPES[i % len(SHAPES)], *wait, "-J", f"job{i}", text, "-t", "600", *script])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(submit, work))


def cpu(who: int) -> float:
    """CPU seconds used so far, user and system."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def adapter(kind: str, runner: Runner) -> CliSlurm | NativeSlurm | RestSlurm:
    """``rest``: on the socket that ``minislurm up --rest`` makes beside the configuration."""
    if kind == "native":
        options = ChildOptions(os.environ["NATIVE_PYTHON"], limit_s=120)
        return NativeSlurm(options, runner, CliSlurm(runner=runner))
    if kind != "rest":
        return CliSlurm(CliOptions(format="json" if kind == "json" else "text"), runner)
    socket = Path(os.environ["SLURM_CONF"]).parent.parent / "rest" / "slurmrestd.sock"
    token = Token(from_command(runner, ["scontrol", "token", "lifespan=3600"]), "root")
    options = RestOptions(f"unix:{socket}", limit_s=120)
    return RestSlurm(options, token, runner, CliSlurm(runner=runner))


def measure(kind: str, looks: int) -> dict[str, float | str]:
    """Time, output and memory of ``looks`` observations in this process."""
    start = time.perf_counter()
    runner = CountingRunner(timeout_s=120)
    slurm = adapter(kind, runner)
    times: list[float] = []
    seen = slurm.observe()  # the first look fills the caches
    cold = time.perf_counter() - start
    own_cpu, client_cpu = cpu(resource.RUSAGE_SELF), cpu(resource.RUSAGE_CHILDREN)
    before = sum(slurm.rpc_counts().values())
    for _ in range(looks):
        begun = time.perf_counter()
        seen = slurm.observe()
        times.append(time.perf_counter() - begun)
    messages = (sum(slurm.rpc_counts().values()) - before) / looks
    own_cpu = (cpu(resource.RUSAGE_SELF) - own_cpu) / looks
    client_cpu = (cpu(resource.RUSAGE_CHILDREN) - client_cpu) / looks
    own = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "format": kind,
        "jobs": len(seen.jobs),
        "nodes": len(seen.nodes),
        "problems": len(seen.problems),
        "cold_s": cold,
        "warm_min_s": min(times),
        "warm_median_s": sorted(times)[len(times) // 2],
        "our_cpu_s": own_cpu,
        "client_cpu_s": client_cpu,
        "printed_mib": runner.printed / (looks + 1) / 2**20,
        "messages": messages,
        "writes_per_s": writes(slurm, seen.jobs),
        "client_rss_mib": other_rss(kind),
        "our_rss_mib": own.ru_maxrss / 1024,
    }


def writes(slurm: CliSlurm | NativeSlurm | RestSlurm, jobs: Sequence[Job]) -> float:
    """Changes of SiteFactor a second, 200 jobs at a time."""
    waiting = [job for job in jobs if job.state.pending and not job.array_job_id][:200]
    patches = [JobPatch(j.key, j.address, Lever.RANK, site_factor=7) for j in waiting]
    begun = time.perf_counter()
    assert all(one.ok for one in slurm.patch(patches))
    return len(patches) / (time.perf_counter() - begun)


def load() -> str:
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"


ALONE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""


def client_rss(kind: str) -> float:
    """Peak memory of the largest client, started from a small process (fork counts as its own)."""
    queue = ["squeue", *ARGUMENTS]
    details = ["scontrol", "-a", "-d", "show", "job"]
    commands = [["squeue", "--json"]] if kind == "json" else [queue, details]
    env = {**os.environ, "SQUEUE_FORMAT2": Framing.fresh().format}
    return max(
        float(subprocess.check_output([sys.executable, "-S", "-c", ALONE, *argv], env=env))
        for argv in commands
    )


def other_rss(kind: str) -> float:
    """Peak memory of the other side: the largest command, pyslurm's process, or slurmrestd."""
    if kind == "rest":
        return server_rss()
    if kind != "native":
        return client_rss(kind)
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    status = (Path(f"/proc/{pid}/status").read_text() for pid in children)
    return max(int(one.partition("VmHWM:")[2].split()[0]) / 1024 for one in status)


def server_rss() -> float:
    """Memory of slurmrestd after its answers (its peak is what it keeps)."""
    place = Path(os.environ["SLURM_CONF"]).parent.parent
    state = subprocess.check_output([*MINISLURM, "status", "--json", "--dir", str(place)])
    pids = [one["pid"] for one in json.loads(state)["daemons"] if one["name"] == "slurmrestd"]
    status = Path(f"/proc/{pids[0]}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def report(rows: list[dict[str, float | str]]) -> None:
    print(load())
    names = list(rows[0])
    shown = [[f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    widths = [max(len(n), *(len(r[i]) for r in shown)) for i, n in enumerate(names)]
    for line in [names, *shown]:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def child(kind: str, looks: int) -> dict[str, float | str]:
    argv = [sys.executable, __file__, "--measure", kind, "--looks", str(looks)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    found: dict[str, float | str] = json.loads(done.stdout)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="20 nodes, 200 pending jobs")
    parser.add_argument("--pending", type=int, help="pending jobs (10000)")
    parser.add_argument("--running", type=int, help="running jobs (400)")
    parser.add_argument("--nodes", type=int, help="nodes (500)")
    parser.add_argument("--looks", type=int, default=6, help="warm observations a format")
    parser.add_argument("--rest", action="store_true", help="measure slurmrestd, too")
    parser.add_argument("--native", metavar="PYTHON", help="measure pyslurm of this Python, too")
    parser.add_argument("--conf", help="slurm.conf of a cluster to measure as it is")
    parser.add_argument("--measure", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.looks)))
        return 0
    nodes, running, pending = (20, 20, 200) if options.small else (500, 400, 10000)
    nodes, running = options.nodes or nodes, options.running or running
    pending = options.pending or pending
    if options.native:
        os.environ["NATIVE_PYTHON"] = options.native
    wanted = {"rest": options.rest, "native": options.native}
    kinds = [kind for kind in KINDS if wanted.get(kind, True)]
    if options.conf:
        os.environ["SLURM_CONF"] = options.conf
        report([child(kind, options.looks) for kind in kinds])
        return 0
    with tempfile.TemporaryDirectory(prefix="slurm_ext-bench-") as place:
        up = [
            "up",
            *(["--rest"] if options.rest else []),
            "--dir",
            place,
            "--nodes",
            str(nodes),
            "--gpus",
            "8",
        ]
        limits = ["--max-jobs", str(2 * (pending + running)), "--timeout", "600"]
        subprocess.run([*MINISLURM, *up, *limits], check=True)
        try:
            os.environ["SLURM_CONF"] = f"{place}/etc/slurm.conf"
            begun = time.monotonic()
            fill(running, pending)
            print(f"{running} + {pending} jobs submitted in {time.monotonic() - begun:.0f} s")
            report([child(kind, options.looks) for kind in kinds])
        finally:
            subprocess.run([*MINISLURM, "down", "--dir", place], check=False)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
