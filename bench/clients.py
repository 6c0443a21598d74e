#!/usr/bin/env python3
"""What watching costs: cycles of the daemon without and with many live views and a scraper.

A generated queue behind the real service (status socket, metrics port, journal) in a process of
its own; the views are the threads of ``slurm-ext top`` in another, asking every second, and one
client reads ``/metrics`` every second. Rounds with and without clients alternate. Only what the
daemon itself does is measured: the look at Slurm costs nothing here.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from decide import build

from slurm_ext.daemon.config import load
from slurm_ext.daemon.logs import configure
from slurm_ext.daemon.runner import CycleResult
from slurm_ext.daemon.service import Service
from slurm_ext.model.observation import Observation
from slurm_ext.tui.app import Feed
from tests.fake import FakeSlurm

PORT = 19817
URL = f"http://127.0.0.1:{PORT}/metrics"


class Growing(FakeSlurm):
    """The clock goes on, so that every look is another."""

    begun_s = 0.0

    def observe(self, *, site_factors: bool = False) -> Observation:
        self.begun_s = self.begun_s or time.monotonic()
        return replace(self.obs, now_s=self.obs.now_s + int(time.monotonic() - self.begun_s))


def serve(name: str, jobs: int, nodes: int, every_s: float, cycles: int, out: Path) -> None:
    """The daemon: one line of ``out`` a cycle, when it ended and what it took."""
    config = load(Path("/dev/null"), {
        "state.dir": name, "state.run_dir": name, "cycle.interval_s": every_s,
        "cycle.min_interval_s": every_s, "metrics.port": PORT,
        "log.level": "error", "history.use": False,
    })  # fmt: skip
    configure(config.log.level, config.log.format)
    with out.open("w", buffering=1) as file:

        def note(result: CycleResult) -> None:
            file.write(json.dumps([time.monotonic(), sum(result.durations_s.values())]) + "\n")

        port = Growing(build(jobs, nodes))
        Service(config, port, False, lambda: config, on_cycle=note, max_cycles=cycles).serve()


def watch(name: str, views: int, wanted: threading.Event, answers: list[int]) -> None:
    """Clients that work while ``wanted`` is set."""

    def view() -> None:
        feed = Feed(Path(name), 1.0)
        while True:
            wanted.wait()
            feed.look()
            answers[0] += not feed.error
            time.sleep(1.0)

    def scrape() -> None:
        while True:
            wanted.wait()
            with suppress(OSError), urllib.request.urlopen(URL) as answer:
                answer.read()
                answers[1] += 1
            time.sleep(1.0)

    for target in [view] * views + [scrape]:
        threading.Thread(target=target, daemon=True).start()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--views", type=int, default=20)
    parser.add_argument("--every", type=float, default=2.0, metavar="S", help="between cycles")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--round", type=float, default=20.0, metavar="S")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clients-") as name:
        out = Path(name, "cycles")
        words = (name, args.jobs, args.nodes, args.every, 10**6, out)
        daemon = multiprocessing.get_context("spawn").Process(target=serve, args=words)
        daemon.start()
        try:
            wanted, answers = threading.Event(), [0, 0]
            while not out.exists() or len(out.read_text().splitlines()) < 3:
                time.sleep(0.5)
            watch(name, args.views, wanted, answers)
            spans: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
            for number in range(2 * args.rounds):
                watched = number % 2 == 1
                (wanted.set if watched else wanted.clear)()
                time.sleep(2.0)  # what was asked before is answered
                begun = time.monotonic()
                time.sleep(args.round)
                spans[watched].append((begun, time.monotonic()))
            cycles = [json.loads(line) for line in out.read_text().splitlines()]
        finally:
            daemon.terminate()
            daemon.join()
    times = {
        watched: [s for at, s in cycles if any(a <= at <= b for a, b in found)]
        for watched, found in spans.items()
    }
    for watched, found in times.items():
        print(f"{'with' if watched else 'without'} clients: {len(found)} cycles, median "
              f"{statistics.median(found):.3f} s, most {max(found):.3f} s")  # fmt: skip
    ratio = statistics.median(times[True]) / statistics.median(times[False])
    print(f"ratio {ratio:.2f}; {answers[0]} views and {answers[1]} scrapes answered")
    return 0


if __name__ == "__main__":
    sys.exit(main())
