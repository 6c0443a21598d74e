"""The simulated Slurm behind the same port as the real one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from slurm_ext.model.decision import JobPatch, ReservationSpec
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.observation import Controller, Observation, Reservation
from slurm_ext.model.restart import JobSignal
from slurm_ext.slurm.port import Outcome

from .core import SlurmCore
from .record import Phase, SimJob

OWN_PREFIX = "slurm_ext_"

_CONFIG = {
    "clustername": "sim",
    "prioritytype": "priority/multifactor",
    "priorityflags": "ACCRUE_ALWAYS",
    "selecttype": "select/cons_tres",
    "selecttypeparameters": "CR_CORE_MEMORY",
    "schedulertype": "sched/backfill",
}


class SimSlurm:
    """Observations of, and changes to, a :class:`SlurmCore`; implements ``SlurmPort``.

    ``before_call`` may raise :class:`slurm_ext.errors.SlurmUnavailableError` to play an outage.
    """

    def __init__(self, core: SlurmCore, before_call: Callable[[str], None] | None = None) -> None:
        self._core = core
        self._before = before_call or (lambda _: None)
        self._counts: dict[str, int] = {}
        self._controller = Controller((22, 5, 8), "sim", dict(_CONFIG))

    def _called(self, name: str) -> None:
        self._before(name)
        self._counts[name] = self._counts.get(name, 0) + 1

    # -- reading -------------------------------------------------------------------------

    def controller(self) -> Controller:
        self._called("config")
        return self._controller

    def observe(self, *, site_factors: bool = False) -> Observation:
        self._called("observe")
        now_s = self._core.events.now_s
        self._core.forget_reservations()
        return Observation(
            now_s=now_s,
            controller=self._controller,
            jobs=tuple(j.shown(now_s) for j in self._core.jobs.values()),
            nodes=self._core.cluster.records(),
            partitions=self._core.cluster.partitions,
            reservations=tuple(
                replace(r, active=r.start_s <= now_s < r.end_s)
                for r in self._core.reservations.values()
            ),
        )

    def look(self, keys: Sequence[JobKey]) -> Mapping[JobKey, Job]:
        self._called("look")
        found = {}
        for key in keys:
            job = self._core.jobs.get(key.job_id) or self._core.ended.get(key.job_id)
            if job is not None and job.key == key:
                found[key] = job.shown(self._core.events.now_s)
        return found

    def rpc_counts(self) -> Mapping[str, int]:
        return dict(self._counts)

    # -- writing -------------------------------------------------------------------------

    def patch(self, patches: Sequence[JobPatch]) -> tuple[Outcome, ...]:
        outcomes = tuple(self._one(p) for p in patches)
        if any(o.ok for o in outcomes):
            self._core.wake(self._core.settings.update_delay_s)
        return outcomes

    def _one(self, patch: JobPatch) -> Outcome:
        self._called("update")
        job = self._core.jobs.get(patch.key.job_id)
        if job is None or job.key != patch.key:
            return Outcome(patch.key, False, True, "Invalid job id specified")
        if job.phase is not Phase.PENDING:
            if _only_text(patch):
                self._apply_text(job, patch)
                return Outcome(patch.key, True)
            return Outcome(patch.key, False, True, "Job is no longer pending execution")
        if patch.shape is not None:
            return Outcome(patch.key, False, False, "the simulated Slurm changes no shapes")
        unknown = [n for n in (*(patch.required_nodes or ()), *(patch.excluded_nodes or ()))
                   if n not in self._core.cluster.index]  # fmt: skip
        if unknown:
            return Outcome(patch.key, False, False, f"Invalid node name specified: {unknown[0]}")
        self._apply(job, patch)
        return Outcome(patch.key, True)

    def _apply(self, job: SimJob, patch: JobPatch) -> None:
        now_s, index = self._core.events.now_s, self._core.cluster.index
        self._apply_text(job, patch)
        if patch.begin_s is not None:
            job.begin_s = patch.begin_s if patch.begin_s > now_s else 0
        if patch.hold is not None:
            job.held = patch.hold
        if patch.required_nodes is not None:
            job.required = tuple(sorted(index[n] for n in patch.required_nodes))
            job.request = replace(job.request, required_nodes=patch.required_nodes)
        if patch.excluded_nodes is not None:
            job.excluded = tuple(sorted(index[n] for n in patch.excluded_nodes))
            job.request = replace(job.request, excluded_nodes=patch.excluded_nodes)
        self._core.line_up(job)

    def _apply_text(self, job: SimJob, patch: JobPatch) -> None:
        """What Slurm also takes for a running job."""
        if patch.site_factor is not None:
            job.site_factor = patch.site_factor
        if patch.admin_comment is not None:
            job.admin_comment = patch.admin_comment
        job.seen = None

    def requeue(
        self, addresses: Sequence[tuple[JobKey, str]], *, failed: bool = False
    ) -> tuple[Outcome, ...]:
        outcomes = []
        for key, _ in addresses:
            self._called("requeue")
            job = self._core.jobs.get(key.job_id)
            if job is None or job.key != key or job.phase is not Phase.RUNNING:
                outcomes.append(Outcome(key, False, True, "Job is not running"))
                continue
            self._core.requeue(job)
            outcomes.append(Outcome(key, True))
        return tuple(outcomes)

    def signal(self, signals: Sequence[JobSignal]) -> tuple[Outcome, ...]:
        """Simulated jobs save nothing on a signal; what a requeue loses is counted there."""
        self._called("signal")
        return tuple(Outcome(one.key, one.key.job_id in self._core.jobs) for one in signals)

    def workdirs(self, job_ids: Sequence[int]) -> Mapping[int, str]:
        return {}

    def reserve(self, spec: ReservationSpec) -> Outcome:
        self._called("create_reservation")
        if spec.name in self._core.reservations:
            return Outcome(None, False, False, "Reservation name already used")
        self._core.reservations[spec.name] = Reservation(
            spec.name, spec.start_s, spec.start_s + spec.duration_s, spec.nodes,
            frozenset(spec.flags), spec.users,
        )  # fmt: skip
        self._core.changed = True
        return Outcome(None, True)

    def unreserve(self, name: str) -> Outcome:
        self._called("delete_reservation")
        if not name.startswith(OWN_PREFIX):
            return Outcome(None, False, False, f"{name} is not ours")
        if self._core.reservations.pop(name, None) is None:
            return Outcome(None, False, True, "Requested reservation is invalid")
        self._core.changed = True
        self._core.wake(0)
        return Outcome(None, True)


def _only_text(patch: JobPatch) -> bool:
    """Whether a patch changes nothing that decides when and where the job starts."""
    return (
        patch.begin_s is None
        and patch.hold is None
        and patch.required_nodes is None
        and patch.excluded_nodes is None
        and patch.shape is None
    )
