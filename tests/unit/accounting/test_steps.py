"""What jobs used, from the rows of their steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_ext.accounting.steps import FIELDS, Used, parse, read_dump
from tests.unit.accounting.helpers import T0


def step(job: str = "7", **values: object) -> list[str]:
    row = dict.fromkeys(FIELDS, "") | {
        "JobIDRaw": job, "Cluster": "mini", "Submit": T0, "Start": T0, "ElapsedRaw": 100,
        "TotalCPU": "01:40.250",
    }  # fmt: skip
    return [str({**row, **values}[name]) for name in FIELDS]


def mem(job: str, mib: int, begin: int = 0, run: int = 100) -> list[str]:
    return step(job, Start=T0 + begin, ElapsedRaw=run, TRESUsageInTot=f"cpu=0,mem={mib}M,pages=0")


@pytest.mark.parametrize(
    ("steps", "peak"),
    [
        ([mem("7.batch", 500)], 500),
        ([mem("7.batch", 10), mem("7.0", 300, 10, 20), mem("7.1", 200, 40, 20)], 310),
        ([mem("7.0", 300, 10, 40), mem("7.1", 200, 40, 20)], 500),
        ([mem("7.0", 300, 10, 30), mem("7.1", 200, 40, 20)], 300),
        ([step("7.batch")], None),
        ([step("7.batch", TRESUsageInTot="energy=0")], None),
    ],
    ids=["one", "one after the other", "overlapping", "touching", "no record", "energy only"],
)
def test_peak_memory(steps: list[list[str]], peak: int | None) -> None:
    assert list(parse([step(), *steps])) == [Used("mini", 7, T0, 100, peak, None)]


def test_kib_round_up() -> None:
    (found,) = parse([step(), step("7.batch", TRESUsageInTot="mem=219676K")])
    assert found.mem_mib == 215


def test_gpu_utilisation_is_weighed_by_time() -> None:
    steps = [
        step("7.0", ElapsedRaw=300, TRESUsageInAve="gres/gpumem=1M,gres/gpuutil=90"),
        step("7.1", ElapsedRaw=100, TRESUsageInAve="gres/gpuutil=50"),
    ]
    (found,) = parse([step(), *steps])
    assert found.gpu_util == 80


def test_attempts_of_one_id_are_apart() -> None:
    rows = [step(), mem("7.batch", 5), step("7", Submit=T0 + 9), mem("7.batch", 6), step("8")]
    assert [(u.submit_s, u.mem_mib) for u in parse(rows)] == [(T0, 5), (T0 + 9, 6)]


@pytest.mark.parametrize(
    "row",
    [["7"], step("7.batch")[:-1], step("x"), step("7", Submit="Unknown"), step("7", TotalCPU="")],
)
def test_unreadable_rows_are_passed_over(row: list[str]) -> None:
    rows = [row, mem("7.batch", 5), step("8"), mem("8.batch", 6)]
    assert [u.job_id for u in parse(rows)] == [8]


def test_time_stamps_as_text(tmp_path: Path) -> None:
    rows = [step("7", Submit="2026-01-01T00:00:00"),
            step("7.batch", Start="2026-01-01T00:00:05", TRESUsageInTot="mem=3M")]  # fmt: skip
    (found,) = parse(rows)
    assert (found.submit_s, found.mem_mib) == (1767225600, 3)


def test_a_dump_with_steps_tells_use_and_one_without_columns_nothing(tmp_path: Path) -> None:
    lines = ["|".join([*FIELDS, "State"]), *("|".join([*r, "COMPLETED"]) for r in (
        step(), mem("7.batch", 5)))]  # fmt: skip
    (tmp_path / "dump").write_text("\n".join(lines) + "\n")
    assert [u.mem_mib for u in read_dump(tmp_path / "dump")] == [5]
    (tmp_path / "plain").write_text("JobID|State\n1|COMPLETED\n")
    assert list(read_dump(tmp_path / "plain")) == []
