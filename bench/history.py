"""A million attempts through the history: import, queries, fit, report, and the daemon's cache.

``python bench/history.py`` writes a made-up dump (seeded), imports it, times what the history
verbs do with it, and estimates a queue of 10,000 jobs as the daemon does in each cycle.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
from pathlib import Path
from time import perf_counter, process_time

from slurm_ext.accounting.fit import fit
from slurm_ext.accounting.report import limit_advice
from slurm_ext.accounting.sacct import FIELDS
from slurm_ext.accounting.store import Store
from slurm_ext.accounting.sync import import_dump
from slurm_ext.daemon.config import load
from slurm_ext.daemon.estimates import Estimator
from slurm_ext.model.job import BaseState, Job, JobKey, JobState, Request

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


class Watch:
    """Wall and CPU seconds: on a shared machine only the latter can be compared."""

    def __init__(self) -> None:
        self.wall, self.cpu = perf_counter(), process_time()

    def say(self, what: str) -> None:
        wall, cpu = perf_counter() - self.wall, process_time() - self.cpu
        print(f"{what}: {wall:.2f} s, {cpu:.2f} s of CPU time", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        dump, path = Path(name, "dump.txt"), Path(name, "history.db")
        write_dump(dump, args.rows, args.seed)
        print(f"dump of {args.rows} rows: {dump.stat().st_size >> 20} MiB")
        watch = Watch()
        with Store.open(path) as store:
            report = import_dump(store, dump)
        watch.say(f"import of {report.new} attempts")
        print(f"database: {path.stat().st_size >> 20} MiB")
        with Store.open_readonly(path) as store:
            queries(store)
            learn(store, Path(name))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak_mib:.0f} MiB")
    return 0


def queries(store: Store) -> None:
    watch = Watch()
    found = sum(1 for _ in store.attempts("user = ?", ("user7",)))
    watch.say(f"attempts of one user ({found})")
    watch = Watch()
    last = store.count("end_s > ?", (T0 + 30 * 900_000,))
    watch.say(f"count since a moment ({last})")
    watch = Watch()
    frame = store.frame()
    watch.say(f"everything as a table ({len(frame)})")


def learn(store: Store, folder: Path) -> None:
    """What fit, report and the daemon do with it."""
    now_s = T0 + 30 * 1_000_000
    watch = Watch()
    rows = list(store.attempts("end_s > ?", (now_s - 90 * 86400,)))
    advice = limit_advice(rows)
    watch.say(f"report of the last 90 days ({len(rows)} attempts, {len(advice)} kinds)")
    config = load(Path("/dev/null"), {"state.dir": str(folder)})
    watch = Watch()
    head = fit(store, config.artefact_path, now_s)
    watch.say(f"fit of {head.attempts} attempts")
    print(f"artefact: {config.artefact_path.stat().st_size >> 10} KiB")
    for distinct in (500, 10_000):
        estimator, jobs = Estimator(), queue(10_000, distinct)
        for what in ("first cycle", "next cycle"):
            watch = Watch()
            found = estimator.of(jobs, config, "big", now_s)
            left = estimator.state.waiting
            said = f"{len(found)} estimated, {left} left"
            watch.say(f"{distinct} distinct requests, {what}: {said}")


def queue(count: int, distinct: int) -> list[Job]:
    """Pending jobs of the users of the dump."""
    found = []
    for i in range(count):
        kind = i % distinct
        request = Request(gpus_per_node=(1, 2, 4, 8)[kind % 4], cpus=4)
        found.append(Job(
            JobKey(i, T0), f"train_{'abcdefghij'[kind % 10]}_{i}", f"user{kind % 400}",
            f"acct{kind % 40}", ("gpu",), JobState(BaseState.PENDING), request,
            qos="normal", limit_s=600 + 60 * kind,
        ))  # fmt: skip
    return found


if __name__ == "__main__":
    raise SystemExit(main())
