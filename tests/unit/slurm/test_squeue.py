"""Framing of squeue's answer, and records that are odd or hostile."""

from __future__ import annotations

import pytest

from slurm_ext.model.job import BaseState, Job
from slurm_ext.model.observation import Problem
from slurm_ext.slurm.details import Chunk, split_blocks
from slurm_ext.slurm.jobs import clean, job_of_record, reason_token
from slurm_ext.slurm.squeue import FIELDS, Framing, Record

from .recorded import raw_record, records
from .test_details import block

PLAIN = records(block(7))[7]


def read(record: Record, chunk: Chunk | None = None) -> tuple[Job, list[Problem]]:
    problems: list[Problem] = []
    return job_of_record(record, chunk, problems), problems


def test_fields_and_record_agree() -> None:
    assert len(FIELDS) == len(Record._fields)
    assert len(set(FIELDS)) == len(FIELDS)


def test_separators_are_fresh_and_fit_for_squeue() -> None:
    one, other = Framing.fresh(), Framing.fresh()
    assert one != other
    assert one.field not in one.record
    for text in (one.field, one.record):
        assert text[0] not in "0123456789.,:%"
        assert not set(text) & set(",:%\n")


HOSTILE = ("a\nb", "~", "x\x1f\x1e\x00y", "JobId=9 JobName=z\n   ReqNodeList=", "", "\n\n", "|:,%")


def test_no_text_shifts_a_column() -> None:
    framing = Framing.fresh()
    rows = [
        PLAIN._replace(job_id=str(i), name=t, comment=t, admin_comment=t)
        for i, t in enumerate(HOSTILE)
    ]
    output = "".join(raw_record(framing, row) + framing.record + "\n" for row in rows)
    raw, rest = framing.records(output)
    assert rest == ""
    assert [framing.cut(one) for one in raw] == rows


def test_an_answer_cut_short_is_noticed() -> None:
    framing = Framing.fresh()
    whole = raw_record(framing, PLAIN) + framing.record + "\n"
    assert framing.records(whole + whole[: len(whole) // 2])[1] != ""
    assert framing.cut(raw_record(framing, PLAIN[:-1])) is None


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("Resources", "Resources"),
        ("None", ""),
        ("", ""),
        pytest.param("ReqNodeNotAvail, UnavailableNodes:", "ReqNodeNotAvail", id="A22-empty"),
        pytest.param(
            "ReqNodeNotAvail, UnavailableNodes:d[001-032],f[001-024]",
            "ReqNodeNotAvail",
            id="A22-list",
        ),
        ("ReqNodeNotAvail,_May_be_reserved_for_other_job", "ReqNodeNotAvail"),
        ("job requeued in held state", "JobHeldUser"),
        ("job_requeued_in_held_state", "JobHeldUser"),
        ("job requeued in special exit state", "JobHeldUser"),
        ("launch failed requeued held", "JobHeldUser"),
        pytest.param("launch_failed_requeued_held", "JobHeldUser", id="A09-launch-failed"),
        ("user env retrieval failed requeued held", "JobHeldUser"),
        ("launch failure limit exceeded requeued held", "JobHoldMaxRequeue"),
        ("Nodes required for job are DOWN, DRAINED or reserved", "Resources"),
        ("NvidiaImexChannels", "NvidiaImexChannels"),
        ("AssocGrpGRES(gres/gpu)", "AssocGrpGRES(gres/gpu)"),
        ("Something nobody knows yet", "Something"),
        ("\x1b[31m", ""),
    ],
)
def test_reason(text: str, token: str) -> None:
    assert reason_token(text) == token


def test_a22_the_sentence_is_kept() -> None:
    sentence = "ReqNodeNotAvail, UnavailableNodes:d[001-032],f[001-024]"
    job, _ = read(PLAIN._replace(reason=sentence))
    assert (job.reason, job.reason_text) == ("ReqNodeNotAvail", sentence)


def test_p80_several_partitions() -> None:
    job, _ = read(PLAIN._replace(partition="cpu,gpu"))
    assert job.partitions == ("cpu", "gpu")


def test_bytes_that_are_no_utf8() -> None:
    assert clean("a\udcff") == "a\\xff"
    assert clean("é") == "é"


def test_details_give_indices() -> None:
    chunk = split_blocks(block(7)).chunks[7]
    job, problems = read(PLAIN, chunk)
    assert problems == []
    assert [share.gpu_mask for share in job.alloc] == [0b110000, 0b11]


@pytest.mark.parametrize(
    "change",
    [
        {"nodelist": "n[1-3]"},
        {"tres": "cpu=16,mem=4000M,node=2,gres/gpu=8"},
        {"nodelist": "n[4-5]"},
    ],
)
def test_details_that_contradict_squeue_give_counts_only(change: dict[str, str]) -> None:
    chunk = split_blocks(block(7)).chunks[7]
    record = PLAIN._replace(**change)
    job, problems = read(record, chunk)
    assert len(problems) == 1
    assert all(share.gpus and not share.gpu_mask for share in job.alloc)


def test_without_details_the_totals_are_spread_and_the_job_is_left_to_slurm() -> None:
    job, problems = read(PLAIN)
    shares = [(s.node, s.cpus, s.mem_mib, s.gpus, s.gpu_mask) for s in job.alloc]
    assert shares == [("n1", 8, 2000, 2, 0), ("n2", 8, 2000, 2, 0)]
    assert job.request.unplannable == ("details_not_read",)
    assert len(problems) == 1


def test_a_completing_job_holds_the_nodes_it_still_has() -> None:
    chunk = split_blocks(block(7)).chunks[7]
    job, problems = read(PLAIN._replace(state="COMPLETING", nodelist="n2"), chunk)
    assert problems == []
    assert job.state.base is BaseState.UNKNOWN
    assert [(s.node, s.gpu_mask) for s in job.alloc] == [("n2", 0b11)]


def test_an_unreadable_record_still_occupies() -> None:
    odd = PLAIN._replace(
        submit="x", limit="x", priority="x", uid="x", array_tasks="1-...", state="NEW_STATE",
        eligible="x", start="x", nice="x", restarts="x", batch="x", requeue="x", switches="x",
    )  # fmt: skip
    job, problems = read(odd)
    assert [share.node for share in job.alloc] == ["n1", "n2"]
    assert {p.detail.split(" not")[0] for p in problems[:3]} == {
        "submit time", "time limit", "array task list"
    }  # fmt: skip


def test_array_addresses() -> None:
    task, _ = read(PLAIN._replace(job_id="50", array_job="47", array_tasks="7"))
    rest, _ = read(PLAIN._replace(job_id="47", array_job="47", array_tasks="2-6,8-9%2"))
    last, _ = read(PLAIN._replace(job_id="47", array_job="47", array_tasks="9"))
    assert task.address == "47_7"
    assert rest.address == "47"
    assert last.address == "47_9"
    assert PLAIN.array_tasks == "N/A"
    assert read(PLAIN)[0].array_job_id == 0


def test_an_array_that_squeue_folded_is_read_from_scontrol() -> None:
    chunk = split_blocks(block(47)).chunks[47]._replace(array_tasks="2-6,8-9%2")
    job, _ = read(PLAIN._replace(job_id="47", array_job="47", array_tasks="2-9"), chunk)
    assert (job.array_tasks, job.array_count, job.array_throttle) == ("2-6,8-9%2", 7, 2)
