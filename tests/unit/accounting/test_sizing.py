"""Advice on CPUs and memory, from what steps recorded."""

from __future__ import annotations

import pytest

from slurm_ext.accounting.sizing import SizeAdvice, size_advice
from slurm_ext.accounting.steps import Used
from tests.unit.accounting.helpers import T0, attempt

HOUR = 3600


def advice(cpu_s: float, mem_mib: int | None, count: int = 6, **fields: object) -> list[SizeAdvice]:
    base = {"run_s": HOUR, "cpus_alloc": 16, "mem_req_mib": 65536, "gpus_alloc": 1} | fields
    rows = [attempt(job_id=i, **base) for i in range(count)]
    used = {("mini", i, T0): Used("mini", i, T0, int(cpu_s), mem_mib, None) for i in range(count)}
    return size_advice(rows, used)


def test_fewer_cpus_and_less_memory_where_little_was_used() -> None:
    (found,) = advice(2 * HOUR, 10_000)
    assert (found.cpus_suggested, found.mem_suggested_mib) == (3, 12288)
    assert found.freed_cpu_h == 6 * (16 - 3)
    assert found.freed_gib_h == 6 * (64 - 12)


def test_nothing_is_suggested_where_most_was_used() -> None:
    (found,) = advice(14 * HOUR, 60_000)
    assert (found.cpus_suggested, found.mem_suggested_mib, found.freed_cpu_h) == (None, None, 0)


def test_a_core_a_gpu_stays() -> None:
    assert advice(HOUR / 10, None, gpus_alloc=8)[0].cpus_suggested == 8


def test_one_job_without_a_memory_record_is_no_bound() -> None:
    rows = [attempt(job_id=i, run_s=HOUR, mem_req_mib=65536) for i in range(6)]
    used = {
        ("mini", i, T0): Used("mini", i, T0, 60, None if i == 3 else 100, None) for i in range(6)
    }
    (found,) = size_advice(rows, used)
    assert (found.peak_mib, found.mem_suggested_mib) == (None, None)


@pytest.mark.parametrize(
    "changes", [{"count": 4}, {"run_s": 30}, {"outcome": "censored"}],
    ids=["too few", "too short", "cut off"],
)  # fmt: skip
def test_no_advice_without_evidence(changes: dict[str, object]) -> None:
    assert advice(60, 100, **changes) == []  # type: ignore[arg-type]


def test_without_records_there_is_no_advice() -> None:
    assert size_advice([attempt(job_id=i, run_s=HOUR) for i in range(9)], {}) == []
