"""The contract of the port against the simulated Slurm, as far as that goes.

The tests are those of ``tests/contract``; what the simulated Slurm cannot do stands in CANNOT.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import pytest

from slurm_ext.model.observation import Observation
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.settings import PROMPT
from slurm_ext.sim.simslurm import SimSlurm
from slurm_ext.sim.simulate import Simulation
from slurm_ext.sim.workload import TraceJob, Workload
from slurm_ext.slurm.port import SlurmPort
from tests.contract import test_port as contract
from tests.sim.helpers import until

ARRAYS = "each simulated job is one job: no arrays"
REQUESTS = "simulated jobs ask for GPUs, nodes, CPUs and memory, in no other form"
SHAPES = "a simulated job keeps its shape"
CANNOT = {
    "test_an_empty_cluster": "one partition, without a limit of its own",
    "test_running_jobs_have_gpu_indices": REQUESTS,
    "test_pending_requests": REQUESTS,
    "test_an_array_is_one_record_with_its_tasks": ARRAYS,
    "test_site_factor": "SiteFactor is shown by every look",
    "test_a_pin_with_several_partitions": "one partition a job",
    "test_a_hold_of_an_array_spares_its_running_tasks": ARRAYS,
    "test_an_array_update_changes_only_what_waits": ARRAYS,
    "test_tasks_changed_by_their_owner_are_left_alone": ARRAYS,
    "test_outcomes_stand_in_the_order_of_the_patches": "keys count, addresses are not read",
    "test_several_hundred_patches": ARRAYS,
    "test_requeue_of_one_task_leaves_the_others": ARRAYS,
    "test_requeue_of_a_finished_job_does_not_run_it_again": "jobs that have ended are not shown",
    "test_rpc_counts": "calls are counted by their own names",
    "test_a_waiting_job_takes_another_shape": SHAPES,
    "test_a_shape_is_taken_back": SHAPES,
}
"""Tests of the contract that are not for the simulated Slurm, each with the reason."""


class Ticking(SimSlurm):
    """A second passes with each look, as it would while a test polls."""

    def __init__(self, sim: Simulation) -> None:
        super().__init__(sim.core)
        self._sim = sim

    def observe(self, *, site_factors: bool = False) -> Observation:
        until(self._sim, self._sim.events.now_s + 1)
        return super().observe(site_factors=site_factors)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    """The options of ``sbatch`` that a simulated job can have."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    for name in ("-H", "--requeue", "--exclusive"):
        parser.add_argument(name, action="store_true")
    for name, kind in (
        ("-N", int),
        ("-n", int),
        ("-c", int),
        ("-w", str),
        ("-J", str),
        ("-p", str),
    ):
        parser.add_argument(name, type=kind)
    parser.add_argument("-b", "--begin")
    parser.add_argument("--gres", default="gpu:0")
    found: argparse.Namespace = parser.parse_args(argv)
    return found


class SimDriver:
    """What :class:`tests.contract.driver.Driver` does, done to a simulation."""

    cluster = "sim"

    def __init__(self) -> None:
        self.sim = Simulation(Workload.of("contract", []), ClusterSpec.uniform(4), PROMPT)
        self.sim.events.now_s = int(time.time())
        self._last = 0

    def submit(self, *argv: str, script: str = "exec sleep 600") -> int:
        asked, core = _options(argv), self.sim.core
        self._last += 1
        nodes = asked.N or 1
        gpus = 8 if asked.exclusive else int(asked.gres.rpartition(":")[2])
        job = core.submit(
            TraceJob(
                self._last, 0, 600 if "sleep" in script else 1, gpus * nodes, limit_s=3600,
                nodes=nodes, cpus=64 if asked.exclusive else (asked.n or 1) * (asked.c or 1),
            )
        )  # fmt: skip
        job.held = asked.H
        job.begin_s = core.events.now_s + 3600 if asked.begin else 0
        if asked.w:
            job.required = tuple(core.cluster.index[name] for name in asked.w.split(","))
        core.line_up(job)
        return self._last

    def fill(self) -> None:
        self.submit("-N4", "--exclusive")
        until(self.sim, self.sim.events.now_s + 1)

    def run(self, *argv: str, check: bool = True) -> str:
        """``scontrol update JobId=N AdminComment=TEXT``."""
        assert argv[:2] == ("scontrol", "update"), argv
        job_id, text = (word.partition("=")[2] for word in argv[2:])
        job = self.sim.core.jobs[int(job_id)]
        job.admin_comment, job.seen = text, None
        return ""


@pytest.fixture
def driver() -> SimDriver:
    return SimDriver()


@pytest.fixture
def port(driver: SimDriver) -> SlurmPort:
    return Ticking(driver.sim)


TESTS = {name: found for name, found in vars(contract).items() if name.startswith("test_")}
globals().update({name: found for name, found in TESTS.items() if name not in CANNOT})


def test_what_cannot_be_done_is_part_of_the_contract() -> None:
    assert CANNOT.keys() < TESTS.keys()
