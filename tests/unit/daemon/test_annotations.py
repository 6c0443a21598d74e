"""Annotations on their way from comments into a plan."""

from __future__ import annotations

import pytest

from slurm_ext.daemon import annotations
from slurm_ext.daemon.annotations import AnnotationReader
from slurm_ext.engine.cycle import decide
from slurm_ext.engine.explain import sentence
from slurm_ext.model.job import Job
from tests.builders import context, job, node, observation

GOOD = "slurm_ext:work=5"
BAD = "slurm_ext:wrok=5"


@pytest.fixture
def read_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts that were really parsed, in order."""
    seen: list[str] = []
    original = annotations.understand
    monkeypatch.setattr(annotations, "understand", lambda t: (seen.append(t), original(t))[1])
    return seen


def test_good_and_bad_are_told_apart() -> None:
    jobs = [job(1, comment=GOOD), job(2, comment=BAD), job(3, comment="plain"), job(4)]
    found = AnnotationReader().read(jobs)
    assert {key.job_id: one.work for key, one in found.good.items()} == {1: 5.0}
    assert {key.job_id: why for key, why in found.bad.items()} == {
        2: 'unknown key "wrok"; did you mean work?'
    }


def test_running_jobs_have_theirs_and_ended_ones_do_not() -> None:
    jobs = [job(1, comment=GOOD, on={"n1": 1}), job(2, comment=GOOD, state="COMPLETED")]
    assert [key.job_id for key in AnnotationReader().read(jobs).good] == [1]


def test_a_text_is_read_once(read_texts: list[str]) -> None:
    reader = AnnotationReader()
    jobs = [job(i, comment=GOOD) for i in range(1, 100)]
    for _ in range(3):
        assert len(reader.read(jobs).good) == 99
    assert read_texts == [GOOD]


def test_what_no_job_carries_is_forgotten(read_texts: list[str]) -> None:
    reader = AnnotationReader()
    for jobs in ([job(1, comment=GOOD)], [], [job(1, comment=GOOD)]):
        reader.read(jobs)
    assert read_texts == [GOOD, GOOD]


def test_a_flood_of_new_texts_is_spread_over_cycles(read_texts: list[str]) -> None:
    reader = AnnotationReader(max_new=10)
    jobs = [job(i, comment=f"slurm_ext:work={i}") for i in range(1, 26)]
    assert [len(reader.read(jobs).good) for _ in range(3)] == [10, 20, 25]
    assert len(read_texts) == 25


def plan_of(one: Job, other: Job) -> dict[int, list[str]]:
    found = AnnotationReader().read([one, other])
    ctx = context(annotations=found.good, bad_annotations=found.bad)
    step = decide(observation([node("n1")], [one, other]), ctx)
    return {k.job_id: [r.code for r in d.reasons] for k, d in step.plan.decisions.items()}


def test_a_bad_annotation_is_told_and_changes_nothing_else() -> None:
    waiting, running = job(1, gpus=1), job(2, gpus=1, on={"n1": 1})
    plain = plan_of(waiting, running)
    bad = plan_of(job(1, gpus=1, comment=BAD), job(2, gpus=1, on={"n1": 1}, comment=BAD))
    assert bad == {key: [*codes, "bad_annotation"] for key, codes in plain.items()}


def test_the_reason_is_a_sentence() -> None:
    one = job(1, gpus=1, comment=BAD)
    ctx = context(bad_annotations=AnnotationReader().read([one]).bad)
    reasons = decide(observation([node("n1")], [one]), ctx).plan.decisions[one.key].reasons
    assert sentence(reasons[-1]) == (
        'its annotation is not used: unknown key "wrok"; did you mean work?'
    )
