"""What jobs used: CPU time, peak memory, GPU utilisation, from the records of their steps.

``sacct -X`` has none of it, so that steps are asked for in a call of their own (sacct(1)). Memory
is there only where slurm.conf sets JobAcctGatherType, GPU utilisation only with
AccountingStorageTRES=gres/gpuutil. Steps overlap (``srun … &``), so a job's memory is the peak of
their sum over time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from slurm_ext.accounting.sacct import HistoryError, delimiter_of
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.run import Runner, escape
from slurm_ext.slurm.times import duration_s, known, moment_s, stamp
from slurm_ext.slurm.tres import mem_mib

FIELDS = (
    "JobIDRaw", "Cluster", "Submit", "Start", "ElapsedRaw", "TotalCPU", "TRESUsageInTot",
    "TRESUsageInAve",
)  # fmt: skip
"""No text of users among them, so the ordinary delimiter is safe."""
TIMEOUT_S = 300.0


class Used(NamedTuple):
    """One attempt; ``cpu_s`` seconds of CPU time, ``mem_mib`` peak over all its nodes.

    None: not recorded. ``gpu_util``: percent as Slurm reports it, mean over the run time.
    """

    cluster: str
    job_id: int
    submit_s: EpochS
    cpu_s: int
    mem_mib: int | None
    gpu_util: float | None


@dataclass(slots=True)
class _Steps:
    """The rows of one attempt: its own, then its steps."""

    cluster: str
    job_id: int
    submit_s: EpochS
    cpu_s: int
    marks: list[tuple[EpochS, int]] = field(default_factory=list)
    util: list[tuple[int, float]] = field(default_factory=list)
    any_step: bool = False

    def add(self, row: Mapping[str, str]) -> None:
        self.any_step = True
        run_s = int(row["ElapsedRaw"]) if row["ElapsedRaw"].isdecimal() else 0
        begin_s = _moment(row["Start"])
        mib = mem_mib(_amount(row["TRESUsageInTot"], "mem"))
        if mib is not None and begin_s is not None:
            self.marks += [(begin_s, mib), (begin_s + max(1, run_s), -mib)]
        util = _amount(row["TRESUsageInAve"], "gres/gpuutil")
        if util.replace(".", "", 1).isdecimal() and run_s > 0:
            self.util.append((run_s, float(util)))

    def used(self) -> Used:
        total_s = sum(run_s for run_s, _ in self.util)
        mean = sum(run_s * share for run_s, share in self.util) / total_s if total_s else None
        return Used(self.cluster, self.job_id, self.submit_s, self.cpu_s, _peak(self.marks), mean)


def _peak(marks: list[tuple[EpochS, int]]) -> int | None:
    """The highest sum over time; an end comes before a begin of the same second."""
    if not marks:
        return None
    level = highest = 0
    for _, change in sorted(marks):
        level += change
        highest = max(highest, level)
    return highest


def argv(start_s: EpochS, end_s: EpochS) -> list[str]:
    """The call for all jobs alive between the two moments, with their steps."""
    return [
        "sacct", "--noheader", "--parsable2", "-D", "-a", "-S", stamp(start_s), "-E", stamp(end_s),
        f"--format={','.join(FIELDS)}",
    ]  # fmt: skip


def read_window(runner: Runner, start_s: EpochS, end_s: EpochS) -> list[Used]:
    """Use of the jobs alive in the window that have steps.

    :raises SlurmUnavailableError: slurmdbd does not answer, or not in time.
    :raises SlurmCommandError: sacct refused.
    """
    text = runner.ask(argv(start_s, end_s), timeout_s=TIMEOUT_S, env={"SLURM_TIME_FORMAT": "%s"})
    return list(parse(line.split("|") for line in text.splitlines()))


def parse(rows: Iterable[Sequence[str]], columns: Sequence[str] = FIELDS) -> Iterator[Used]:
    """One :class:`Used` for each attempt with steps; rows of any other width are passed over."""
    current: _Steps | None = None
    for fields in rows:
        if len(fields) != len(columns):
            continue
        row = dict(zip(columns, fields, strict=True))
        job, dot, _ = row["JobIDRaw"].partition(".")
        if not (job.isdecimal() and job.isascii()):
            continue
        if dot:
            if current is not None and current.job_id == int(job):
                current.add(row)
            continue
        if current is not None and current.any_step:
            yield current.used()
        submit_s, cpu_s = _moment(row["Submit"]), known(duration_s(row["TotalCPU"]))
        current = None
        if submit_s is not None and cpu_s is not None and ":" in row["TotalCPU"]:
            current = _Steps(row["Cluster"], int(job), submit_s, cpu_s)
    if current is not None and current.any_step:
        yield current.used()


def read_dump(path: Path) -> Iterator[Used]:
    """Use from a dump that was written without ``-X`` and has all of :data:`FIELDS`; else nothing.

    :raises HistoryError: the file cannot be read.
    """
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            head = next(file, "").rstrip("\n")
            mark = delimiter_of(head)
            columns = head.split(mark) if mark else [head]
            if set(FIELDS) <= set(columns):
                yield from parse((line.rstrip("\n").split(mark) for line in file), columns)
    except OSError as error:
        raise HistoryError(f"{escape(str(path))}: {error.strerror}") from error


def _moment(text: str) -> EpochS | None:
    if text.isdecimal() and text.isascii():
        return int(text) or None
    return known(moment_s(text))


def _amount(tres: str, name: str) -> str:
    """The value of one entry of ``cpu=…,mem=…``, empty if it is not there."""
    for entry in tres.split(","):
        key, _, value = entry.partition("=")
        if key == name:
            return value
    return ""
