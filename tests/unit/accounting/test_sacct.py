"""Whole answers: hostile names, truncated output, dumps of any shape, JSON of four versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_ext.accounting.record import Outcome
from slurm_ext.accounting.sacct import (
    FIELDS,
    HistoryError,
    Skipped,
    parse,
    parse_dump,
    read_dump,
    read_window,
)
from slurm_ext.accounting.sacct_json import differences, parse_json
from tests.unit.accounting.helpers import FIXTURES, T0, FakeSacct, answer, attempt, row

TOKEN = "\x1e0123\x1f"
VERSIONS = ("22.05", "24.11", "25.11", "26.05")


@pytest.mark.parametrize(
    "name", ["a|b|c", "new\nline", "x\n9|9|mini|root", "", "\x1e", "naïve\x1b[31m", "\udcff"]
)
def test_no_name_can_shift_a_column_or_forge_a_row(name: str) -> None:
    skipped = Skipped()
    rows = [row(JobIDRaw=1, JobName=name, Comment=name), row(JobIDRaw=2)]
    found = list(parse(answer(rows, TOKEN), TOKEN, skipped))
    assert [(a.job_id, a.state, a.user) for a in found] == [
        (1, "COMPLETED", "ann"),
        (2, "COMPLETED", "ann"),
    ]
    assert skipped.counts == {}


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_truncated_answer_keeps_whole_records(cut: int) -> None:
    skipped = Skipped()
    text = answer([row(JobIDRaw=1), row(JobIDRaw=2)], TOKEN)
    found = list(parse(text[:-cut], TOKEN, skipped))
    assert [a.job_id for a in found] == [1]
    assert skipped.bad == 1


def test_empty_answer_is_no_attempt() -> None:
    assert list(parse("", TOKEN, Skipped())) == []


def test_window_names_both_ends_and_a_fresh_delimiter() -> None:
    slurm = FakeSacct([row()])
    found, _ = read_window(slurm, T0 - 5, T0 + 100)
    assert [a.job_id for a in found] == [1]
    assert slurm.windows == [(T0 - 5, T0 + 100)]


def test_dump_in_any_order_with_readable_times() -> None:
    head = "State|JobID|Submit|Start|End|Elapsed|Timelimit|User|AllocTRES"
    line = (
        "COMPLETED|7|2026-01-01T00:00:00|2026-01-01T01:00:00|2026-01-02T01:00:05|1-00:00:05|"
        "2-00:00:00|bob|cpu=1,gres/gpu=4"
    )
    (made,) = parse_dump([head, line], Skipped())
    assert (made.job_id, made.run_s, made.limit_s, made.gpus_req) == (7, 86405, 172800, 4)


@pytest.mark.parametrize("delimiter", ["|", ",", "\t", "^~^"])
def test_dump_with_any_delimiter(delimiter: str) -> None:
    columns = [f for f in FIELDS if f not in ("ReqTRES", "AllocTRES")]
    lines = [delimiter.join(columns), delimiter.join(row()[c] for c in columns)]
    (made,) = parse_dump(lines, Skipped())
    assert (made.user, made.run_s, made.name) == ("ann", 60, "train")


def test_dump_with_closing_delimiters() -> None:
    lines = ["|".join(FIELDS) + "|", "|".join(row().values()) + "|"]
    skipped = Skipped()
    (made,) = parse_dump(lines, skipped)
    assert (made.job_id, made.name) == (1, "train")


def test_dump_glues_separators_inside_the_last_column() -> None:
    columns = [f for f in FIELDS if f != "Comment"]
    lines = ["|".join(columns), "|".join(row(JobName="a|b|c")[c] for c in columns)]
    (made,) = parse_dump(lines, Skipped())
    assert (made.name, made.user) == ("a|b|c", "ann")


def test_dump_counts_broken_lines_and_goes_on() -> None:
    lines = ["|".join(FIELDS), "1|2|3", "|".join(row(JobName="new\nline").values()), "line"]
    lines += ["|".join(row(JobIDRaw=9).values())]
    skipped = Skipped()
    assert [a.job_id for a in parse_dump(lines, skipped)] == [1, 9]
    assert skipped.counts == {"wrong number of fields": 2}


def test_dump_without_a_needed_column_says_which() -> None:
    with pytest.raises(HistoryError, match="lacks submit"):
        list(parse_dump(["JobID|State|Elapsed"], Skipped(), "x.txt"))


def test_dump_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="No such file"):
        list(read_dump(tmp_path / "none", Skipped()))


def test_dump_of_binary_rubbish(tmp_path: Path) -> None:
    path = tmp_path / "rubbish"
    path.write_bytes(bytes(range(256)) * 10)
    with pytest.raises(HistoryError, match="head line lacks"):
        list(read_dump(path, Skipped()))


def document(version: str, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((FIXTURES / version / name).read_text())
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_json_of_each_version(version: str) -> None:
    skipped = Skipped()
    found = list(parse_json(document(version, "sacct-D.json"), skipped))
    assert skipped.bad == 0
    by_state = {a.state for a in found}
    assert {"RUNNING", "REQUEUED", "COMPLETED", "FAILED"} <= by_state
    assert all(a.outcome == Outcome.CENSORED for a in found if a.state == "REQUEUED")
    assert all(a.open == (a.state == "RUNNING") for a in found)
    assert all(a.run_s >= 0 and a.user and a.partition for a in found)


@pytest.mark.parametrize(
    ("version", "job_id", "elapsed_s"),
    [("22.05", 18, 11), ("24.11", 59, 5), ("25.11", 72, 11), ("26.05", 59, 11)],
)
def test_json_requeued_run_has_its_own_elapsed_limit_and_gpus(
    version: str, job_id: int, elapsed_s: int
) -> None:
    found = parse_json(document(version, "sacct-D.json"), Skipped())
    (made,) = (a for a in found if a.job_id == job_id)
    assert (made.run_s, made.gpus_alloc, made.cpus_alloc) == (elapsed_s, 1, 2)
    assert (made.limit_s, made.mem_req_mib, made.nodes) == (3600, 100, 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_json_cancelled_while_pending_never_ran(version: str) -> None:
    found = list(parse_json(document(version, "sacct-D.json"), Skipped()))
    gone = [a for a in found if a.start_s is None]
    assert all(a.outcome == Outcome.NEVER_RAN for a in gone)


def test_differences_are_named() -> None:
    one, other = attempt(), attempt(run_s=61, name="x")
    assert differences([one], [one]) == []
    assert differences([one], [other]) == [
        "job 1: name is 'train' in text, 'x' in JSON",
        "job 1: run_s is 60 in text, 61 in JSON",
    ]
    assert differences([one], []) == ["job 1: not in the JSON"]
    assert differences([], [one]) == ["job 1: not in the text"]
