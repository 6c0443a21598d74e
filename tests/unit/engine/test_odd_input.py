"""What no cluster should show and one day does: no cycle may fail on it, nothing is overbooked."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from slurm_ext.engine.cycle import decide
from slurm_ext.engine.settings import BackfillSettings
from slurm_ext.model.decision import Verdict
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import Job, JobKey, Request
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.observation import Observation, Reservation
from tests.builders import NOW, context, job, node, observation


def verdicts(obs: Observation, **fields: object) -> list[Verdict]:
    plan = decide(obs, context("multifactor", **fields)).plan
    return [plan.decisions[j.key].verdict for j in obs.jobs]


@pytest.mark.parametrize(
    "seconds",
    [(nan,) * 4, (inf,) * 4, (-inf, 1, 2, 3), (-5, 1, 2, 3), (9, 5, 1, 5), (1, 2, 3, nan)],
)
@pytest.mark.parametrize("durations", ["limit", "p50", "p90"])
def test_an_estimate_that_cannot_be_is_not_used(
    seconds: tuple[float, float, float, float], durations: str
) -> None:
    jobs = [job(1, gpus=8), job(2, gpus=8), job(3, on={"n2": 8})]
    obs = observation([node("n1"), node("n2", used=range(8))], jobs)
    backfill = BackfillSettings(durations=durations)
    estimates = {j.key: Estimate(*seconds, 3, "user") for j in jobs}
    plain = decide(obs, context("multifactor", backfill=backfill)).plan
    found = decide(obs, context("multifactor", backfill=backfill, estimates=estimates)).plan
    assert found == plain


@pytest.mark.parametrize("limit", [0, -5])
def test_jobs_without_length_do_not_share_their_room(limit: int) -> None:
    limits = enumerate((limit, limit, 3600), 1)
    jobs = [job(i, gpus=8, limit=one, submit=NOW - 9 + i) for i, one in limits]
    assert verdicts(observation([node("n1")], jobs)).count(Verdict.START) == 1


@pytest.mark.parametrize(
    "request_",
    [
        Request(gpus_per_node=1, mem_per_node_mib=2**63),
        Request(gpus_per_node=1, mem_per_cpu_mib=2**62, cpus=1000),
        Request(gpus_total=8, nodes_max=None, mem_per_gpu_mib=2**62),
    ],
)
def test_more_memory_than_there_is_anywhere_never_fits(request_: Request) -> None:
    jobs = [job(1, request=request_), job(2, gpus=1)]
    obs = observation([node("n1"), node("n2")], jobs)
    assert verdicts(obs) == [Verdict.NEVER, Verdict.START]


@pytest.mark.parametrize("count", [0, -1, 10_000])
@pytest.mark.parametrize("request_", [Request(gpus_per_node=1), Request(cpus=0, min_cpus_node=0)])
def test_arrays_of_any_count(count: int, request_: Request) -> None:
    obs = observation([node("n1")], [job(1, request=request_, array_count=count)])
    assert verdicts(obs) == [Verdict.START]


def test_a_job_let_go_in_the_future_is_let_go_no_more() -> None:
    """The clock was set back: it must not count as starting until the old time comes again."""
    one = job(1, gpus=1)
    entry = LedgerEntry(one.key, "1", released_s=NOW + 3600, planned_nodes=("n1",))
    obs = observation([node("n1")], [one])
    assert verdicts(obs, ledger={one.key: entry}) != [Verdict.STARTING]


def test_the_order_of_records_changes_no_write() -> None:
    """Not even of jobs that are set aside, nor the name of one of two equal reservations."""
    jobs = [job(i, gpus=8, flags=(), priority=0 if i < 3 else 5) for i in range(1, 5)]
    entries = {j.key: pinned(j) for j in jobs}
    windows = [Reservation(name, NOW + 60, NOW + 600, ("n1",)) for name in ("b", "a")]
    obs = observation([node("n1")], jobs, reservations=windows)
    turned = replace(obs, jobs=obs.jobs[::-1], reservations=obs.reservations[::-1])
    ctx = context("multifactor", ledger=entries)
    assert decide(obs, ctx).plan == decide(turned, ctx).plan


def pinned(one: Job) -> LedgerEntry:
    return LedgerEntry(JobKey(*one.key), str(one.job_id), pinned=("n1",), pinned_at_s=NOW - 5)
