"""A look through pyslurm, its gaps filled by the commands.

Jobs and partitions come from pyslurm. ``scontrol`` shows, at the same time, the configuration and
the clock, reservations (pyslurm raises at those with GPUs) and nodes (pyslurm has no GPU
indices). ``squeue`` shows what :class:`slurm_ext.slurm.native_rows.Gaps` names, for a job that is
new or asks for something else; a job at which pyslurm raises is read by the commands alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from slurm_ext.errors import SlurmCommandError, SlurmUnavailableError
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.observation import Controller, Observation, Partition, Problem
from slurm_ext.model.units import EpochS
from slurm_ext.slurm import text
from slurm_ext.slurm.batch import run_batch
from slurm_ext.slurm.hosts import expand
from slurm_ext.slurm.native_child import PARTITION
from slurm_ext.slurm.native_process import Child
from slurm_ext.slurm.native_rows import (
    COUNTS_ONLY,
    Gaps,
    Line,
    Row,
    build,
    due,
    gaps_key,
    moved,
    read_lasting,
    unreadable,
)
from slurm_ext.slurm.priorities import NONE, read_priorities
from slurm_ext.slurm.reader import TextReader, with_reservations
from slurm_ext.slurm.run import Runner, failure
from slurm_ext.slurm.scalars import integer, number
from slurm_ext.slurm.scalars import text as word
from slurm_ext.slurm.shares import Doubts, check_masks, unexplained
from slurm_ext.slurm.squeue import Record
from slurm_ext.slurm.squeue_call import Squeue
from slurm_ext.slurm.watch import FULL_EVERY, SINGLE_SHARE

_SCONTROL = ("show config", "show reservation", "show node")
_MOST_BY_TEXT = 64
"""Jobs that pyslurm cannot read and that are read by the commands, at most, in one look."""


@dataclass(slots=True)
class _Known:
    """A job of the last look. ``key`` tells whether ``gaps`` still hold."""

    line: Line
    key: str
    gaps: Gaps | None
    base: Job
    job: Job
    problems: tuple[Problem, ...]


class NativeReader:
    """Reads Slurm through pyslurm. Not for use by several threads."""

    def __init__(self, child: Child, commands: Runner, cli: TextReader) -> None:
        """``cli``: reads the jobs at which pyslurm raises."""
        self._child = child
        self._commands = commands
        self._cli = cli
        self._squeue = Squeue(commands)
        self._doubts = Doubts()
        self._known: dict[int, _Known] = {}
        self._threads: dict[str, int] = {}
        self._controller: Controller | None = None
        self._since_full = FULL_EVERY

    def controller(self) -> Controller:
        """Version and configuration (``scontrol show config``)."""
        return text.parse_config(self._commands.ask(["scontrol", "show", "config"]))[0]

    def check_version(self) -> None:
        """An older client may ask a newer slurmctld; the other way round nothing works.

        :raises SlurmUnavailableError: pyslurm does not fit, or cannot be started.
        """
        if self._controller is None:
            self._controller = self.controller()
        ours, theirs = self._child.version(), self._controller.version
        if ours[:2] > theirs[:2]:
            self._controller = None
            raise SlurmUnavailableError(
                f"pyslurm {_dotted(ours)} is newer than slurmctld {_dotted(theirs)}, which "
                f"refuses it; install pyslurm {_dotted(theirs[:2])} or older"
            )

    def observe(self, *, site_factors: bool = False) -> Observation:
        """Everything of one moment; raises if any part is missing.

        After that everything is asked anew: slurmctld or slurm.conf may be others now, and
        pyslurm reads slurm.conf once.
        """
        try:
            return self._observe(site_factors=site_factors)
        except (SlurmUnavailableError, SlurmCommandError):
            self._controller = None
            self._child.close()
            raise

    def _observe(self, *, site_factors: bool) -> Observation:
        self.check_version()
        with ThreadPoolExecutor(max_workers=2) as pool:
            shown = pool.submit(self._show)
            asked = pool.submit(read_priorities, self._commands) if site_factors else None
            lines = self._lines(self._child.ask("jobs"))
            partitions, problems = read_partitions(self._child.ask("partitions"))
            config, reservation_text, node_text = shown.result()
            priorities = asked.result() if asked else NONE
        self._controller, now = text.parse_config(config)
        if now is None:
            raise SlurmCommandError("scontrol show config: no clock in the answer")
        reservations, more = text.parse_reservations(reservation_text)
        nodes, others = text.parse_nodes(node_text)
        problems += [*more, *others]
        nodes = with_reservations(nodes, reservations)
        self._threads = {node.name: node.threads_per_core for node in nodes}
        jobs = self._jobs(lines, now, problems)
        by_name = {node.name: node for node in nodes}
        doubts: list[Problem] = []
        jobs = [check_masks(job, by_name, doubts) if job.alloc else job for job in jobs]
        jobs = priorities.joined(jobs)
        problems += priorities.problems(self._controller)
        problems += self._doubts.lasting([*doubts, *unexplained(jobs, nodes)])
        return Observation(
            now_s=now,
            controller=self._controller,
            jobs=tuple(jobs),
            nodes=tuple(nodes),
            partitions=tuple(partitions),
            reservations=tuple(reservations),
            problems=tuple(problems),
        )

    def look(self, keys: Sequence[JobKey]) -> dict[JobKey, Job]:
        """Fresh records: by pyslurm of jobs seen before, by the commands of arrays and others."""
        single = [key for key in keys if self.is_single(key.job_id)]
        found = self._cli.look([key for key in keys if key not in set(single)])
        if single:
            self.check_version()
            ids = sorted({key.job_id for key in single})
            lines = self._lines(self._child.ask("jobs", ids=ids))
            jobs = {job.key: job for job in self._read(lines, [])}
            found |= {key: jobs[key] for key in single if key in jobs}
        return found

    def rpc_counts(self) -> dict[str, int]:
        """Messages the controller has handled, by type."""
        self.check_version()
        rows = (json.loads(line) for line in self._child.ask("statistics"))
        return {word(row[0]): integer(row[1]) for row in rows}

    def is_single(self, job_id: int) -> bool:
        """Whether the last look showed this job, and no array."""
        known = self._known.get(job_id)
        return known is not None and not known.job.array_job_id

    def _show(self) -> tuple[str, ...]:
        parts = run_batch(self._commands, _SCONTROL, options=("-a", "-d"))
        if parts.answer.code != 0:
            raise failure(["scontrol", "-a", "-d", "<<", *_SCONTROL], parts.answer)
        return parts.texts

    def _lines(self, raw: Sequence[str]) -> list[Line]:
        found = [Line.cut(one) for one in raw]
        lines = [line for line in found if line is not None]
        if len(lines) != len(raw):
            raise SlurmUnavailableError("pyslurm jobs: a row of another form than agreed")
        return lines

    def _jobs(self, lines: Sequence[Line], now: EpochS, problems: list[Problem]) -> list[Job]:
        """All jobs of a look; what they look like is kept for the next one."""
        self._since_full += 1
        if self._since_full >= FULL_EVERY:
            self._since_full = 0
            self._known = {}
        jobs = self._read(lines, problems)
        alive = {line.job_id for line in lines}
        self._known = {i: one for i, one in self._known.items() if i in alive}
        return [due(job, now) for job in jobs]

    def _read(self, lines: Sequence[Line], problems: list[Problem]) -> list[Job]:
        changed: dict[int, Row] = {}
        for line in lines:
            known = self._known.get(line.job_id)
            if known is None or known.line.lasting != line.lasting or not known.key:
                row = read_lasting(line)
                if row is None:
                    raise SlurmUnavailableError("pyslurm jobs: a row of another form than agreed")
                changed[line.job_id] = row
        by_text = [job_id for job_id, row in changed.items() if unreadable(row)]
        gaps = self._gaps({i: row for i, row in changed.items() if not unreadable(row)}, len(lines))
        for line in lines:
            if line.job_id in changed:
                self._learn(line, changed[line.job_id], gaps.get(line.job_id))
            elif (known := self._known[line.job_id]).line.moving != line.moving:
                known.line, known.job = line, moved(known.base, line)
        by_text += [i for i in changed if self._in_doubt(i)]
        replaced = {job.job_id: job for job in self._cli.siblings(by_text[:_MOST_BY_TEXT])}
        for job_id in by_text:
            known = self._known[job_id]
            known.key = ""  # again in the next look
            if job_id in replaced:
                known.job, known.problems = replaced[job_id], ()
        found = [self._known[line.job_id] for line in lines]
        problems.extend(problem for one in found for problem in one.problems)
        return [one.job for one in found]

    def _in_doubt(self, job_id: int) -> bool:
        return any(one.detail == COUNTS_ONLY for one in self._known[job_id].problems)

    def _learn(self, line: Line, row: Row, gaps: tuple[str, Gaps | None] | None) -> None:
        problems: list[Problem] = []
        key, known = gaps or ("", None)
        base = build(line, row, known, self._threads, problems)
        if unreadable(row):
            names = ", ".join(word(one) for one in row["unreadable"])
            problems = [Problem("job", str(line.job_id), f"pyslurm raises at {names}")]
        elif known is None and not base.state.ended:
            problems.append(Problem("job", str(line.job_id), "squeue does not show it (any more)"))
        job = moved(base, line)
        self._known[line.job_id] = _Known(line, key, known, base, job, tuple(problems))

    def _gaps(self, rows: Mapping[int, Row], jobs: int) -> dict[int, tuple[str, Gaps | None]]:
        """What the commands add to each of these jobs, with its key; as known, or asked for."""
        found: dict[int, tuple[str, Gaps | None]] = {}
        wanted: dict[int, str] = {}
        for job_id, row in rows.items():
            key = gaps_key(row)
            known = self._known.get(job_id)
            if known is not None and known.key == key and known.gaps is not None:
                found[job_id] = (key, known.gaps)
            elif (sibling := self._sibling(row, key)) is not None:
                found[job_id] = (key, sibling)
            else:
                wanted[job_id] = key
        if wanted:
            few = len(wanted) <= max(jobs * SINGLE_SHARE, 1)
            records = self._records(sorted(wanted) if few else ())
            hidden = sorted(wanted.keys() - records.keys())
            if hidden:
                raw = self._squeue.unfolded(hidden[:_MOST_BY_TEXT])
                records |= {self._squeue.id_of(one): one for one in raw}
            for job_id, key in wanted.items():
                found[job_id] = (key, self._cut(records.get(job_id)))
        return found

    def _sibling(self, row: Row, key: str) -> Gaps | None:
        """Those of the array that a task has just left."""
        known = self._known.get(integer(row["array_id"]))
        return known.gaps if known is not None and known.key == key else None

    def _records(self, job_ids: Sequence[int]) -> dict[int, str]:
        return {self._squeue.id_of(one): one for one in self._squeue.ask(job_ids)}

    def _cut(self, raw: str | None) -> Gaps | None:
        record: Record | None = None if raw is None else self._squeue.framing.cut(raw)
        return None if record is None else Gaps.of(record)


def read_partitions(lines: Sequence[str]) -> tuple[list[Partition], list[Problem]]:
    """Partitions as pyslurm shows them; times there are in minutes, ``UNLIMITED`` or null."""
    found: list[Partition] = []
    problems: list[Problem] = []
    for line in lines:
        values = json.loads(line)
        row = dict(zip((*PARTITION, "bad"), values, strict=True))
        name = word(row["name"])
        nodes = expand(word(row["nodes"]))
        if nodes is None or row["bad"]:
            problems.append(Problem("partition", name, "nodes or limits not readable"))
        longest, usual, most = (number(row[k]) for k in ("max_time", "default_time", "max_nodes"))
        found.append(
            Partition(
                name=name,
                nodes=nodes or (),
                up=row["state"] == "UP",
                max_time_s=longest * 60 if isinstance(longest, int) else None,
                default_time_s=usual * 60 if isinstance(usual, int) else None,
                max_nodes=most if isinstance(most, int) else None,
                min_nodes=integer(row["min_nodes"]),
                priority_tier=integer(row["priority_tier"], 1),
                exclusive_user=row["is_user_exclusive"] is True,
                oversubscribe=word(row["oversubscribe"]) or "NO",
                is_default=row["is_default"] is True,
                hidden=row["is_hidden"] is True,
            )
        )
    return found, problems


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
