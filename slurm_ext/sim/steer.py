"""The daemon's cycle over a port, without its clock, sockets and journal: what `enforce` simulates.

The ledger is a dictionary here; entries are stored before patches are sent, as the daemon commits
them to the journal first.
"""

from __future__ import annotations

from dataclasses import replace

from slurm_ext.engine.cycle import Step, decide
from slurm_ext.engine.settings import Context, Memory
from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.model.decision import Lever
from slurm_ext.model.job import JobKey
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.port import SlurmPort


class Steering:
    """observe -> decide -> commit -> patch, once a call. ``context`` without ledger and memory."""

    def __init__(self, port: SlurmPort, context: Context) -> None:
        self.port = port
        self.context = context
        self.ledger: dict[JobKey, LedgerEntry] = dict(context.ledger)
        self.memory = Memory()
        self.cycles = 0
        self.patches = 0
        self.failed_cycles = 0
        self.last: Step | None = None

    def cycle(self, now_s: EpochS) -> EpochS:
        """One cycle; returns when the next is due."""
        levers = self.context.levers
        try:
            obs = self.port.observe(site_factors=levers.site_factor)
        except SlurmUnavailableError:
            self.failed_cycles += 1
            return now_s + levers.interval_s
        step = decide(obs, replace(self.context, ledger=self.ledger, memory=self.memory))
        self.memory = step.memory
        for entry in step.entries:
            self.ledger[entry.key] = entry
        for key in step.gone:
            self.ledger.pop(key, None)
        self._apply(step)
        self.cycles += 1
        self.patches += len(step.plan.patches)
        self.last = step
        due_s = now_s + levers.interval_s
        if step.plan.wake_at_s is not None:
            due_s = min(due_s, step.plan.wake_at_s)
        return max(now_s + 1, due_s)

    def _apply(self, step: Step) -> None:
        """The reservation of a job that starts goes before its release, a new one comes after."""
        for name in step.plan.unreserve:
            self.port.unreserve(name)
        requeues = [(p.key, p.address) for p in step.plan.patches if p.lever is Lever.REQUEUE]
        others = [p for p in step.plan.patches if p.lever is not Lever.REQUEUE]
        if others:
            self.port.patch(others)
        if requeues:
            self.port.requeue(requeues)
        for spec in step.plan.reserve:
            self.port.reserve(spec)
