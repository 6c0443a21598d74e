"""Which jobs' details must be asked for again, judged by what squeue shows of them. Pure.

``scontrol -d show job`` of 10,000 jobs is 12 MB of text and half of the work of a look, for
slurmctld as well. Details change only together with something that squeue shows, with one
exception: squeue before 23.11 has no column for ``ExcNodeList``. What we write there ourselves
is forgotten (:meth:`Watch.forget`); a change by others is seen by the next full look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from slurm_ext.slurm.details import Chunk
from slurm_ext.slurm.squeue import Framing
from slurm_ext.slurm.states import job_state_of_text

FULL_EVERY = 20
"""Looks between two that ask for the details of every job."""
SINGLE_SHARE = 0.01
"""Asking for one job costs slurmctld and the client as much as about 100 jobs of a full answer."""

_NO_TASKS = frozenset({"", "N/A", "(null)"})


class _Seen(NamedTuple):
    """The raw record of the last look, and the details that belong to it (None: not known)."""

    raw: str
    chunk: Chunk | None


class Watch:
    """Details of the last look, each with the squeue record it was read for.

    ``single_share``: up to this part of the jobs is asked for one by one.
    """

    def __init__(self, framing: Framing, single_share: float = SINGLE_SHARE) -> None:
        self._framing = framing
        self._share = single_share
        self._seen: dict[int, _Seen] = {}
        self._since_full = 0
        self._many = True

    @property
    def full(self) -> bool:
        """Whether to ask for everything at once, side by side with squeue."""
        return self._many or self._since_full >= FULL_EVERY

    def few(self, some: int, jobs: int) -> bool:
        """Whether that many of all jobs are better asked for one by one."""
        return some <= jobs * self._share

    def still_good(self, records: Iterable[tuple[str, int]]) -> dict[int, Chunk]:
        """Details that need not be asked for again, by job id."""
        found: dict[int, Chunk] = {}
        for raw, job_id in records:
            seen = self._seen.get(job_id)
            if seen is not None and seen.chunk is not None and self._same(seen.raw, raw):
                found[job_id] = seen.chunk
        return found

    def keep(
        self, records: Sequence[tuple[str, int]], chunks: Mapping[int, Chunk], *, full: bool
    ) -> None:
        """Remember this look, and nothing older.

        ``full``: the details were read side by side with squeue, perhaps before it. They are
        known to belong to the record only if it looked the same in the look before.
        """
        fresh: dict[int, _Seen] = {}
        changed = 0
        for raw, job_id in records:
            before = self._seen.get(job_id)
            same = before is not None and self._same(before.raw, raw)
            passing = not (same and before and before.chunk) and self._passing(raw)
            changed += passing or not same
            kept = not passing and (same or not full)
            fresh[job_id] = _Seen(raw, chunks.get(job_id) if kept else None)
        self._seen = fresh
        self._many = not self.few(changed, len(fresh))
        self._since_full = 0 if full else self._since_full + 1

    def forget(self, job_ids: Iterable[int]) -> None:
        """These jobs are being changed by us: ask for their details again."""
        for job_id in job_ids:
            seen = self._seen.get(job_id)
            if seen is not None:
                self._seen[job_id] = seen._replace(chunk=None)

    def _same(self, old: str, new: str) -> bool:
        return old == new or self._framing.lasting(old) == self._framing.lasting(new)

    def _passing(self, raw: str) -> bool:
        """Whether the details may change although squeue shows the same.

        squeue folds separately changed tasks back into a waiting array, and a job that starts
        or ends gives its nodes back one by one.
        """
        state, tasks = self._framing.state_and_tasks(raw)
        if state == "PENDING":
            return tasks not in _NO_TASKS and not tasks.isdecimal()
        return state != "RUNNING" and not job_state_of_text(state).ended
