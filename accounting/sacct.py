"""Reading sacct: one call a window, in text, safe against what users write into their jobs.

Users choose job names and comments; both may hold ``|`` and line feeds (Slurm 22.05 prints them
as they are). So each call gets a delimiter nobody can guess, and the record ends with the job id
again: the output splits at the delimiter alone, and a forged line stays inside its own field.
Source: sacct(1); tried on 22.05.8.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_ext.accounting.record import Attempt
from slurm_ext.accounting.rows import QUIET, USER_CONTROLLED, RowReader
from slurm_ext.errors import SlurmExtError
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.run import Runner, escape
from slurm_ext.slurm.times import stamp

FIELDS = (
    "JobIDRaw", "JobID", "Cluster", "User", "Account", "Partition", "QOS", "State", "Submit",
    "Eligible", "Start", "End", "ElapsedRaw", "TimelimitRaw", "AllocNodes", "ReqCPUS", "ReqTRES",
    "AllocTRES", "Comment", "JobName",
)  # fmt: skip
"""All known to 22.05 and later; the job id follows once more behind the users' own texts."""

DUMP_COMMAND = (
    "TZ=UTC sacct -P -X -D -a -S 2026-01-01 -E now --format=" + ",".join(FIELDS) + " > dump.txt"
)
TIMEOUT_S = 300.0
EXAMPLES = 3


class HistoryError(SlurmExtError):
    """History cannot be read, or a file of it cannot be used."""

    exit_code = 8


@dataclass(slots=True)
class Skipped:
    """Rows that were left out: how many for each reason, and the first of them."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, row: str) -> None:
        self.counts[reason] += 1
        shown = self.examples.setdefault(reason, [])
        if reason not in QUIET and len(shown) < EXAMPLES:
            shown.append(escape(row, 160))

    def merge(self, other: Skipped) -> None:
        self.counts.update(other.counts)
        for reason, rows in other.examples.items():
            mine = self.examples.setdefault(reason, [])
            mine += rows[: EXAMPLES - len(mine)]

    @property
    def bad(self) -> int:
        """Rows with something wrong; jobs that merely wait, and steps, are not among them."""
        return sum(n for reason, n in self.counts.items() if reason not in QUIET)


def argv(token: str, start_s: EpochS, end_s: EpochS, job_ids: Sequence[int] = ()) -> list[str]:
    """The call for all attempts alive between the two moments, of all users.

    Both ends are always given: the defaults of sacct depend on the other options.
    """
    chosen = ["-j", ",".join(map(str, job_ids))] if job_ids else []
    return [
        "sacct", "--noheader", "--parsable2", "-X", "-D", "-a", f"--delimiter={token}",
        "-S", stamp(start_s), "-E", stamp(end_s), *chosen,
        f"--format={','.join((*FIELDS, 'JobIDRaw'))}",
    ]  # fmt: skip


def read_window(
    runner: Runner,
    start_s: EpochS,
    end_s: EpochS,
    job_ids: Sequence[int] = (),
    *,
    timeout_s: float = TIMEOUT_S,
) -> tuple[list[Attempt], Skipped]:
    """Attempts that were alive in the window, and what had to be skipped.

    :raises SlurmUnavailableError: slurmdbd does not answer, or not in time.
    :raises SlurmCommandError: sacct refused (no accounting, no permission).
    """
    token = f"\x1e{secrets.token_hex(8)}\x1f"
    text = runner.ask(
        argv(token, start_s, end_s, job_ids),
        timeout_s=timeout_s,
        # Seconds since the epoch: no zone, no summer time, and quicker to read.
        env={"SLURM_TIME_FORMAT": "%s"},
    )
    skipped = Skipped()
    found = list(parse(text, token, skipped))
    return found, skipped


def parse(text: str, token: str, skipped: Skipped) -> Iterator[Attempt]:
    """Attempts of an answer to :func:`argv`; a truncated last record is a counted skip."""
    reader = RowReader(FIELDS)
    pieces = text.split(token)
    width = len(FIELDS)
    first = pieces[0]
    for begin in range(1, len(pieces), width):
        # A record is `first, width - 1 fields, job id LF`, the next one's first follows the LF.
        rest = pieces[begin : begin + width]
        row = [first, *rest[:-1]]
        last, newline, first = rest[-1].partition("\n")
        if len(rest) != width or last != row[0] or not newline:
            skipped.add("truncated or garbled record", " ".join(row))
            return
        made = reader(row)
        if isinstance(made, str):
            skipped.add(made, " ".join(row))
        else:
            yield made
    if first.strip():
        skipped.add("truncated or garbled record", first)


def read_dump(path: Path, skipped: Skipped) -> Iterator[Attempt]:
    """Attempts of a file written with ``sacct -P … > file`` (with its head line).

    Any columns in any order, any delimiter. See :data:`DUMP_COMMAND`. Times without a zone are
    taken as UTC; run times do not depend on it.

    :raises HistoryError: unreadable, no head line, or columns missing.
    """
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            yield from parse_dump(file, skipped, str(path))
    except OSError as error:
        raise HistoryError(f"{escape(str(path))}: {error.strerror}") from error


def parse_dump(lines: Iterable[str], skipped: Skipped, name: str = "dump") -> Iterator[Attempt]:
    """See :func:`read_dump`."""
    source = iter(lines)
    head = next(source, "").rstrip("\n")
    delimiter = delimiter_of(head)
    columns = head.split(delimiter) if delimiter else [head]
    closing = delimiter if columns[-1] == "" else ""  # --parsable ends lines with the delimiter
    if closing:
        columns.pop()
    reader = RowReader(columns)
    if reader.missing:
        raise HistoryError(
            f"{escape(name)}: the head line lacks {', '.join(reader.missing)}; "
            f"write it with `{DUMP_COMMAND}`"
        )
    free = [i for i, column in enumerate(columns) if column.strip().lower() in USER_CONTROLLED]
    for line in source:
        text = line.rstrip("\n").removesuffix(closing)
        fields = _cut(text, delimiter, len(columns), free)
        made = reader(fields) if fields is not None else "wrong number of fields"
        if isinstance(made, str):
            skipped.add(made, text)
        else:
            yield made


def delimiter_of(head: str) -> str:
    """What stands between the column names (they are letters only)."""
    end = 0
    while end < len(head) and head[end].isalnum():
        end += 1
    stop = end
    while stop < len(head) and not head[stop].isalnum():
        stop += 1
    return head[end:stop]


def _cut(text: str, delimiter: str, width: int, free: Sequence[int]) -> list[str] | None:
    """The fields of a line; surplus delimiters belong to the users' column if there is one."""
    fields = text.split(delimiter) if delimiter else [text]
    surplus = len(fields) - width
    if surplus == 0:
        return fields
    if surplus < 0 or not free:
        return None
    # With two such columns the last takes it all: then at least no other column shifts,
    # if both are last; otherwise nobody can say where the fields end.
    if free != list(range(width - len(free), width)):
        return None if len(free) > 1 else _glue(fields, free[0], surplus, delimiter)
    return _glue(fields, width - 1, surplus, delimiter)


def _glue(fields: list[str], at: int, surplus: int, delimiter: str) -> list[str]:
    return [
        *fields[:at], delimiter.join(fields[at : at + surplus + 1]), *fields[at + surplus + 1 :]
    ]  # fmt: skip
