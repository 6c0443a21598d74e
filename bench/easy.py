"""What predictions are worth in EASY backfilling: KTH-SP2 replayed under each source of run times.

``python bench/easy.py DIR`` prints the table. A small EASY of its own in count-only mode (Lifka
1995; shortest job backfilled first, SJBF), whose rows with requested and perfect times have
published figures. Predictions are learnt within the replay, from the jobs that have ended in it.

Our own rows have numbers in them (which quantile, which order). ``--choose`` finds these by a rule
fixed beforehand, on the first 30 % of the log alone: that part is replayed at its own load and with
gaps 8 % shorter and longer, and the choice with the lowest mean of flow time and bounded slowdown,
each over EASY++'s in the same replay, is taken. The table then shows the whole log, which the
published figures are of, and its last 70 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import sqrt
from pathlib import Path
from statistics import fmean

from slurm_ext.accounting.baselines import LastTwo, Learned, Limit, Prediction, Predictor
from slurm_ext.accounting.evaluate import prequential
from slurm_ext.accounting.predict import Settings
from slurm_ext.accounting.trials import Trial, load

PROCESSORS = 100
HEAD = 0.3
LOADS = (1.0, 0.92, 1.08)
STEPS_S = (60, 300, 900, 1800, 3600, 7200, 18000, 36000, 72000, 180000, 360000)
"""Added each time a job outlives what was expected ("incremental", Gaussier et al., SC 2015)."""


class Oracle:
    """Perfect knowledge."""

    def learn(self, trial: Trial) -> None:
        pass

    def predict(self, trial: Trial) -> Prediction:
        return Prediction(*[float(trial.run_s)] * 4)


class Noted:
    """Predictions made beforehand, in order of submission."""

    def __init__(self, rows: Sequence[Sequence[float]]) -> None:
        self.rows = iter(rows)

    def learn(self, trial: Trial) -> None:
        pass

    def predict(self, trial: Trial) -> Prediction:
        return Prediction(*next(self.rows))


@dataclass(frozen=True)
class Rule:
    """How predictions are used.

    ``backfill``, ``queue``: order of those that may pass, and of the queue itself: ``fcfs``,
    ``sjf`` (shortest), ``ssf`` (run time x square root of processors), ``slow`` (run time over
    expected slowdown so far: short and long-waiting first). ``rank``: the prediction that orders,
    ``low`` (the quantile of the predictor's settings), ``p50`` or ``point``; ``guess`` likewise for
    whether a job fits into a hole. ``ends``: when running jobs are expected to end, by the guess or
    by the limit. ``late``: jobs that outlive their guess are expected at their limit, or ``steps``.
    """

    name: str
    predictor: Callable[[], Predictor]
    backfill: str = "sjf"
    queue: str = "fcfs"
    rank: str = "point"
    guess: str = "point"
    ends: str = "guess"
    late: str = "limit"
    low: float = 0.05


class Replay:
    """One run; seconds."""

    def __init__(self, trials: Sequence[Trial], rule: Rule) -> None:
        self.trials, self.rule, self.predictor = trials, rule, rule.predictor()
        self.free, self.now_s = PROCESSORS, 0
        self.queue: list[int] = []
        self.running: dict[int, float] = {}
        self.start = [0] * len(trials)
        self.guess = [0.0] * len(trials)
        self.rank = [0.0] * len(trials)
        self.late = [0] * len(trials)
        # Ends before submits before corrections within a second.
        self.events: list[tuple[float, int, int]] = []
        for number, trial in enumerate(trials):
            heappush(self.events, (trial.submit_s, 1, number))

    def run(self) -> Replay:
        while self.events:
            self.now_s = int(self.events[0][0])
            while self.events and int(self.events[0][0]) == self.now_s:
                _, kind, number = heappop(self.events)
                (self._end, self._submit, self._correct)[kind](number)
            if self.rule.queue != "fcfs":
                self.queue.sort(key=lambda n: (self._key(self.rule.queue, n), n))
            while self.queue and self._size(self.queue[0]) <= self.free:
                self._go(self.queue.pop(0))
            if self.queue and self.free:
                self._backfill()
        return self

    def figures(self, begin: int = 0) -> tuple[float, float, float]:
        """Mean wait, mean flow time, mean bounded slowdown (10 s), from this job on."""
        rows = list(zip(self.start, self.trials, strict=True))[begin:]
        flows = [s + t.run_s - t.submit_s for s, t in rows]
        slow = (max(1.0, f / max(t.run_s, 10)) for f, (_, t) in zip(flows, rows, strict=True))
        return fmean(s - t.submit_s for s, t in rows), fmean(flows), fmean(slow)

    def _size(self, number: int) -> int:
        return self.trials[number].job.cpus

    def _limit(self, number: int) -> float:
        return float(self.trials[number].job.limit_s or self.trials[number].run_s)

    def _key(self, order: str, number: int) -> float:
        rank = self.rank[number]
        if order == "fcfs":
            return number
        if order == "ssf":
            return rank * sqrt(self._size(number))
        if order == "slow":
            return rank / (1 + (self.now_s - self.trials[number].submit_s) / max(10.0, rank))
        return rank

    def _submit(self, number: int) -> None:
        found, limit_s = self.predictor.predict(self.trials[number]), self._limit(number)
        for kind, target in ((self.rule.guess, self.guess), (self.rule.rank, self.rank)):
            value = {"low": found.p10_s, "p50": found.p50_s, "point": found.point_s}[kind]
            value = value if value == value else found.point_s
            target[number] = max(1.0, min(value, limit_s)) if value == value else limit_s
        self.queue.append(number)

    def _go(self, number: int) -> None:
        self.free -= self._size(number)
        self.start[number] = self.now_s
        expected = self.guess[number] if self.rule.ends == "guess" else self._limit(number)
        self.running[number] = self.now_s + expected
        heappush(self.events, (self.now_s + self.trials[number].run_s, 0, number))
        if expected < self.trials[number].run_s:
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
        end_s = min(last_s, self.now_s + step_s) if self.rule.late == "steps" else last_s
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
        waiting.sort(key=lambda n: (self._key(self.rule.backfill, n), n))
        for number in waiting:
            size, in_time = self._size(number), self.now_s + self.guess[number] <= shadow_s
            if size <= self.free and (in_time or size <= spare):
                spare -= 0 if in_time else size
                self._go(number)
                self.queue.remove(number)


EASYPP = Rule("EASY++ (SJBF, last two)", LastTwo)
KNOWN = (
    Rule("EASY, requested", Limit, "fcfs"),
    Rule("EASY, clairvoyant", Oracle, "fcfs"),
    Rule("EASY, last two", LastTwo, "fcfs"),
    Rule("EASY-SJBF, requested", Limit),
    EASYPP,
    Rule("EASY-SJBF, clairvoyant", Oracle),
)


def learner(low: float) -> Learned:
    """Our estimates with this quantile as the low one."""
    return Learned(replace(Settings(), low=low))


def ours(name: str, low: float, **fields: str) -> Rule:
    """A rule over them."""
    return Rule(name, lambda: learner(low), low=low, **fields)


def candidates() -> Iterator[Rule]:
    """What ``--choose`` tries: first only who may pass is ordered anew, then the queue as well."""
    uses = [("low", low, rank) for low in (0.2, 0.3, 0.4) for rank in ("low", "p50")]
    for guess, low, rank in (*uses, ("p50", 0.3, "p50")):
        for order in ("sjf", "ssf", "slow"):
            for ends in ("guess", "limit"):
                yield ours("", low, guess=guess, rank=rank, backfill=order, ends=ends)
    for guess, low, rank in (("low", 0.3, "low"), ("low", 0.3, "p50"), ("p50", 0.3, "p50")):
        for queue in ("sjf", "ssf", "slow"):
            for order in ("sjf", "ssf", "slow"):
                for ends in ("guess", "limit"):
                    yield ours(
                        "", low, guess=guess, rank=rank, backfill=order, ends=ends, queue=queue
                    )


def choose(trials: Sequence[Trial]) -> None:
    """Print every candidate with its score on the first part of the log.

    To save time, predictions are those of the log's own ends, not learnt anew in each replay.
    """
    head = trials[: int(len(trials) * HEAD)]
    first_s = head[0].submit_s
    logs = [
        [t._replace(submit_s=first_s + int((t.submit_s - first_s) * load)) for t in head]
        for load in LOADS
    ]
    base = [Replay(log, EASYPP).run().figures() for log in logs]
    noted = {low: prequential(head, learner(low)) for low in (0.2, 0.3, 0.4)}
    for rule in candidates():
        fixed = replace(rule, predictor=lambda rows=noted[rule.low]: Noted(rows))
        found = [Replay(log, fixed).run().figures() for log in logs]
        score = fmean(
            mine / other
            for one, its in zip(found, base, strict=True)
            for mine, other in zip(one[1:], its[1:], strict=True)
        )
        said = (rule.low, rule.guess, rule.rank, rule.queue, rule.backfill, rule.ends)
        print(f"{score:.4f}", *said, flush=True)


OURS = (
    ours("EASY-SJBF, ours: point", 0.05),
    ours("EASY-SJBF, ours: p30, steps", 0.3, guess="low", rank="low", late="steps"),
    ours("EASY, ours, as chosen", 0.3, guess="low", rank="p50", backfill="slow"),
    ours(
        "queue ordered too, as chosen", 0.3, guess="low", rank="p50", backfill="ssf", ends="limit",
        queue="slow",
    ),
    Rule("queue ordered too, clairvoyant", Oracle, "ssf", "slow"),
)  # fmt: skip
"""The second and the last are beside the choice, for comparison."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of traces")
    parser.add_argument("--choose", action="store_true", help="score the candidates instead")
    args = parser.parse_args()
    trials = load("kth-sp2", args.folder)
    if args.choose:
        choose(trials)
        return 0
    print("| scheduler | mean wait s | mean flow s | slowdown | last 70 %: flow s | slowdown |")
    print("|---|---|---|---|---|---|")
    for rule in (*KNOWN, *OURS):
        done = Replay(trials, rule).run()
        wait_s, flow_s, slow = done.figures()
        _, tail_s, tail = done.figures(int(len(trials) * HEAD))
        print(f"| {rule.name} | {wait_s:.1f} | {flow_s:.1f} | {slow:.2f} | {tail_s:.1f} | "
              f"{tail:.2f} |", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
