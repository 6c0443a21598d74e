"""Everything that changes Slurm: patches, requeues, reservations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from slurm_ext.model.decision import JobPatch, ReservationSpec
from slurm_ext.model.job import BaseState, Job, JobKey
from slurm_ext.model.ledger import parse_note, with_note
from slurm_ext.model.restart import JobSignal
from slurm_ext.slurm.actions import (
    RESERVATION_PREFIX,
    Command,
    Said,
    address_error,
    join,
    patch_commands,
    read_answer,
    reservation_words,
    signal_words,
    start_guard,
)
from slurm_ext.slurm.batch import run_batch
from slurm_ext.slurm.port import Outcome
from slurm_ext.slurm.run import Answer, Runner, escape, failure

_GUARD_LEASE_S = 30
FAILED = frozenset({BaseState.FAILED, BaseState.OUT_OF_MEMORY, BaseState.BOOT_FAIL})
_NOT_PENDING = Said(False, True, "not pending any more")
_NOT_OURS = Said(False, True, "held by someone else meanwhile")

Look = Callable[[Sequence[JobKey]], Mapping[JobKey, Job]]


def _on_fresh_comment(patch: JobPatch, job: Job | None) -> JobPatch:
    """The patch with its note put into what the AdminComment says now.

    It was made from an earlier look; what another tool has written since must not be lost.
    """
    if patch.admin_comment is None or job is None:
        return patch
    text = with_note(job.admin_comment, parse_note(patch.admin_comment))
    return replace(patch, admin_comment=text)


def _pending_only(patch: JobPatch) -> bool:
    """Whether the patch would do harm to a job that has started."""
    return patch.required_nodes is not None or patch.shape is not None


class Writer:
    """Writes through ``scontrol``: one process a batch, fed by its standard input.

    ``look`` gives fresh records; ``siblings`` every record of some job ids, array tasks included.
    """

    def __init__(
        self,
        runner: Runner,
        look: Look,
        siblings: Callable[[Sequence[int]], Sequence[Job]],
        *,
        batch: int = 200,
    ) -> None:
        self._runner = runner
        self._look = look
        self._siblings = siblings
        self._batch = batch

    def patch(self, patches: Sequence[JobPatch]) -> tuple[Outcome, ...]:
        """Write the patches; one outcome each, in order.

        A node list (an empty one too), a shape or a hold is only sent to a job that is pending at
        this moment, and in a way that slurmctld refuses if it has started meanwhile. A job that
        someone else holds by now is neither held nor released.
        """
        verdicts: dict[int, Said] = {}
        plans: dict[int, tuple[Command, ...]] = {}
        delicate = [
            p.key
            for p in patches
            if _pending_only(p)
            or p.hold is not None
            or p.admin_comment is not None
            or p.begin_s is not None
        ]
        seen = dict(self._look(delicate)) if delicate else {}
        patches = [_on_fresh_comment(p, seen.get(p.key)) for p in patches]
        tasks = self._tasks_apart(seen)
        unguarded = self._lease_unguarded(patches, seen)
        for index, patch in enumerate(patches):
            job = seen.get(patch.key)
            guard = None
            if patch.hold is False and (job is None or (job.held and not job.held_by_operator)):
                # A release lifts any hold; after a requeue (another key) none is ours.
                verdicts[index] = _NOT_PENDING if job is None else _NOT_OURS
                continue
            if _pending_only(patch) or patch.hold is True:
                if job is None or not job.state.pending or unguarded.get(index, True) is False:
                    verdicts[index] = _NOT_PENDING
                    continue
                if patch.hold is True and job.held:
                    # A second hold would take the job from the owner who holds it.
                    verdicts[index] = _NOT_OURS
                    continue
                if _pending_only(patch):
                    guard = start_guard(job)
                    if guard is None and patch.begin_s is None:
                        # The guard lease must not outlive this call.
                        patch = replace(patch, begin_s=job.begin_s or 0)
            try:
                request = job.request if job else None
                whole = job is not None and patch.address == str(job.job_id)
                apart = tasks.get(patch.key, "") if whole else ""
                plans[index] = patch_commands(patch, guard, request, apart)
            except ValueError as error:
                verdicts[index] = Said(False, detail=str(error))
        verdicts |= self._send(plans)
        partial = [i for i, said in verdicts.items() if said.partial]
        waiting = self._look([patches[i].key for i in partial]) if partial else {}
        for i in partial:
            if patches[i].key in waiting and waiting[patches[i].key].state.pending:
                verdicts[i] = Said(True, detail=verdicts[i].detail)
        held = [p for i, p in enumerate(patches) if p.hold is True and verdicts[i].ok]
        if held:
            self._release_running(held)
        return tuple(
            Outcome(patch.key, verdicts[i].ok, verdicts[i].benign, verdicts[i].detail)
            for i, patch in enumerate(patches)
        )

    def requeue(
        self, addresses: Sequence[tuple[JobKey, str]], *, failed: bool = False
    ) -> tuple[Outcome, ...]:
        """``requeue Incomplete``, after a fresh look: a plain array id would restart all tasks."""
        seen = self._look([key for key, _ in addresses])
        verdicts: dict[int, Said] = {}
        plans: dict[int, tuple[Command, ...]] = {}
        for index, (key, address) in enumerate(addresses):
            job = seen.get(key)
            error = address_error(address)
            if error:
                verdicts[index] = Said(False, detail=error)
            elif job is None or not (job.state.base in FAILED if failed else job.state.occupies):
                verdicts[index] = Said(False, True, "not running any more")
            elif address != job.address:
                # A plain array id would restart every task.
                verdicts[index] = Said(False, detail=f"{address} is not {job.address}")
            else:
                words = ("requeue", address) if failed else ("requeue", "Incomplete", address)
                plans[index] = (Command(words),)
        verdicts |= self._send(plans)
        return tuple(
            Outcome(key, verdicts[i].ok, verdicts[i].benign, verdicts[i].detail)
            for i, (key, _) in enumerate(addresses)
        )

    def signal(self, signals: Sequence[JobSignal]) -> tuple[Outcome, ...]:
        """``scancel --signal`` to each job that runs at this moment, one process each."""
        seen = self._look([one.key for one in signals])
        return tuple(self._signal(one, seen.get(one.key)) for one in signals)

    def _signal(self, one: JobSignal, job: Job | None) -> Outcome:
        if job is None or not job.state.running:
            return Outcome(one.key, False, True, "not running any more")
        if one.address != job.address:
            return Outcome(one.key, False, detail=f"{one.address} is not {job.address}")
        try:
            words = signal_words(one)
        except ValueError as error:
            return Outcome(one.key, False, detail=str(error))
        answer = self._runner.run(words, merge=True)
        said = read_answer(answer.stdout)
        if answer.code and "Invalid job id" in answer.stdout:
            return Outcome(one.key, False, True, said.detail)
        if answer.code:
            self._raise_if_unavailable(words[:1], answer)
        return Outcome(one.key, answer.code == 0, detail=said.detail)

    def reserve(self, spec: ReservationSpec) -> Outcome:
        """Create a reservation; an overlap or a missing node is an outcome, not an error."""
        try:
            words = reservation_words(spec)
        except ValueError as error:
            return Outcome(None, False, detail=str(error))
        return self._one(words)

    def unreserve(self, name: str) -> Outcome:
        """Delete a reservation whose name begins with ours."""
        if not name.startswith(RESERVATION_PREFIX) or not Command((name,)).stdin:
            return Outcome(None, False, detail=f"not a reservation of ours: {name!r}")
        outcome = self._one(("delete", f"ReservationName={name}"))
        gone = not outcome.ok and "Requested reservation is invalid" in outcome.detail
        return replace(outcome, benign=True) if gone else outcome

    def _one(self, words: Sequence[str]) -> Outcome:
        answer = self._run(words)
        detail = escape(answer.stdout)
        return Outcome(None, answer.code == 0, detail=detail)

    def _run(self, words: Sequence[str]) -> Answer:
        argv = ["scontrol", *words]
        answer = self._runner.run(argv, merge=True)
        self._raise_if_unavailable(argv[:3], answer)
        return answer

    def _raise_if_unavailable(self, argv: Sequence[str], answer: Answer) -> None:
        error = failure(argv, answer)
        if answer.code != 0 and error.exit_code == 3:
            raise error

    def _send(self, plans: Mapping[int, tuple[Command, ...]]) -> dict[int, Said]:
        """Run all commands in order of the patches, batched; the verdict of each patch."""
        said: dict[int, list[Said]] = {index: [] for index in plans}
        waiting: list[tuple[int, Command]] = []

        def flush() -> None:
            for start in range(0, len(waiting), self._batch):
                some = waiting[start : start + self._batch]
                parts = run_batch(self._runner, [c.line for _, c in some], merge=True)
                self._raise_if_unavailable(["scontrol"], parts.answer)
                for (index, _), text in zip(some, parts.texts, strict=True):
                    said[index].append(read_answer(text))
            waiting.clear()

        for index, commands in plans.items():
            if all(command.stdin for command in commands):
                waiting.extend((index, command) for command in commands)
                continue
            # Text that scontrol's line reader would change: as arguments, one process each.
            flush()
            for command in commands:
                try:
                    said[index].append(read_answer(self._run(command.words).stdout))
                except ValueError as error:  # a zero byte in the text
                    said[index].append(Said(False, detail=str(error)))
        flush()
        return {index: join(some) for index, some in said.items()}

    def _tasks_apart(self, seen: Mapping[JobKey, Job]) -> dict[JobKey, str]:
        """The task lists of arrays of which other tasks wait on their own.

        Those were changed one by one, or requeued: a change to the plain id of the array would
        undo their begin times and lift their holds. A list of all that the record stands for
        does not split it.
        """
        arrays = {job.job_id: job for job in seen.values() if job.array_tasks and job.state.pending}
        others = self._siblings(list(arrays)) if arrays else ()
        apart = {
            one.array_job_id
            for one in others
            if one.state.pending and one.array_job_id in arrays and one.job_id != one.array_job_id
        }
        return {
            arrays[job_id].key: arrays[job_id].array_tasks.partition("%")[0].strip("[]")
            for job_id in apart
        }

    def _lease_unguarded(
        self, patches: Sequence[JobPatch], seen: dict[JobKey, Job]
    ) -> dict[int, bool]:
        """Give what has no start guard a short lease first, so that it cannot start.

        Tells for each of them whether it is still pending after that; ``seen`` keeps the begin
        time of before.
        """
        plans: dict[int, tuple[Command, ...]] = {}
        for index, patch in enumerate(patches):
            job = seen.get(patch.key)
            if _pending_only(patch) and job is not None and start_guard(job) is None:
                lease = Command(
                    ("update", f"JobId={patch.address}", f"StartTime=now+{_GUARD_LEASE_S}")
                )
                if job.state.pending and not address_error(patch.address):
                    plans[index] = (lease,)
        if not plans:
            return {}
        said = self._send(plans)
        again = self._look([patches[index].key for index in plans])
        return {
            index: said[index].ok
            and (job := again.get(patches[index].key)) is not None
            and job.state.pending
            for index in plans
        }

    def _release_running(self, held: Sequence[JobPatch]) -> None:
        """Undo the hold on what runs: a hold on an array, or one that came too late, takes
        effect when the job is requeued."""
        stray = [
            job
            for job in self._siblings([patch.key.job_id for patch in held])
            if job.state.occupies and job.priority == 0
        ]
        if stray:
            self._send({i: (Command(("release", job.address)),) for i, job in enumerate(stray)})
