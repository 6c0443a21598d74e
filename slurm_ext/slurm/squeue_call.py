"""Runs ``squeue`` and cuts its answer into raw records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from slurm_ext.errors import SlurmCommandError
from slurm_ext.slurm.run import Runner, failure
from slurm_ext.slurm.squeue import ARGUMENTS, Framing


class Squeue:
    """``squeue`` with secret separators (:class:`slurm_ext.slurm.squeue.Framing`)."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.framing = Framing.fresh()

    def ask(self, job_ids: Sequence[int] = (), *options: str) -> list[str]:
        """Raw records of all jobs, or of these and of all tasks of these arrays.

        :raises SlurmCommandError: the answer is not whole.
        """
        argv = ["squeue", *ARGUMENTS, *options]
        if job_ids:
            argv += ["-j", ",".join(map(str, job_ids))]
        answer = self._runner.run(argv, env={"SQUEUE_FORMAT2": self.framing.format})
        if job_ids and "Invalid job id specified" in answer.stderr:
            return []
        if answer.code != 0:
            raise failure(argv, answer)
        raw, rest = self.framing.records(answer.stdout)
        if rest:
            raise SlurmCommandError("squeue: the answer ends within a record")
        return raw

    def unfolded(self, job_ids: Sequence[int]) -> list[str]:
        """Records of tasks that squeue folds back into their array (changed separately)."""
        if not job_ids:
            return []
        raw = self.ask(job_ids, "-r")
        # An array that is new itself comes out as all its tasks: it waits for the next look.
        count = Counter(self.id_of(one) for one in raw)
        return [one for one in raw if count[self.id_of(one)] == 1]

    def workdirs(self, job_ids: Sequence[int]) -> dict[int, str]:
        """The directories jobs were submitted from; jobs that are gone are missing.

        :raises SlurmCommandError: squeue failed.
        """
        if not job_ids:
            return {}
        framing = self.framing
        argv = ["squeue", *ARGUMENTS, "-j", ",".join(map(str, sorted(set(job_ids))))]
        format = f"jobid:{framing.field},workdir:{framing.record}"
        answer = self._runner.run(argv, env={"SQUEUE_FORMAT2": format})
        if "Invalid job id specified" in answer.stderr:
            return {}
        if answer.code != 0:
            raise failure(argv, answer)
        found = [one.partition(framing.field) for one in framing.records(answer.stdout)[0]]
        return {int(job_id): path for job_id, _, path in found if job_id.isdecimal()}

    def id_of(self, raw: str) -> int:
        """:raises SlurmCommandError: the record does not begin with a job id."""
        head, _, _ = raw.partition(self.framing.field)
        if not (head.isdecimal() and head.isascii() and len(head) < 12):
            raise SlurmCommandError("squeue: a record without a job id; unknown squeue version?")
        return int(head)
