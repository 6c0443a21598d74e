#!/usr/bin/env python3
"""Days of the daemon in minutes: does anything of it grow?

The real cycle, journal, status socket and metrics beside the simulated Slurm, a cycle every 30
simulated seconds, somebody asking every tenth, pruning once a day. Prints memory, descriptors,
threads, files and rows after each quarter of a day; jobs that are over are forgotten, so that
what grows is the daemon's.
"""

from __future__ import annotations

import argparse
import gc
import os
import sqlite3
import sys
import tempfile
import threading
import time
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from slurm_ext.daemon.client import ask
from slurm_ext.daemon.config import Config, load
from slurm_ext.daemon.journal import Journal
from slurm_ext.daemon.metrics import Metrics
from slurm_ext.daemon.publish import Publisher
from slurm_ext.daemon.runner import Runner
from slurm_ext.daemon.snapshot import snapshot, summary
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.generate import Shape, generate
from slurm_ext.sim.simulate import Simulation
from slurm_ext.sim.workload import Workload

DAY_S = 86_400
INTERVAL_S = 30
ASK_EVERY = 10


@dataclass(frozen=True, slots=True)
class Size:
    """What may grow. ``rss_mib``: resident memory of the process; ``db_kib``: the journal's files;
    ``rows`` of all its tables; ``objects`` that the collector tracks."""

    rss_mib: float
    descriptors: int
    threads: int
    files: int
    db_kib: int
    rows: int
    objects: int


def size_of(state: Path) -> Size:
    """The sizes of this process and of its files now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    files = [p for p in state.rglob("*") if p.is_file()]
    db = sqlite3.connect(f"file:{state / 'journal.db'}?mode=ro", uri=True)
    tables = [r[0] for r in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    rows = sum(db.execute(f'SELECT count(*) FROM "{t}"').fetchone()[0] for t in tables)
    db.close()
    return Size(
        round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1),
        len(os.listdir("/proc/self/fd")), threading.active_count(), len(files),
        sum(p.stat().st_size for p in files) // 1024, rows, len(gc.get_objects()),
    )  # fmt: skip


class Daemon:
    """The daemon's cycle in place of the simulator's own; see ``sim/steer.py``."""

    def __init__(self, sim: Simulation, config: Config, journal: Journal, publisher: Publisher):
        self.context = SimpleNamespace(levers=SimpleNamespace(interval_s=INTERVAL_S))
        self.config, self.journal, self.publisher = config, journal, publisher
        self.runner = Runner(config, sim.port, journal, can_note=True)
        self.metrics = Metrics()
        self.cycles = self.patches = 0
        self.day = 0

    def cycle(self, now_s: int) -> int:
        result = self.runner.run()
        config = self.config
        self.publisher.publish(lambda: snapshot(result, config), result.cycle, summary(result))
        self.metrics.cycle(result)
        self.cycles += 1
        self.patches += len(result.applied.patches)
        if self.cycles % ASK_EVERY == 0:
            ask(Path(config.state.run_dir), "/v1/status?limit=500")
            self.metrics.text()
        if now_s // DAY_S != self.day:
            self.day = now_s // DAY_S
            keep_s = config.state.keep_days * DAY_S
            self.journal.prune(now_s - keep_s, routine_before_s=now_s - DAY_S, limit=10**9)
        return now_s + INTERVAL_S


def workload(
    days: float, spec: ClusterSpec, jobs_a_day: int, load: float, start_s: int
) -> Workload:
    """A made-up workload stretched over the days."""
    made = generate(Shape(jobs=int(jobs_a_day * days), load=load), spec, 1)
    span_s = max(1, made.jobs[-1].submit_s)
    scale = days * DAY_S / span_s
    jobs = [
        replace(j, submit_s=start_s + int(j.submit_s * scale), run_s=max(1, int(j.run_s * scale)),
                limit_s=None if j.limit_s is None else max(60, int(j.limit_s * scale)))
        for j in made.jobs
    ]  # fmt: skip
    return replace(made, jobs=tuple(jobs))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=3.0)
    parser.add_argument("--jobs-a-day", type=int, default=3000)
    parser.add_argument("--load", type=float, default=1.1, help="GPU time asked for / there is")
    parser.add_argument("--keep-days", type=int, default=1, help="state.keep_days")
    args = parser.parse_args()
    start_s = int(time.time()) // DAY_S * DAY_S + DAY_S
    spec = ClusterSpec.parse("32x8")
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        state = Path(name)
        config = load(Path("/dev/null"), {
            "mode": "enforce", "state.dir": name, "state.run_dir": name,
            "state.keep_days": args.keep_days, "policy.name": "sjf",
        })  # fmt: skip
        sim = Simulation(workload(args.days, spec, args.jobs_a_day, args.load, start_s), spec)
        with Journal(config.state.journal_path) as journal, Publisher(state) as publisher:
            daemon = Daemon(sim, config, journal, publisher)
            sim.steering = daemon  # type: ignore[assignment]
            run(sim, daemon, state, start_s, args.days)
    return 0


HEAD = "".join(f"{name:>9}" for name in (
    "day", "cycles", "over", "queue", "patches", "RSS MiB", "fds", "threads", "files", "db KiB",
    "rows", "objects",
))  # fmt: skip


def run(sim: Simulation, daemon: Daemon, state: Path, start_s: int, days: float) -> None:
    print(HEAD)
    quarter = 1
    over = 0
    while len(sim.events) and sim.events.next_s() is not None:
        sim.step()
        passed = (sim.events.now_s - start_s) / DAY_S
        if passed >= quarter / 4:
            over += len(sim.core.ended)
            sim.core.ended.clear()
            s = size_of(state)
            before = (f"{quarter / 4:.2f}", daemon.cycles, over, len(sim.core.jobs), daemon.patches)
            print("".join(f"{v:>9}" for v in (*before, *astuple(s))), flush=True)
            quarter += 1
        if passed >= days:
            break


if __name__ == "__main__":
    sys.exit(main())
