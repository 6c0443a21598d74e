"""Tables and files of comparisons."""

from __future__ import annotations

import csv
import io
import json

from rich.console import Console

from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.compare import Comparison, compare
from slurm_ext.sim.report import tables, write_csv, write_jobs, write_json
from slurm_ext.sim.scenario import Scenario, run
from tests.sim.helpers import jobs

POOL = ClusterSpec.count_only(8)
TWO_SEEDS = [jobs((0, 100, 8), (1, 10, 8)), jobs((0, 100, 8), (51, 10, 8))]


def compared(*policies: str) -> list[Comparison]:
    return compare([Scenario(policy=p) for p in policies], TWO_SEEDS, POOL)


def text_of(comparisons: list[Comparison]) -> str:
    console = Console(width=80, file=io.StringIO(), record=True)
    for table in tables(comparisons):
        console.print(table)
    return console.export_text()


def test_means_with_half_the_interval() -> None:
    # mean JCT 104.5 and 79.5: means 92.0, bootstrap bounds are the two values
    assert "92.0 ± 12.5" in text_of(compared("fifo"))


def test_four_scenarios_make_two_tables_of_80_columns() -> None:
    found = compared("fifo", "sjf", "multifactor", "fifo")
    assert len(tables(found)) == 2
    assert "…" not in text_of(found)


def test_figures_that_are_nought_are_left_out() -> None:
    assert "restarts" not in text_of(compared("fifo"))


def test_json() -> None:
    file = io.StringIO()
    write_json(compared("fifo"), file)
    found = json.loads(file.getvalue())[0]
    assert found["means"]["jct_mean_s"] == {"mean": 92.0, "low": 79.5, "high": 104.5}
    assert [r["jct_mean_s"] for r in found["runs"]] == [104.5, 79.5]


def test_csv() -> None:
    file = io.StringIO()
    write_csv(compared("fifo", "sjf"), file)
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert [(r["run"], r["makespan_s"]) for r in rows] == [("0", "110.0"), ("1", "110.0")] * 2


def test_csv_of_nothing_has_a_head() -> None:
    file = io.StringIO()
    write_csv([], file)
    assert file.getvalue() == "scenario,run\n"


def test_jobs() -> None:
    file = io.StringIO()
    write_jobs(run(Scenario(), TWO_SEEDS[0], POOL), file)
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert (rows[1]["start_s"], rows[1]["jct_s"], rows[1]["nodes"]) == ("100", "109", "pool1")


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    compare([Scenario()], TWO_SEEDS[:1], POOL, lambda *values: told.append(values))
    assert told[-1] == ("fifo easy (ideal), test", 2, 2)
