"""An in-memory Slurm that obeys patches; it starts nothing by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.model.decision import JobPatch, ReservationSpec
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.observation import Controller, Observation, Reservation
from slurm_ext.model.reshape import reshaped
from slurm_ext.model.restart import JobSignal
from slurm_ext.slurm.port import Outcome


@dataclass
class FakeSlurm:
    """``refuse``: job ids whose patches fail. ``down``: every call raises."""

    obs: Observation
    refuse: set[int] = field(default_factory=set)
    down: bool = False
    sent: list[JobPatch] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    signalled: list[JobSignal] = field(default_factory=list)
    requeued: list[JobKey] = field(default_factory=list)
    directory: str = ""

    def _check(self) -> None:
        if self.down:
            raise SlurmUnavailableError("slurmctld does not answer")

    def controller(self) -> Controller:
        return self.obs.controller

    def observe(self, *, site_factors: bool = False) -> Observation:
        self._check()
        return self.obs

    def look(self, keys: Sequence[JobKey]) -> Mapping[JobKey, Job]:
        wanted = set(keys)
        return {j.key: j for j in self.obs.jobs if j.key in wanted}

    def patch(self, patches: Sequence[JobPatch]) -> tuple[Outcome, ...]:
        self._check()
        jobs = {j.key: j for j in self.obs.jobs}
        outcomes = []
        for patch in patches:
            self.sent.append(patch)
            if patch.key.job_id in self.refuse:
                outcomes.append(Outcome(patch.key, False, detail="Access/permission denied"))
                continue
            jobs[patch.key] = self._changed(jobs[patch.key], patch)
            outcomes.append(Outcome(patch.key, True))
        self.obs = replace(self.obs, jobs=tuple(jobs.values()))
        return tuple(outcomes)

    def _changed(self, job: Job, patch: JobPatch) -> Job:
        if patch.begin_s is not None:
            job = replace(job, begin_s=patch.begin_s or None)
        if patch.required_nodes is not None:
            request = replace(job.request, required_nodes=patch.required_nodes)
            job = replace(job, request=request)
        if patch.shape is not None:
            job = replace(job, request=reshaped(job.request, patch.shape))
        if patch.hold is not None:
            reason = "JobHeldAdmin" if patch.hold else "Priority"
            job = replace(job, priority=0 if patch.hold else 1000, reason=reason)
        if patch.site_factor is not None:
            job = replace(job, priority=job.priority + patch.site_factor)
        if patch.admin_comment is not None:
            job = replace(job, admin_comment=patch.admin_comment)
        return job

    def requeue(
        self, addresses: Sequence[tuple[JobKey, str]], *, failed: bool = False
    ) -> tuple[Outcome, ...]:
        self._check()
        self.requeued += [key for key, _ in addresses]
        return tuple(Outcome(key, key.job_id not in self.refuse) for key, _ in addresses)

    def signal(self, signals: Sequence[JobSignal]) -> tuple[Outcome, ...]:
        self._check()
        self.signalled += signals
        return tuple(Outcome(one.key, one.key.job_id not in self.refuse) for one in signals)

    def workdirs(self, job_ids: Sequence[int]) -> Mapping[int, str]:
        return dict.fromkeys(job_ids, self.directory) if self.directory else {}

    def reserve(self, spec: ReservationSpec) -> Outcome:
        made = Reservation(spec.name, spec.start_s, spec.start_s + spec.duration_s, spec.nodes)
        self.obs = replace(self.obs, reservations=(*self.obs.reservations, made))
        return Outcome(None, True)

    def unreserve(self, name: str) -> Outcome:
        self.deleted.append(name)
        left = tuple(r for r in self.obs.reservations if r.name != name)
        self.obs = replace(self.obs, reservations=left)
        return Outcome(None, True)

    def rpc_counts(self) -> Mapping[str, int]:
        return {}
