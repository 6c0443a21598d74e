"""Jobs to judge predictors by: public traces, and a site's own store.

| trace | source |
|---|---|
| philly15k | Jeon et al., ATC 2019; 15,000 GPU jobs with users; no starts: end = submit + run |
| kth-sp2 | Parallel Workloads Archive (L. Malinowsky); requested times, processors |
| eagle | NREL/eagle-jobs; 1,000 Slurm jobs with names and limits |
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from slurm_ext.accounting.features import Features, of_attempt
from slurm_ext.accounting.record import BY_USER, ITSELF, Attempt, Outcome, ending
from slurm_ext.accounting.sacct import HistoryError
from slurm_ext.slurm.run import escape


class Trial(NamedTuple):
    """One job: what was known at its submit, and how it went.

    ``ended``: see :func:`~slurm_ext.accounting.record.ending`.
    """

    job: Features
    submit_s: int
    end_s: int
    run_s: int
    ended: float


def philly(lines: Iterable[str]) -> Iterator[Trial]:
    """``job_id,user,submit,…,duration,num_gpus,…,state``."""
    for row in csv.DictReader(lines):
        submit_s, run_s = int(row["submit"]), int(float(row["duration"]))
        job = Features(row["user"], gpus=int(row["num_gpus"]))
        yield Trial(job, submit_s, submit_s + run_s, run_s, _ended(row["state"] != "CANCELLED"))


def swf(lines: Iterable[str]) -> Iterator[Trial]:
    """Standard Workload Format; processors count as CPUs."""
    for line in lines:
        if line.strip() and not line.startswith(";"):
            values = [int(float(word)) for word in line.split()]
            submit_s, wait_s, run_s, allocated = values[1:5]
            limit_s = values[8] if values[8] > 0 else None
            if run_s > 0:
                job = Features(
                    f"user{values[11]}", cpus=values[7] if values[7] > 0 else allocated,
                    limit_s=limit_s,
                )  # fmt: skip
                by_itself = values[10] != 5 and (limit_s is None or run_s < limit_s)
                yield Trial(
                    job, submit_s, submit_s + max(0, wait_s) + run_s, run_s, _ended(by_itself)
                )


def eagle(lines: Iterable[str]) -> Iterator[Trial]:
    """Slurm accounting of NREL's Eagle; times as UTC. Names are numbered hashes: not folded."""
    for row in csv.DictReader(lines):
        job = Features(
            row["user"], row["account"], row["partition"], row["qos"], row["name"],
            int(row["gpus_req"]), int(row["processors_req"]),
            limit_s=int(float(row["wallclock_req"])),
        )  # fmt: skip
        by_itself = row["state"] in ("COMPLETED", "FAILED")
        yield Trial(
            job, _stamp(row["submit_time"]), _stamp(row["end_time"]),
            int(float(row["run_time"])), _ended(by_itself),
        )  # fmt: skip


def _ended(by_itself: bool) -> float:
    return ITSELF if by_itself else BY_USER


def _stamp(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


TRACES: dict[str, tuple[str, Callable[[Iterable[str]], Iterator[Trial]]]] = {
    "philly15k": ("philly/philly15k.csv", philly),
    "kth-sp2": ("kth-sp2/KTH-SP2.swf.gz", swf),
    "eagle": ("eagle/sample_eagle_data.csv", eagle),
}


def load(name: str, folder: Path) -> list[Trial]:
    """A trace by name, in order of submission (file order within a second).

    :raises HistoryError: unknown, absent, or not what it should be.
    """
    if name not in TRACES:
        raise HistoryError(f"unknown trace {escape(name)}; known: {', '.join(TRACES)}")
    relative, parse = TRACES[name]
    path = folder / relative
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        found = list(parse(text.splitlines()))
    except OSError as error:
        raise HistoryError(f"{escape(str(path))}: {error.strerror or error}") from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise HistoryError(f"{escape(str(path))}: not a trace of this kind: {error}") from error
    return sorted(found, key=lambda t: t.submit_s)


def of_attempts(attempts: Iterable[Attempt]) -> list[Trial]:
    """A site's own history: attempts that ran and are over, by submission."""
    found = [
        Trial(of_attempt(a), a.submit_s, a.end_s, a.run_s, ending(a))
        for a in attempts
        if a.end_s is not None and a.outcome != Outcome.NEVER_RAN
    ]
    return sorted(found, key=lambda t: t.submit_s)
