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
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

ROOT = Path(__file__).resolve().parents[2]
MINISLURM = [sys.executable, str(ROOT / "docker" / "minislurm")]
LUA = ROOT / "slurm_ext" / "slurm" / "lua" / "job_submit.lua"
OURS = [sys.executable, "-m", "slurm_ext"]
NODES, GPUS = 4, 8
USERS = ("hx-ann", "hx-bob", "hx-cem", "hx-dia")
FACTORS = (2.0, 3.4, 5.8, 10.0)
POLL_S = 1.0
END_S = 600.0


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


@dataclass(frozen=True)
class Row:
    """One cluster; ``settings`` None: no daemon."""

    name: str
    settings: Mapping[str, object] | None


ROWS = (
    Row("Slurm alone, tuned", None),
    Row("sjf on limits", {"history.use": "false"}),
    Row("sjf on learnt run times", {"backfill.durations": '"limit"'}),
    Row("the same, backfill by p90", {"backfill.durations": '"p90"'}),
)
TEACHER = 2
"""The cluster with accounting; its history is what is learnt from."""


class Bed:
    """One cluster, and the daemon beside it."""

    def __init__(self, row: Row, directory: Path, accounting: bool) -> None:
        self.row, self.directory, self.accounting = row, directory, accounting
        self.cluster = directory / "cluster"
        self.env = {**os.environ, "SLURM_CONF": str(self.cluster / "etc" / "slurm.conf")}
        self.config = directory / "slurm_ext.toml"
        self.artefact = directory / "state" / "durations.npz"

    def up(self, stack: ExitStack) -> None:
        self.directory.mkdir(mode=0o755)
        stamp = self.directory / "job_submit.lua"
        stamp.write_text(LUA.read_text().replace("/run/slurm_ext/", f"{self.directory}/run/"))
        argv = [*MINISLURM, "up", "--dir", str(self.cluster), "--nodes", str(NODES), "--gpus",
                str(GPUS), "--sched", "tuned", "--users", ",".join(USERS)]  # fmt: skip
        # The name is in the artefact: it must be the same where it is used.
        argv += ["--name", "live", *(["--accounting"] if self.accounting else [])]
        argv += [] if self.row.settings is None else ["--job-submit-lua", str(stamp)]
        stack.callback(subprocess.run, [*MINISLURM, "down", "--dir", str(self.cluster)],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        settings = {
            "mode": '"enforce"', "policy.name": '"sjf"', "cycle.interval_s": 2,
            "cycle.min_interval_s": 0.5, "levers.lease_s": 60,
            "state.dir": f'"{self.directory}/state"', "state.run_dir": f'"{self.directory}/run"',
            **(self.row.settings or {}),
        }  # fmt: skip
        self.config.write_text("".join(f"{k} = {v}\n" for k, v in settings.items()))

    @contextmanager
    def daemon(self) -> Iterator[None]:
        if self.row.settings is None:
            yield
            return
        with (self.directory / "daemon.log").open("ab") as log:
            argv = [*OURS, "serve", "--config", str(self.config)]
            process = subprocess.Popen(argv, env=self.env, cwd=ROOT, stdout=log, stderr=log)
            try:
                yield
            finally:
                process.terminate()
                process.wait(60)

    def ours(self, *words: str) -> str:
        argv = [*OURS, *words, "--config", str(self.config)]
        done = subprocess.run(
            argv, env=self.env, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{self.row.name}: {words}: {done.stdout}{done.stderr}")
        return done.stdout

    def slurm(self, *argv: str) -> str:
        done = subprocess.run(
            argv, env=self.env, cwd="/tmp", capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{self.row.name}: {argv}: {done.stderr}")
        return done.stdout

    def submit(self, one: Submission) -> int:
        kind = one.kind
        return int(self.slurm(
            "runuser", "-u", kind.user, "--", "sbatch", "--parsable", "--output=/dev/null",
            f"--job-name={kind.name}_{one.number:04d}", f"--gpus-per-node={kind.gpus}",
            f"--cpus-per-task={kind.gpus}", f"--mem={kind.gpus * 500}", f"--time={kind.limit_min}",
            f"--wrap=sleep {one.run_s}",
        ))  # fmt: skip

    def times(self, jobs: Sequence[int]) -> dict[int, tuple[int, int, int]]:
        """Submit, start, end (epoch seconds) of those that have completed."""
        text = self.slurm("scontrol", "-o", "show", "job")
        found = {}
        for line in text.splitlines():
            pairs = dict(word.partition("=")[::2] for word in line.split())
            if pairs.get("JobState") == "COMPLETED":
                stamps = (pairs[key] for key in ("SubmitTime", "StartTime", "EndTime"))
                found[int(pairs["JobId"])] = tuple(map(_epoch, stamps))
        return {job: found[job] for job in jobs if job in found}


def _epoch(text: str) -> int:
    return int(time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))


def one_pass(bed: Bed, work: Sequence[Submission], out: dict[str, dict[str, float]]) -> None:
    """Submit all at their moments, wait for the last, note the figures."""
    with bed.daemon():
        begun = time.monotonic()
        jobs: list[int] = []
        done: dict[int, tuple[int, int, int]] = {}
        for one in work:
            time.sleep(max(0.0, begun + one.at_s - time.monotonic()))
            jobs.append(bed.submit(one))
            if one.number % 20 == 0:
                done |= bed.times(jobs)
        end_by = time.monotonic() + END_S
        while len(done) < len(jobs) and time.monotonic() < end_by:
            time.sleep(POLL_S)
            done |= bed.times(jobs)  # Slurm forgets them after MinJobAge
    missing = len(jobs) - len(done)
    rows = [(*done[j], one) for j, one in zip(jobs, work, strict=True) if j in done]
    first, last = min(r[0] for r in rows), max(r[2] for r in rows)
    # While there was a queue: until the last job has started.
    busy_until = max(r[1] for r in rows)
    area = sum(r[3].kind.gpus * max(0, min(r[2], busy_until) - r[1]) for r in rows)
    waits, jcts = [r[1] - r[0] for r in rows], [r[2] - r[0] for r in rows]
    out[bed.row.name] = {
        "jobs": len(rows), "missing": missing, "wait_s": fmean(waits), "jct_s": fmean(jcts),
        "jct_median_s": median(jcts), "jct_p95_s": sorted(jcts)[int(0.95 * (len(jcts) - 1))],
        "makespan_s": last - first, "use": area / (NODES * GPUS * (busy_until - first)),
        "slowdown": fmean(max(1.0, (r[2] - r[0]) / max(10, r[2] - r[1])) for r in rows),
    }  # fmt: skip


def run(beds: Sequence[Bed], work: Sequence[Submission], title: str) -> dict[str, dict[str, float]]:
    out: dict[str, dict[str, float]] = {}
    threads = [threading.Thread(target=one_pass, args=(bed, work, out)) for bed in beds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    work = kinds(random.Random(args.seed))
    with ExitStack() as stack:
        root = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="history-live-", dir="/tmp"))
        )
        root.chmod(0o755)
        beds = [Bed(row, root / f"c{i}", i == TEACHER) for i, row in enumerate(ROWS)]
        for bed in beds:
            bed.up(stack)
        first = run(beds, submissions(args.seed + 1, args.count, args.load, work), "first pass")
        teacher = beds[TEACHER]
        time.sleep(5)  # slurmdbd learns of the last ends late
        print("\n" + teacher.ours("history", "sync") + teacher.ours("history", "fit"))
        for bed in beds[TEACHER:]:
            if bed is not teacher:
                bed.artefact.write_bytes(teacher.artefact.read_bytes())
        second = run(beds, submissions(args.seed + 2, args.count, args.load, work), "second pass")
        if args.keep is not None:
            args.keep.write_text(json.dumps({"first": first, "second": second}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
