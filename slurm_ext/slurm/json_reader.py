"""The fall-back: the same look from ``--json``, an order of magnitude dearer than text.

22.05 has no JSON for partitions and reservations; those two are then read from text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from slurm_ext.errors import SlurmCommandError
from slurm_ext.model.observation import Observation, Partition, Problem, Reservation
from slurm_ext.model.units import EpochS
from slurm_ext.slurm import json_nodes, text
from slurm_ext.slurm.json import parse_jobs, reports
from slurm_ext.slurm.reader import with_reservations
from slurm_ext.slurm.run import Runner, escape
from slurm_ext.slurm.shares import Doubts, check_masks, unexplained

_FIRST_SCONTROL_JSON = (23, 2)


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
        with ThreadPoolExecutor(max_workers=4) as pool:
            queue = pool.submit(self._ask, ["squeue", "-a", "-t", "all", "--local", "--json"])
            node = pool.submit(
                self._ask,
                ["scontrol", "-a", "-d", "show", "node", "--json"]
                if modern
                else ["sinfo", "--json"],
            )
            rest = pool.submit(self._modern if modern else self._old, now)
            factors = (
                pool.submit(self._runner.ask, ["sprio", "-h", "-o", "%i %S"])
                if site_factors
                else None
            )
            jobs, problems = parse_jobs(queue.result(), now)
            nodes, more = json_nodes.parse_nodes(node.result())
            partitions, reservations, others = rest.result()
            factor = text.parse_site_factors(factors.result()) if factors else {}
        problems += more + others
        nodes = with_reservations(nodes, reservations)
        by_name = {one.name: one for one in nodes}
        doubts: list[Problem] = []
        jobs = [check_masks(job, by_name, doubts) if job.alloc else job for job in jobs]
        jobs = [
            replace(job, site_factor=factor[job.job_id]) if job.job_id in factor else job
            for job in jobs
        ]
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

    def _modern(self, now: EpochS) -> tuple[list[Partition], list[Reservation], list[Problem]]:
        parts = self._ask(["scontrol", "-a", "show", "partition", "--json"])
        resv = self._ask(["scontrol", "show", "reservation", "--json"])
        partitions, problems = json_nodes.parse_partitions(parts)
        reservations, more = json_nodes.parse_reservations(resv, now)
        return partitions, reservations, problems + more

    def _old(self, _now: EpochS) -> tuple[list[Partition], list[Reservation], list[Problem]]:
        partitions, problems = text.parse_partitions(
            self._runner.ask(["scontrol", "-a", "show", "partition"])
        )
        reservations, more = text.parse_reservations(
            self._runner.ask(["scontrol", "show", "reservation"])
        )
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
