"""The fall-back: the same look from ``--json``, an order of magnitude dearer than text.

22.05 has no JSON for partitions and reservations; those two are then read from text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from slurm_ext.errors import SlurmCommandError
from slurm_ext.model.job import Job
from slurm_ext.model.observation import (
    Controller,
    Observation,
    Partition,
    Problem,
    Reservation,
)
from slurm_ext.model.units import EpochS
from slurm_ext.slurm import json_nodes, text
from slurm_ext.slurm.json import parse_jobs, reports
from slurm_ext.slurm.priorities import NONE, Priorities, read_priorities
from slurm_ext.slurm.reader import with_reservations
from slurm_ext.slurm.run import Runner, escape
from slurm_ext.slurm.shares import Doubts, check_masks, unexplained

_FIRST_SCONTROL_JSON = (23, 2)
_FIRST_WITHOUT_SHARED = (26, 5)
LAST_WHOLE = "v0.0.44"
"""v0.0.45 shows of no job whether it asks for whole nodes (``--exclusive``)."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What one look has read, before it is put together. ``jobs``: with what is wrong of them."""

    controller: Controller
    now_s: EpochS
    jobs: tuple[list[Job], list[Problem]]
    nodes: Any
    partitions: list[Partition]
    reservations: list[Reservation]
    problems: list[Problem]
    priorities: Priorities


def assemble(parts: Parts, doubts: Doubts) -> Observation:
    """The observation that the JSON documents and lists of one look stand for."""
    jobs, unread = parts.jobs
    nodes, more = json_nodes.parse_nodes(parts.nodes)
    problems = unread + more + parts.problems
    nodes = with_reservations(nodes, parts.reservations)
    by_name = {one.name: one for one in nodes}
    found: list[Problem] = []
    jobs = [check_masks(job, by_name, found) if job.alloc else job for job in jobs]
    jobs = parts.priorities.joined(jobs)
    problems += parts.priorities.problems(parts.controller)
    problems += doubts.lasting([*found, *unexplained(jobs, nodes)])
    return Observation(
        now_s=parts.now_s,
        controller=parts.controller,
        jobs=tuple(jobs),
        nodes=tuple(nodes),
        partitions=tuple(parts.partitions),
        reservations=tuple(parts.reservations),
        problems=tuple(problems),
    )


def text_lists(runner: Runner) -> tuple[list[Partition], list[Reservation], list[Problem]]:
    """Partitions and reservations from text, where JSON lacks them or too much of them."""
    partitions, problems = text.parse_partitions(
        runner.ask(["scontrol", "-a", "show", "partition"])
    )
    reservations, more = text.parse_reservations(runner.ask(["scontrol", "show", "reservation"]))
    return partitions, reservations, problems + more


class JsonReader:
    """Reads Slurm through ``squeue --json`` and ``scontrol show … --json``."""

    def __init__(self, runner: Runner) -> None:
        self._doubts = Doubts()
        self._runner = runner

    def observe(self, *, site_factors: bool = False) -> Observation:
        """Everything of one moment; raises if any part is missing or carries an error."""
        controller, now = text.parse_config(self._runner.ask(["scontrol", "show", "config"]))
        if now is None:
            raise SlurmCommandError("scontrol show config: no clock in the answer")
        modern = controller.version[:2] >= _FIRST_SCONTROL_JSON
        form = (
            f"--json={LAST_WHOLE}" if controller.version[:2] >= _FIRST_WITHOUT_SHARED else "--json"
        )
        with ThreadPoolExecutor(max_workers=4) as pool:
            queue = pool.submit(self._ask, ["squeue", "-a", "-t", "all", "--local", form])
            node = pool.submit(
                self._ask,
                ["scontrol", "-a", "-d", "show", "node", "--json"]
                if modern
                else ["sinfo", "--json"],
            )
            rest = (
                pool.submit(self._modern, now) if modern else pool.submit(text_lists, self._runner)
            )
            asked = pool.submit(read_priorities, self._runner) if site_factors else None
            partitions, reservations, others = rest.result()
            parts = Parts(
                controller=controller,
                now_s=now,
                jobs=parse_jobs(queue.result(), now),
                nodes=node.result(),
                partitions=partitions,
                reservations=reservations,
                problems=others,
                priorities=asked.result() if asked else NONE,
            )
        return assemble(parts, self._doubts)

    def _modern(self, now: EpochS) -> tuple[list[Partition], list[Reservation], list[Problem]]:
        parts = self._ask(["scontrol", "-a", "show", "partition", "--json"])
        resv = self._ask(["scontrol", "show", "reservation", "--json"])
        partitions, problems = json_nodes.parse_partitions(parts)
        reservations, more = json_nodes.parse_reservations(resv, now)
        return partitions, reservations, problems + more

    def _ask(self, argv: Sequence[str]) -> Any:
        output = self._runner.ask(argv)
        try:
            document = json.loads(output)
        except (ValueError, RecursionError) as error:
            raise SlurmCommandError(f"{' '.join(argv)}: no JSON: {error}") from error
        errors, _warnings = reports(document)
        if errors:
            raise SlurmCommandError(f"{' '.join(argv)}: {escape('; '.join(errors))}")
        return document
