"""Wanted against seen: the patches a cycle sends, and the ledger entries that go with them.

Level-triggered: everything follows from this cycle's observation and the ledger; a patch carries
absolute values, so sending it twice does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from slurm_ext.model.decision import Decision, JobPatch, Lever, Mode, Shape, Verdict
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.ledger import LedgerEntry, UndoNote, with_note
from slurm_ext.model.reshape import reshaped
from slurm_ext.model.units import EpochS

from .ladder import rungs
from .restore import empty, note_of, restoration, tidying
from .settings import LeverSettings
from .view import Aside, JobView, pinnable


@dataclass(slots=True)
class Reconciler:
    """Collects patches and entries of one cycle.

    ``frontier``: waiting jobs Slurm could start before the next cycle; only these are deferred.
    ``plugs``: the first blocked job of each partition; outside the frontier it must be seen.
    ``overtaking``: jobs to start that would take the room of others; held until those run.
    ``unready``: ids of jobs on their way back into the queue, for which nothing is written yet.
    ``can_rank``: SiteFactor has an effect here (priority/multifactor).
    ``entries``: the changed ledger entries, to be committed before the patches are sent.
    ``limit``: patches at most (0: any number); what is over it is not sent and not in the ledger.
    ``captured``: some START job had to be taken hold of first, so look again at once.
    """

    now_s: EpochS
    levers: LeverSettings
    decisions: Mapping[JobKey, Decision]
    frontier: frozenset[JobKey]
    can_rank: bool
    patches: list[JobPatch] = field(default_factory=list)
    entries: dict[JobKey, LedgerEntry] = field(default_factory=dict)
    limit: int = 0
    plugs: frozenset[JobKey] = frozenset()
    overtaking: frozenset[JobKey] = frozenset()
    unready: frozenset[int] = frozenset()
    captured: bool = False
    dropped: int = 0
    _factors: dict[JobKey, int] = field(default_factory=dict)

    def run(
        self, views: Sequence[JobView], asides: Sequence[Aside], running: Sequence[Job]
    ) -> None:
        """Work out all differences; ``views`` in planned order."""
        if self.can_rank:
            self._rank(views)
        for view in views:
            self._one(view)
        for aside in asides:
            if aside.entry is not None:
                # The user's own hold or dependency stays; only what we wrote goes.
                self._restore(aside.job, aside.entry, aside.reason.code)
        for job in running:
            self._tidy(job)

    def keep_up(self, ledger: Mapping[JobKey, LedgerEntry], views: Sequence[JobView]) -> None:
        """Write into the ledger what the observation taught us about marks that stand."""
        for view in views:
            if view.entry is not None and view.key not in self.entries:
                known = ledger.get(view.key)
                if known is not None and known != view.entry:
                    self.entries[view.key] = view.entry

    # -- ranking -------------------------------------------------------------------------

    def _rank(self, views: Sequence[JobView]) -> None:
        by_partition: dict[str, list[JobView]] = {}
        for view in views:
            if view.mode is not Mode.OBSERVE and not view.held_by_us and view.job.partitions:
                by_partition.setdefault(view.job.partitions[0], []).append(view)
        for members in by_partition.values():
            ahead = [v for v in members if self._verdict(v) in (Verdict.STARTING, Verdict.START)]
            waiting = [v for v in members if self._verdict(v) is Verdict.WAIT]
            front = [*ahead, *waiting[: self.levers.ladder]]
            chosen = {v.key for v in front}
            rest = [v for v in members if v.key not in chosen]
            for rung in rungs(front, rest):
                self._factors[rung.view.key] = rung.site_factor

    def _verdict(self, view: JobView) -> Verdict:
        return self.decisions[view.key].verdict

    # -- one job -------------------------------------------------------------------------

    def _one(self, view: JobView) -> None:
        if view.key.job_id in self.unready:
            if view.entry is not None:  # what stood on it before must not be forgotten
                self.entries[view.key] = view.entry
            return
        if view.mode is Mode.OBSERVE:
            if view.entry is not None:
                self._restore(_as_submitted(view), view.entry, "mode_observe")
            return
        decision = self.decisions[view.key]
        if (
            view.entry is None
            and decision.verdict in (Verdict.WAIT, Verdict.NEVER)
            and view.key not in self.frontier
            and view.key not in self._factors
        ):
            return  # the ordinary case in a long queue
        entry = view.entry or LedgerEntry(view.key, view.job.address)
        if view.mode is Mode.ORDER:
            if entry.lease_until_s is not None or entry.held or entry.pinned or entry.shape:
                self._restore(_as_submitted(view), entry, "mode_order", keep_rank=True)
            else:
                self._rank_only(view, entry)
            return
        if decision.verdict is Verdict.START:
            self._start(view, entry, decision)
        elif decision.verdict is Verdict.WAIT and view.key in self.frontier:
            self._defer(view, entry)
        elif decision.verdict is Verdict.STARTING:
            self._rank_only(view, entry)
        else:
            self._leave(view, entry)

    def _start(self, view: JobView, entry: LedgerEntry, decision: Decision) -> None:
        entry = self._tried(view, entry)
        pin = self._pin_for(view, entry, decision)
        in_hand = view.leased or view.held_by_us
        shape = self._shape_for(view, entry)
        if view.key in self.overtaking:
            self._defer(view, entry, capture=True)
            return
        if not in_hand and (pin or shape):
            # Only for a job that cannot start under our hands: take hold of it first.
            self.captured = True
            self._defer(view, entry, capture=True)
            return
        nodes = decision.placement.nodes if decision.placement else ()
        changed = replace(
            entry,
            pinned=pin or entry.pinned,
            pinned_at_s=self.now_s if pin else entry.pinned_at_s,
            original_required=entry.original_required if entry.pinned
            else view.job.request.required_nodes,
            shape=view.shape or entry.shape,
            original_shape=view.submitted if view.shape else entry.original_shape,
            released_s=self.now_s,
            planned_nodes=nodes if view.job.array_count == 1 else (),
            planned_rank=decision.rank,
            tasks=decision.tasks,
        )  # fmt: skip
        required = pin if pin else (entry.original_required if entry.pinned else None)
        if not in_hand and required is None:
            # Nothing to write but perhaps the rank: Slurm starts it by itself.
            self._rank_only(view, changed)
            return
        begin_s = max(0, entry.original_begin_s)
        after = replace(changed, lease_until_s=None, pinned=pin, shape=view.shape)
        self._emit(
            view.job, changed, Lever.RELEASE,
            begin_s=(begin_s if begin_s > self.now_s else 0) if view.leased else None,
            hold=False if view.held_by_us else None,
            required_nodes=required,
            shape=shape,
            nodes=_nodes_now(view, entry) if shape is not None else None,
            note=note_of(after),
            why="start",
        )  # fmt: skip

    def _shape_for(self, view: JobView, entry: LedgerEntry) -> Shape | None:
        """What the job must be made to ask for before it starts; None: it does already."""
        if view.shape is None:
            return entry.original_shape if entry.shape is not None else None
        return view.shape if view.shape != entry.shape else None

    def _tried(self, view: JobView, entry: LedgerEntry) -> LedgerEntry:
        """Count a start that Slurm did not make within the grace (an array starts bit by bit)."""
        if entry.released_s is None or view.job.array_tasks:
            return entry
        return replace(entry, released_s=None, failed_starts=entry.failed_starts + 1)

    def _pin_for(self, view: JobView, entry: LedgerEntry, decision: Decision) -> tuple[str, ...]:
        if not self.levers.pin or decision.placement is None or not pinnable(view.job, entry):
            return ()
        return decision.placement.nodes

    def _defer(self, view: JobView, entry: LedgerEntry, *, capture: bool = False) -> None:
        job = view.job
        length_s = self.levers.lease_s
        if capture:
            length_s = min(length_s, max(15, 3 * self.levers.interval_s))
        hold = self.levers.defer == "hold" and not capture
        in_hand = view.leased and not self._due(entry)
        if in_hand or (view.held_by_us and (hold or capture)):
            self._rank_only(view, entry)
            return
        user_begin = view.user_begin_s if view.leased else (job.begin_s or 0)
        since = entry.deferred_since_s if entry.deferred_since_s is not None else self.now_s
        begin_s = max(user_begin, self.now_s + length_s)
        changed = replace(
            entry,
            lease_until_s=None if hold else begin_s,
            # A standing hold that becomes a lease stays on record until it is seen released.
            held=hold or view.held_by_us,
            original_begin_s=user_begin,
            deferred_since_s=since,
            released_s=None,
        )
        self._emit(
            job, changed, Lever.HOLD if hold else Lever.LEASE,
            begin_s=None if hold else begin_s,
            hold=True if hold else (False if view.held_by_us else None),
            required_nodes=entry.original_required if entry.pinned else None,
            note=note_of(replace(changed, pinned=()) if changed.pinned else changed),
            why="capture" if capture else "defer",
        )  # fmt: skip

    def _due(self, entry: LedgerEntry) -> bool:
        assert entry.lease_until_s is not None
        left_s = entry.lease_until_s - self.now_s
        return left_s <= max(self.levers.renew_at * self.levers.lease_s, self.levers.interval_s + 1)

    def _leave(self, view: JobView, entry: LedgerEntry) -> None:
        """Waiting but not exposed: a lease may lapse; a hold, an old pin or a hidden plug ends."""
        stale_pin = entry.pinned and (
            entry.pinned_at_s is None or self.now_s - entry.pinned_at_s > self.levers.pin_ttl_s
        )
        hidden = view.leased and view.key in self.plugs
        if view.held_by_us or stale_pin or hidden:
            self._restore(_as_submitted(view), entry, "not_exposed", keep_rank=True)
        else:
            self._rank_only(view, entry)

    def _rank_only(self, view: JobView, entry: LedgerEntry) -> None:
        note = note_of(entry)
        noted = self.levers.undo_notes and with_note(view.job.admin_comment, note)
        if view.key in self._factors or (noted and noted != view.job.admin_comment):
            self._emit(view.job, entry, Lever.RANK, note=note, why="rank")
        elif view.entry != entry and (view.entry is not None or entry.released_s is not None):
            self.entries[view.key] = entry

    # -- undoing -------------------------------------------------------------------------

    def _restore(self, job: Job, entry: LedgerEntry, why: str, *, keep_rank: bool = False) -> None:
        if entry.pinned and job.reason == "BadConstraints":
            entry = replace(entry, failed_starts=entry.failed_starts + 1)  # not on our nodes
        elif entry.shape is not None and why == "limit_in_slurm":
            entry = replace(entry, failed_starts=entry.failed_starts + 1)  # not in our shape
        after, patch = restoration(job, entry, self.now_s, why, keep_rank=keep_rank)
        if patch is not None and not self.levers.undo_notes:
            patch = replace(patch, admin_comment=None)
        if patch is not None and not empty(patch):
            self._send(patch, after)

    def _tidy(self, job: Job) -> None:
        """Take our note off a job that runs."""
        if self.levers.undo_notes and (patch := tidying(job)) is not None:
            self._send(patch, None)

    # -- output --------------------------------------------------------------------------

    def _emit(
        self,
        job: Job,
        entry: LedgerEntry,
        lever: Lever,
        *,
        begin_s: EpochS | None = None,
        hold: bool | None = None,
        required_nodes: tuple[str, ...] | None = None,
        shape: Shape | None = None,
        nodes: int | None = None,
        note: UndoNote | None,
        why: str,
    ) -> None:
        factor = self._factors.get(job.key)
        if factor is not None:
            entry = replace(entry, site_factor=factor)
            note = None if note is None else replace(note, site_factor=factor)
        comment = None
        if self.levers.undo_notes:
            wanted = with_note(job.admin_comment, note)
            comment = wanted if wanted != job.admin_comment else None
        patch = JobPatch(
            job.key, job.address, lever, site_factor=factor, begin_s=begin_s,
            required_nodes=required_nodes, hold=hold, shape=shape, nodes=nodes,
            admin_comment=comment, why=why,
        )  # fmt: skip
        self._send(patch, entry)

    def _send(self, patch: JobPatch, entry: LedgerEntry | None) -> None:
        if self.limit and len(self.patches) >= self.limit:
            self.dropped += 1
            return
        if entry is not None:
            self.entries[entry.key] = entry
        self.patches.append(patch)


def _nodes_now(view: JobView, entry: LedgerEntry) -> int:
    """What the job asks for before it is given its shape."""
    now = entry.shape or view.submitted
    return now.nodes if now is not None else view.job.request.nodes_min


def _as_submitted(view: JobView) -> Job:
    """The job as its user asked, whatever it was to start with."""
    if view.submitted is None:
        return view.job
    return replace(view.job, request=reshaped(view.job.request, view.submitted))
