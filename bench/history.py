"""A million attempts through the history: ``python bench/history.py --help``.

Writes a made-up dump (seeded), imports it, and times the queries that fit and report make.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
from pathlib import Path
from time import perf_counter

from slurm_ext.accounting.sacct import FIELDS
from slurm_ext.accounting.store import Store
from slurm_ext.accounting.sync import import_dump

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
    args = parser.parse_args()
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


if __name__ == "__main__":
    raise SystemExit(main())
