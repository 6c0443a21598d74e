"""Backfill kinds and durations on a trace of real jobs, count-only, with an online predictor.

python3 bench/backfill.py TRACE.swf[.gz] --procs 100 [--head N]

Run times are learned from the jobs that have ended so far and from nothing else, as a site would.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from slurm_ext.accounting.features import Features
from slurm_ext.accounting.predict import Samples
from slurm_ext.engine.settings import BackfillSettings, Context
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import JobKey
from slurm_ext.policies import get
from slurm_ext.sim import traces
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.ideal import IdealDriver
from slurm_ext.sim.metrics import measure

ROWS = (
    ("best_effort", "limit"), ("easy", "limit"), ("easy", "p50"), ("easy", "p90"),
    ("conservative", "limit"), ("conservative", "p50"), ("conservative", "p90"),
    ("slack", "limit"),
)  # fmt: skip


class Learning(IdealDriver):
    """The ideal driver with estimates that follow the trace.

    An estimate is made at submit, and again for a running job once it has outlived its p90.
    """

    samples: Samples
    guesses: dict[JobKey, Estimate]

    def learn(self) -> None:
        self.samples, self.guesses = Samples(), {}

    def _features(self, key: JobKey) -> Features:
        spec = self._specs[key]
        return Features(spec.user or "user0", cpus=spec.gpus, limit_s=spec.limit_s)

    def _decide(self) -> None:
        now_s = self.events.now_s
        for key in (*self._pending, *self._running):
            known = self.guesses.get(key)
            run = self._runs.get(key)
            elapsed_s = now_s - run.start_s if run else 0
            if known is None or elapsed_s > known.p90_s:
                found = self.samples.estimate(self._features(key), elapsed_s)
                if found is not None:
                    self.guesses[key] = found
        here = self._pending.keys() | self._running.keys()
        estimates = {k: e for k, e in self.guesses.items() if k in here}
        self.context = replace(self.context, estimates=estimates)
        super()._decide()

    def _end(self, key: JobKey) -> None:
        run, job = self._runs[key], self._running[key]
        run_s = self.events.now_s - run.start_s
        self.samples.learn(self._features(key), run_s, ended=run_s < (job.limit_s or run_s + 1))
        self.guesses.pop(key, None)
        super()._end(key)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--procs", type=int, required=True)
    parser.add_argument("--head", type=int)
    parser.add_argument("--policy", default="fifo")
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--max-slip-s", type=int, default=3600)
    parser.add_argument("--rows", help="kind:durations,... (default: all)")
    args = parser.parse_args()
    workload = traces.read(args.trace, max_gpus=args.procs, on_bad="skip")
    if args.head:
        workload = workload.head(args.head)
    rows = [tuple(r.split(":")) for r in args.rows.split(",")] if args.rows else ROWS
    print(f"{'kind':>13} {'durations':>9} {'wait s':>8} {'slowdown':>8} {'promised':>8} "
          f"{'late':>6} {'mean s':>7} {'worst s':>8}")  # fmt: skip
    for kind, durations in rows:
        backfill = BackfillSettings(kind=kind, durations=durations, depth=args.depth,
                                    max_slip_s=args.max_slip_s)  # fmt: skip
        context = Context(policy=get(args.policy), backfill=backfill)
        driver = Learning(workload, ClusterSpec.count_only(args.procs), context, kill=True)
        driver.learn()
        found, kept = measure(driver.run()), driver.memory.kept
        promised = kept.on_time + kept.late
        print(f"{kind:>13} {durations:>9} {found.wait_mean_s:>8.0f} {found.slowdown_mean:>8.1f} "
              f"{promised:>8} {kept.late:>6} {kept.late_s / max(1, kept.late):>7.0f} "
              f"{kept.worst_s:>8}", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
