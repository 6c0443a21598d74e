"""A million attempts through the history, and what predictions are worth in EASY backfilling.

``python bench/history.py --help``. The first writes a made-up dump (seeded), imports it, and times
the queries that fit and report make. The second (``--easy DIR``) replays KTH-SP2 on 100 processors
under each source of run times: a small EASY of its own in count-only mode (Lifka 1995; shortest
job backfilled first, SJBF), whose rows with requested and perfect times have published figures.
Predictions are learnt within the replay, from the jobs that have ended in it.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import sqrt
from pathlib import Path
from statistics import fmean
from time import perf_counter

from slurm_ext.accounting.baselines import LastTwo, Learned, Limit, Prediction, Predictor
from slurm_ext.accounting.sacct import FIELDS
from slurm_ext.accounting.store import Store
from slurm_ext.accounting.sync import import_dump
from slurm_ext.accounting.trials import Trial, load

T0 = 1_700_000_000


def write_dump(path: Path, rows: int, seed: int) -> None:
    rng = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        file.write("|".join(FIELDS) + "\n")
        for i in range(rows):
            user, gpus = f"user{rng.randrange(400)}", rng.choice((1, 1, 1, 2, 4, 8, 16))
            submit = T0 + i * 30
            start, run = submit + rng.randrange(3600), int(rng.lognormvariate(7, 2))
            state = rng.choice(("COMPLETED", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 7"))
            asked = f"billing={gpus * 4},cpu={gpus * 4},gres/gpu={gpus},mem={gpus * 32}G,node=1"
            file.write(
                f"{i + 1}|{i + 1}|big|{user}|acct{hash(user) % 40}|gpu|normal|{state}|{submit}|"
                f"{submit}|{start}|{start + run}|{run}|{run // 60 * 2 + 10}|1|{gpus * 4}|{asked}|"
                f"{asked},gres/gpu:a100={gpus}||train_{rng.randrange(20)}_{i}\n"
            )


def timed(what: str, begun: float) -> None:
    print(f"{what}: {perf_counter() - begun:.2f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--easy", type=Path, metavar="DIR", help="folder of traces; nothing else")
    args = parser.parse_args()
    if args.easy is not None:
        return easy(args.easy)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        dump, path = Path(name, "dump.txt"), Path(name, "history.db")
        write_dump(dump, args.rows, args.seed)
        print(f"dump of {args.rows} rows: {dump.stat().st_size >> 20} MiB")
        begun = perf_counter()
        with Store.open(path) as store:
            report = import_dump(store, dump)
        timed(f"import of {report.new} attempts", begun)
        print(f"database: {path.stat().st_size >> 20} MiB")
        with Store.open_readonly(path) as store:
            queries(store)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak_mib:.0f} MiB")
    return 0


def queries(store: Store) -> None:
    begun = perf_counter()
    found = sum(1 for _ in store.attempts("user = ?", ("user7",)))
    timed(f"attempts of one user ({found})", begun)
    begun = perf_counter()
    last = store.count("end_s > ?", (T0 + 30 * 900_000,))
    timed(f"count since a moment ({last})", begun)
    begun = perf_counter()
    frame = store.frame()
    timed(f"everything as a table ({len(frame)})", begun)


PROCESSORS = 100
STEPS_S = (60, 300, 900, 1800, 3600, 7200, 18000, 36000, 72000, 180000, 360000)
"""Added each time a job outlives what was expected ("incremental", Gaussier et al., SC 2015)."""


class Oracle:
    """Perfect knowledge."""

    def learn(self, trial: Trial) -> None:
        pass

    def predict(self, trial: Trial) -> Prediction:
        return Prediction(float(trial.run_s))


class Replay:
    """One run of EASY; seconds. ``steps``: correct late jobs bit by bit, else by their limit."""

    def __init__(
        self, trials: Sequence[Trial], predictor: Predictor,
        expected: Callable[[Prediction], float], *, shortest: bool, steps: bool,
    ) -> None:  # fmt: skip
        self.trials, self.predictor, self.expected = trials, predictor, expected
        self.shortest, self.steps = shortest, steps
        self.free, self.now_s = PROCESSORS, 0
        self.queue: list[int] = []
        self.running: dict[int, float] = {}
        self.start = [0] * len(trials)
        self.guess = [0.0] * len(trials)
        self.late = [0] * len(trials)
        # Ends before submits before corrections within a second.
        self.events: list[tuple[float, int, int]] = []
        for number, trial in enumerate(trials):
            heappush(self.events, (trial.submit_s, 1, number))

    def run(self) -> tuple[float, float]:
        """Mean flow time, mean bounded slowdown (10 s)."""
        while self.events:
            self.now_s = int(self.events[0][0])
            while self.events and int(self.events[0][0]) == self.now_s:
                _, kind, number = heappop(self.events)
                (self._end, self._submit, self._correct)[kind](number)
            while self.queue and self._size(self.queue[0]) <= self.free:
                self._go(self.queue.pop(0))
            if self.queue and self.free:
                self._backfill()
        flows = [s + t.run_s - t.submit_s for s, t in zip(self.start, self.trials, strict=True)]
        slow = (max(1.0, f / max(t.run_s, 10)) for f, t in zip(flows, self.trials, strict=True))
        return fmean(flows), fmean(slow)

    def _size(self, number: int) -> int:
        return self.trials[number].job.cpus

    def _limit(self, number: int) -> float:
        return float(self.trials[number].job.limit_s or self.trials[number].run_s)

    def _submit(self, number: int) -> None:
        value = self.expected(self.predictor.predict(self.trials[number]))
        limit_s = self._limit(number)
        self.guess[number] = max(1.0, min(value, limit_s)) if value == value else limit_s
        self.queue.append(number)

    def _go(self, number: int) -> None:
        self.free -= self._size(number)
        self.start[number] = self.now_s
        self.running[number] = self.now_s + self.guess[number]
        heappush(self.events, (self.now_s + self.trials[number].run_s, 0, number))
        if self.guess[number] < self.trials[number].run_s:
            heappush(self.events, (self.running[number], 2, number))

    def _end(self, number: int) -> None:
        self.free += self._size(number)
        del self.running[number]
        self.predictor.learn(self.trials[number])

    def _correct(self, number: int) -> None:
        if number not in self.running or self.running[number] > self.now_s + 1:
            return
        last_s = self.start[number] + self._limit(number)
        step_s = STEPS_S[min(self.late[number], len(STEPS_S) - 1)]
        self.late[number] += 1
        end_s = min(last_s, self.now_s + step_s) if self.steps else last_s
        self.running[number] = end_s if end_s > self.now_s else self.now_s + 60
        heappush(self.events, (self.running[number], 2, number))

    def _backfill(self) -> None:
        need, free, shadow_s = self._size(self.queue[0]), self.free, float(self.now_s)
        ends = sorted((max(end_s, self.now_s + 1), n) for n, end_s in self.running.items())
        for end_s, number in ends:
            free, shadow_s = free + self._size(number), end_s
            if free >= need:
                break
        spare = free - need
        waiting = self.queue[1:]
        if self.shortest:
            waiting.sort(key=lambda n: (self.guess[n], n))
        for number in waiting:
            size, in_time = self._size(number), self.now_s + self.guess[number] <= shadow_s
            if size <= self.free and (in_time or size <= spare):
                spare -= 0 if in_time else size
                self._go(number)
                self.queue.remove(number)


def easy(folder: Path) -> int:
    """Print the table."""
    trials = load("kth-sp2", folder)
    low = lambda p: p.p10_s if p.p10_s == p.p10_s else p.point_s  # noqa: E731
    rows: list[tuple[str, Callable[[], Predictor], Callable[[Prediction], float], bool, bool]] = [
        ("EASY, requested", Limit, lambda p: p.point_s, False, False),
        ("EASY, clairvoyant", Oracle, lambda p: p.point_s, False, False),
        ("EASY, last two", LastTwo, lambda p: p.point_s, False, False),
        ("EASY-SJBF, requested", Limit, lambda p: p.point_s, True, False),
        ("EASY++ (SJBF, last two)", LastTwo, lambda p: p.point_s, True, False),
        ("EASY-SJBF, clairvoyant", Oracle, lambda p: p.point_s, True, False),
        ("EASY, ours: point", Learned, lambda p: p.point_s, False, False),
        ("SJBF, ours: point", Learned, lambda p: p.point_s, True, False),
        ("SJBF, ours: point, steps", Learned, lambda p: p.point_s, True, True),
        ("SJBF, ours: p50, steps", Learned, lambda p: p.p50_s, True, True),
        ("SJBF, ours: p10, steps", Learned, low, True, True),
        ("SJBF, ours: sqrt(p10 p50), steps", Learned, lambda p: sqrt(low(p) * p.p50_s), True, True),
    ]
    print("| scheduler | mean flow s | bounded slowdown | run s |\n|---|---|---|---|")
    for name, make, expected, shortest, steps in rows:
        begun = perf_counter()
        flow_s, slow = Replay(trials, make(), expected, shortest=shortest, steps=steps).run()
        print(f"| {name} | {flow_s:.1f} | {slow:.2f} | {perf_counter() - begun:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
