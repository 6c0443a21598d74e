"""The command line of the simulator."""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import pytest

from slurm_ext.cli import sim
from slurm_ext.errors import PolicyError, SlurmExtError
from slurm_ext.sim.errors import TraceError

SMALL = ["--cluster", "2x4", "--jobs", "30"]


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    sim.add_parser(parser.add_subparsers())
    args = parser.parse_args(["sim", *words])
    code: int = args.run(args)
    return code


def test_run_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", *SMALL) == 0
    text = capsys.readouterr().out
    assert "fifo easy (ideal)" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_compare_runs_each_policy_with_each_driver(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = tmp_path / "c.csv"
    call("compare", *SMALL, "--policies", "stock,fifo:none,sjf", "--drivers", "ideal,order",
         "--seeds", "1,2", "--interval-s", "3600", "--csv", str(found))  # fmt: skip
    with found.open() as file:
        rows = list(csv.DictReader(file))
    assert [r["scenario"] for r in rows[::2]] == [
        "stock", "fifo none (ideal)", "fifo none (order)", "sjf easy (ideal)", "sjf easy (order)",
    ]  # fmt: skip
    assert [r["run"] for r in rows[:2]] == ["0", "1"]


def test_json_on_standard_output_is_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    call("run", *SMALL, "--json", "-")
    document = json.loads(capsys.readouterr().out)
    assert document[0]["runs"][0]["jobs"] == 30


def test_generate_then_run_the_file(tmp_path: Path) -> None:
    trace, jobs = tmp_path / "w.csv", tmp_path / "jobs.csv"
    call("generate", *SMALL, "-o", str(trace))
    call("run", "--trace", str(trace), "--cluster", "2x4", "--jobs-csv", str(jobs))
    assert len(jobs.read_text().splitlines()) == 31


def test_bad_rows_are_told_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "w.csv"
    trace.write_text("job_id,submit_s,run_s,gpus\n1,0,9,1\n2,0,-9,1\n3,0,9,99\n")
    call("run", "--trace", str(trace), "--cluster", "2x4")
    text = capsys.readouterr().err
    assert "w.csv:3: run time -9" in text
    assert "w.csv:4: 99 GPUs, the cluster has 8" in text


def test_settings_of_slurm_change_the_outcome(tmp_path: Path) -> None:
    found = []
    for extra in ([], ["--prompt"], ["--slurm", "start_latency_s=500"]):
        path = tmp_path / "c.json"
        call("run", *SMALL, "--driver", "stock", "--json", str(path), *extra)
        found.append(json.loads(path.read_text())[0]["means"]["jct_mean_s"]["mean"])
    assert found[1] < found[0] < found[2]


@pytest.mark.parametrize(
    ("words", "error", "match"),
    [
        (["run", "--slurm", "bf_intervall_s=2"], TraceError, "did you mean bf_interval_s"),
        (["run", "--slurm", "bf_interval_s=soon"], TraceError, "not a whole number"),
        (["run", "--seeds", "1,x"], TraceError, "--seeds"),
        (["run", "--policy", "fifi"], PolicyError, "did you mean 'fifo'"),
        (["run", "--cluster", "many"], TraceError, "NODESxGPUS"),
        (["run", "--trace", "/nonexistent"], TraceError, "No such file"),
        (["compare", "--policies", "fifo:eager"], TraceError, "one of none, best_effort, easy"),
        (["compare", "--policies", "fifo", "--drivers", "hard"], TraceError, "driver 'hard'"),
    ],
)
def test_errors_say_what_to_do(words: list[str], error: type[SlurmExtError], match: str) -> None:
    with pytest.raises(error, match=match):
        call(*words)


@pytest.mark.parametrize(
    "words",
    [
        ("--restart-s", "-1"), ("--head", "0"), ("--interval-s", "0"), ("--round-s", "-2"),
        ("--max-slip-s", "-1"), ("--jobs", "none"), ("--lease-s", "1e3"),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be_are_refused_with_their_option(
    words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        call("run", *words)
    assert words[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("--slurm", "bf_interval_s=0"), "at least 1"),
        (("--slurm", "bf_interval_s=-2"), "below 0"),
        (("--cluster", "99999999x8"), "at most 100000"),
        (("--cluster", "4x8,4x9999"), "at most 100000 and 256"),
        (("--cluster", "pool:99999999999"), "expected NODESxGPUS"),
    ],
)
def test_sizes_that_cannot_be_are_refused(words: tuple[str, str], match: str) -> None:
    with pytest.raises(TraceError, match=match):
        call("run", *words)
