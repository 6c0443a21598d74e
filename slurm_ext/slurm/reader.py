"""The fast path: everything from text, three processes side by side.

``squeue`` gives every job with unforgeable columns, one ``scontrol`` the job details, another one
configuration, partitions, reservations and nodes. All start at once: slurmctld's backfill keeps
its locks for up to ``bf_yield_interval`` (2 s by default), and questions asked one after the
other wait for it again and again. Details are asked for job by job where squeue shows that only
a few have changed (:mod:`slurm_ext.slurm.watch`). Jobs that have not changed since the last look
are taken from a cache that holds exactly one look.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from slurm_ext.errors import SlurmCommandError, SlurmUnavailableError
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.node import Node
from slurm_ext.model.observation import Observation, Problem, Reservation
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.batch import run_batch
from slurm_ext.slurm.details import Blocks, Chunk, split_blocks
from slurm_ext.slurm.jobs import job_id_of, job_of_record
from slurm_ext.slurm.priorities import NONE, read_priorities
from slurm_ext.slurm.run import Runner, failure
from slurm_ext.slurm.shares import Doubts, check_masks, unexplained
from slurm_ext.slurm.squeue_call import Squeue
from slurm_ext.slurm.text import (
    parse_config,
    parse_nodes,
    parse_partitions,
    parse_reservations,
)
from slurm_ext.slurm.watch import SINGLE_SHARE, Watch

_REST = ("show config", "show partition", "show reservation", "show node")
_MAX_UNFOLDED = 4000
"""Array tasks shown by scontrol and hidden by squeue that are asked for, at most, in one look."""
_MAX_AGAIN = 64
"""Blocks asked for one by one when the whole list leaves them in doubt, at most, in one look."""


@dataclass(frozen=True, slots=True)
class _Cached:
    job: Job
    problems: tuple[Problem, ...]


def with_reservations(nodes: Iterable[Node], reservations: Iterable[Reservation]) -> list[Node]:
    """Nodes with the name of the active reservation they are in (not every version prints it)."""
    inside = {name: one.name for one in reservations if one.active for name in one.nodes}
    return [
        replace(node, reservation=inside[node.name])
        if not node.reservation and node.name in inside
        else node
        for node in nodes
    ]


class TextReader:
    """Reads Slurm through ``squeue`` and ``scontrol`` text. Not for use by several threads."""

    def __init__(self, runner: Runner, single_share: float = SINGLE_SHARE) -> None:
        """``single_share``: see :class:`slurm_ext.slurm.watch.Watch`."""
        self._doubts = Doubts()
        self._runner = runner
        self._squeue = Squeue(runner)
        self._framing = self._squeue.framing
        self._watch = Watch(self._framing, single_share)
        self._cache: dict[tuple[str, Chunk | None], _Cached] = {}

    def observe(self, *, site_factors: bool = False) -> Observation:
        """Everything of one moment; raises if any part is missing."""
        full = self._watch.full
        with ThreadPoolExecutor(max_workers=4) as pool:
            queue = pool.submit(self._squeue.ask)
            details = pool.submit(self._details) if full else None
            rest = pool.submit(self._batch, _REST)
            asked = pool.submit(read_priorities, self._runner) if site_factors else None
            # What is here already is read while slurmctld still answers the rest.
            config, partition_text, reservation_text, node_text = rest.result()
            controller, now = parse_config(config)
            if now is None:
                raise SlurmCommandError("scontrol show config: no clock in the answer")
            partitions, problems = parse_partitions(partition_text)
            reservations, more = parse_reservations(reservation_text)
            problems += more
            nodes, more = parse_nodes(node_text)
            problems += more
            nodes = with_reservations(nodes, reservations)
            records = [(one, self._squeue.id_of(one)) for one in queue.result()]
            blocks = details.result() if details else self._changed(records)
            priorities = asked.result() if asked else NONE
        jobs = self._jobs(records, blocks, now, problems)
        self._watch.keep(records, blocks.chunks, full=full)
        by_name = {node.name: node for node in nodes}
        doubts: list[Problem] = []
        jobs = [check_masks(job, by_name, doubts) if job.alloc else job for job in jobs]
        jobs = priorities.joined(jobs)
        problems += priorities.problems(controller)
        problems += self._doubts.lasting([*doubts, *unexplained(jobs, nodes)])
        return Observation(
            now_s=now,
            controller=controller,
            jobs=tuple(jobs),
            nodes=tuple(nodes),
            partitions=tuple(partitions),
            reservations=tuple(reservations),
            problems=tuple(problems),
        )

    def look(self, keys: Sequence[JobKey]) -> dict[JobKey, Job]:
        """Fresh records of some jobs only; those that are gone are missing from the answer."""
        if not keys:
            return {}
        wanted = set(keys)
        return {
            job.key: job for job in self.siblings([k.job_id for k in keys]) if job.key in wanted
        }

    def siblings(self, job_ids: Sequence[int]) -> list[Job]:
        """Fresh records of these job ids; an array's id gives all its tasks."""
        if not job_ids:
            return []
        raw = self._squeue.ask(sorted(set(job_ids)))
        seen = {self._squeue.id_of(one) for one in raw}
        raw += self._squeue.unfolded(sorted(set(job_ids) - seen))
        ids = {self._squeue.id_of(one) for one in raw}
        found = self._again(sorted(ids))
        chunks = found.chunks
        hidden = sorted(found.doubtful - ids)[:_MAX_UNFOLDED]
        if hidden:  # tasks changed one by one, which squeue folds into their array
            raw += self._squeue.unfolded(hidden)
            chunks.update(self._again(hidden).chunks)
            raw = self._own(raw, [i for i, c in chunks.items() if i in ids and c.array_tasks])
        records = [record for one in raw if (record := self._framing.cut(one)) is not None]
        return [
            job_of_record(record, chunks.get(job_id_of(record) or -1), []) for record in records
        ]

    def _own(self, raw: list[str], arrays: Sequence[int]) -> list[str]:
        """The records with the arrays' own values.

        squeue may show those of one of the tasks it has folded in; unfolded, every row has its
        own. The task lists come from the details.
        """
        if not arrays:
            return raw
        rows = {self._squeue.id_of(one): one for one in self._squeue.ask(arrays, "-r")}
        own = {job_id: rows[job_id] for job_id in arrays if job_id in rows}
        return [own.get(self._squeue.id_of(one), one) for one in raw]

    def workdirs(self, job_ids: Sequence[int]) -> dict[int, str]:
        """The directories jobs were submitted from; jobs that are gone are missing."""
        return self._squeue.workdirs(job_ids)

    def _batch(self, commands: Sequence[str]) -> tuple[str, ...]:
        parts = run_batch(self._runner, commands, options=("-a", "-d"))
        if parts.answer.code != 0:
            raise failure(["scontrol", "-a", "-d", "<<", *commands], parts.answer)
        return parts.texts

    def _details(self) -> Blocks:
        return split_blocks(self._batch(("show job",))[0])

    def _changed(self, records: Sequence[tuple[str, int]]) -> Blocks:
        """Details as known, and fresh ones of the jobs that squeue shows changed."""
        known = self._watch.still_good(records)
        stale = [job_id for _, job_id in records if job_id not in known]
        if not self._watch.few(len(stale), len(records)):
            return self._details()
        found = self._again(stale)
        found.chunks.update(known)
        return found

    def forget(self, job_ids: Iterable[int]) -> None:
        """We are about to change these jobs."""
        self._watch.forget(job_ids)

    def _jobs(
        self,
        records: list[tuple[str, int]],
        found: Blocks,
        now: EpochS,
        problems: list[Problem],
    ) -> list[Job]:
        hidden = (found.chunks.keys() | found.doubtful) - {job_id for _, job_id in records}
        again = self._squeue.unfolded(sorted(hidden)[:_MAX_UNFOLDED])
        chunks = found.chunks
        records = [*records, *((one, self._squeue.id_of(one)) for one in again)]
        missing = [i for _, i in records if i not in chunks and i not in found.asked]
        chunks.update(self._again(missing[:_MAX_AGAIN]).chunks)
        fresh: dict[tuple[str, Chunk | None], _Cached] = {}
        jobs: list[Job] = []
        for one, job_id in records:
            key = (one, chunks.get(job_id))
            cached = self._cache.get(key)
            if cached is None:
                cached = self._parse(key, job_id)
            if (begin := cached.job.begin_s) is not None and begin <= now:
                cached = _Cached(replace(cached.job, begin_s=None), cached.problems)
            fresh[key] = cached
            jobs.append(cached.job)
            problems.extend(cached.problems)
        self._cache = fresh
        return jobs

    def _parse(self, key: tuple[str, Chunk | None], job_id: int) -> _Cached:
        raw, chunk = key
        record = self._framing.cut(raw)
        if record is None:
            raise SlurmCommandError(
                f"squeue: job {job_id} shows other fields than asked for; unknown squeue version?"
            )
        problems: list[Problem] = []
        job = job_of_record(record, chunk, problems)
        if chunk is None and not job.state.ended:
            problems.append(
                Problem(
                    "job",
                    str(job_id),
                    "details missing or ambiguous (line breaks in name, comment or path?)",
                )
            )
        return _Cached(job, tuple(problems))

    def _again(self, job_ids: Sequence[int]) -> Blocks:
        """Details of single jobs: only a job's own text can stand in its answer.

        Other ids in the answer (tasks of the same array, or forged ones) are doubtful.
        """
        found = Blocks(asked=set(job_ids))
        if not job_ids:
            return found
        commands = [f"show job {job_id}" for job_id in job_ids]
        parts = run_batch(self._runner, commands, options=("-a", "-d"))
        if parts.answer.code != 0:
            error = failure(["scontrol", "-a", "-d", "<< show job"], parts.answer)
            if isinstance(error, SlurmUnavailableError):
                raise error
        for job_id, text in zip(job_ids, parts.texts, strict=True):
            answer = split_blocks(text)
            found.doubtful |= answer.chunks.keys() | answer.doubtful
            chunk = answer.chunks.get(job_id)
            if chunk is not None:
                found.chunks[job_id] = chunk
        return found
