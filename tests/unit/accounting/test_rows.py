"""Single rows: states, limits, GPUs, censoring; the reference's cases A07 and A12-A14."""

from __future__ import annotations

import pytest

from slurm_ext.accounting.record import BY_USER, FROM_OUTSIDE, ITSELF, Outcome, ending, state_of
from slurm_ext.accounting.rows import WAITING, RowReader
from slurm_ext.accounting.sacct import FIELDS, Skipped, parse_dump
from slurm_ext.model.job import BaseState
from tests.unit.accounting.helpers import T0, row


def read(**values: object) -> object:
    return RowReader(FIELDS)([row(**values)[name] for name in FIELDS])


@pytest.mark.parametrize(
    ("state", "end", "outcome"),
    [
        ("COMPLETED", T0 + 70, Outcome.ENDED),
        ("FAILED", T0 + 70, Outcome.ENDED),
        ("OUT_OF_MEMORY", T0 + 70, Outcome.ENDED),
        ("REQUEUED", T0 + 70, Outcome.CENSORED),
        ("PREEMPTED", T0 + 70, Outcome.CENSORED),
        ("TIMEOUT", T0 + 70, Outcome.CENSORED),
        ("NODE_FAIL", T0 + 70, Outcome.CENSORED),
        ("CANCELLED", T0 + 70, Outcome.CENSORED),
        ("CANCELLED by 1000", T0 + 70, Outcome.CENSORED),
        ("DEADLINE", T0 + 70, Outcome.CENSORED),
        ("RESIZING", T0 + 70, Outcome.CENSORED),
        ("RUNNING", "Unknown", Outcome.CENSORED),
        ("SUSPENDED", "Unknown", Outcome.CENSORED),
        ("BOOT_FAIL", T0 + 70, Outcome.NEVER_RAN),
    ],
)
def test_only_what_ended_by_itself_is_a_run_time(state: str, end: object, outcome: Outcome) -> None:
    assert read(State=state, End=end).outcome == outcome


def test_running_attempt_is_open() -> None:
    assert read(State="RUNNING", End="Unknown").open


def test_cancelled_while_pending_never_ran() -> None:
    made = read(State="CANCELLED by 7", Start="None", ElapsedRaw=0, AllocTRES="")
    assert (made.outcome, made.gpus_req, made.gpus_alloc) == (Outcome.NEVER_RAN, 2, 0)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"State": "PENDING"}, WAITING),
        ({"State": "FROBNICATED"}, "unknown state"),
        ({"State": "REVOKED"}, "revoked sibling of a federation"),
        ({"JobIDRaw": "x"}, "unreadable job id"),
        ({"JobIDRaw": "1.batch"}, "a step, not a job"),
        ({"Submit": "Unknown"}, "unreadable submit time"),
        ({"ElapsedRaw": "-5"}, "impossible elapsed time"),
        ({"ElapsedRaw": str(10**12)}, "impossible elapsed time"),
        ({"End": T0 - 5}, "ends before it starts"),
    ],
)
def test_what_cannot_be_is_skipped_with_a_reason(values: dict[str, object], reason: str) -> None:
    assert read(**values) == reason


@pytest.mark.parametrize(
    ("raw", "limit_s", "word"),
    [
        ("5", 300, ""),
        ("UNLIMITED", None, "UNLIMITED"),
        ("Partition_Limit", None, "PARTITION_LIMIT"),
        ("", None, ""),
    ],
)
def test_limit(raw: str, limit_s: int | None, word: str) -> None:
    made = read(TimelimitRaw=raw)
    assert (made.limit_s, made.limit_word) == (limit_s, word)


@pytest.mark.parametrize(
    ("tres", "gpus", "kind"),
    [
        ("cpu=10,mem=100G,node=1,billing=10,gres/gpu=1,gres/gpu:a100=1", 1, "a100"),
        ("cpu=1,gres/gpu:nvidia_geforce_rtx_2080_ti=1", 1, "nvidia_geforce_rtx_2080_ti"),
        ("cpu=1,gres/gpu=3", 3, ""),
        ("cpu=1", 0, ""),
    ],
)
def test_a07_typed_and_untyped_gpus_are_the_same_gpus(tres: str, gpus: int, kind: str) -> None:
    made = read(AllocTRES=tres, ReqTRES=tres)
    assert (made.gpus_alloc, made.gpu_type) == (gpus, kind)


def test_a12_five_attempts_four_of_them_censored() -> None:
    head = "NCPUS|Elapsed|JobIDRaw|State|Timelimit|Submit"
    elapsed = ("01:04:49", "01:14:33", "01:42:02", "00:35:53")
    lines = [head]
    for i, text in enumerate(elapsed):
        lines.append(f"1|{text}|235929|REQUEUED|02:00:00|2026-01-0{i + 1}T00:00:00")
    lines.append("1|01:30:00|235929|COMPLETED|02:00:00|2026-01-05T00:00:00")
    found = list(parse_dump(lines, Skipped()))
    lost = [a.run_s for a in found if a.outcome == Outcome.CENSORED]
    assert [a.run_s for a in found if a.outcome == Outcome.ENDED] == [5400]
    assert (len(lost), sum(lost)) == (4, 4 * 3600 + 37 * 60 + 17)
    assert {a.limit_s for a in found} == {7200}


def test_a13_cancelled_before_start_with_unknown_limit() -> None:
    head = "JobID|AllocCPUS|Elapsed|NNodes|State|Timelimit|ReqMem|Submit"
    line = "341|1|00:00:00|1|CANCELLED by 1000|Partition_Limit|4000G|2026-01-01T00:00:00"
    (made,) = parse_dump([head, line], Skipped())
    assert (made.outcome, made.killed_by_uid) == (Outcome.NEVER_RAN, 1000)
    assert (made.limit_s, made.limit_word) == (None, "PARTITION_LIMIT")
    assert made.mem_req_mib == 4000 * 1024


def test_a14_cancelled_by_is_cancelled() -> None:
    state, uid = state_of("CANCELLED by 123")
    assert (state.base, state.ended, uid) == (BaseState.CANCELLED, True, 123)


def test_array_task_keeps_its_array() -> None:
    made = read(JobIDRaw=8, JobID="5_1")
    assert (made.job_id, made.array_job_id, made.array_task_id) == (8, 5, 1)


@pytest.mark.parametrize(
    ("state", "number"),
    [
        ("COMPLETED", ITSELF),
        ("FAILED", ITSELF),
        ("CANCELLED by 1000", BY_USER),
        ("TIMEOUT", BY_USER),
        ("REQUEUED", FROM_OUTSIDE),
        ("PREEMPTED", FROM_OUTSIDE),
        ("NODE_FAIL", FROM_OUTSIDE),
        ("RUNNING", FROM_OUTSIDE),
    ],
)
def test_how_it_ended(state: str, number: float) -> None:
    assert ending(read(State=state)) == number


def test_only_comments_addressed_to_us_are_kept() -> None:
    assert read(Comment="my password is x").annotation == ""
    assert read(Comment="a b slurm_ext:family=bert").annotation == "a b slurm_ext:family=bert"
    assert read(Comment="slurm_ext:model=bert").annotation == "slurm_ext:model=bert"
