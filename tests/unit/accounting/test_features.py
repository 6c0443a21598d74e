"""Name stems and what two requests are compared by."""

from __future__ import annotations

import pytest

from slurm_ext.accounting.features import Features, key, of_attempt, of_job, stem
from slurm_ext.accounting.rows import RowReader
from slurm_ext.accounting.sacct import FIELDS
from slurm_ext.model.job import BaseState, Job, JobKey, JobState, Request
from tests.builders import job
from tests.unit.accounting.helpers import attempt, row


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("train", "train"),
        ("Train_20260101", "train_#"),
        ("bert-lr0.1_0421", "bert-lr#_#"),
        ("run 2026-01-02T03:04:05", "run #"),
        ("exp-7f3a9c1", "exp-#"),
        ("exp_7f3a9c1d_x", "exp_#_x"),
        ("123e4567-e89b-12d3-a456-426614174000", "#"),
        ("42", "#"),
        ("deadbeef", "deadbeef"),
        ("", ""),
        ("\udcff", "\udcff"),
    ],
)
def test_stem(name: str, folded: str) -> None:
    assert stem(name) == folded


def test_key_is_the_same_everywhere_and_exact_in_float64() -> None:
    assert key("train_#") == 1193044637036017.0 or key("train_#") == int(key("train_#"))
    assert key("a") != key("b")
    assert (key(""), key("a") < 2**52) == (0.0, True)


def test_size_is_gpus_or_cpus() -> None:
    assert Features("u", gpus=4, cpus=8).size == 4
    assert Features("u", cpus=8).size == -8


def test_job_in_the_queue_and_its_record_afterwards_agree() -> None:
    job = Job(
        JobKey(1, 2), "train_7", "ann", "lab", ("gpu", "other"), JobState(BaseState.PENDING),
        Request(cpus=4, gpus_per_node=2, gpu_type="a100"), qos="normal", limit_s=300,
    )  # fmt: skip
    assert of_job(job) == of_attempt(attempt(name="train_8"))


@pytest.mark.parametrize(
    ("comment", "family", "work"),
    [
        ("slurm_ext:family=bert,work=5000", "bert", 5000),
        ("mine slurm_ext:family=bert", "bert", 0),
        ("slurm_ext:family=bert,nonsense=1", "", 0),
        ("bert", "", 0),
    ],
)
def test_declared_family_and_work(comment: str, family: str, work: float) -> None:
    past = of_attempt(attempt(annotation=comment))
    waiting = of_job(job(1, comment=comment))
    assert (past.family, past.work) == (waiting.family, waiting.work) == (family, work)


def test_a_request_for_any_gpu_meets_its_like_whatever_was_given() -> None:
    reader = RowReader(FIELDS)
    fields = [
        row(ReqTRES="cpu=4,gres/gpu=2", AllocTRES="cpu=4,gres/gpu=2,gres/gpu:a100=2")[f]
        for f in FIELDS
    ]
    past = reader(fields)
    assert not isinstance(past, str)
    waiting = job(1, gpus=2, user="ann", account="lab", qos="normal")
    assert of_attempt(past).place == of_job(waiting).place
