"""Patches as scontrol commands, and what scontrol's answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_ext.model.decision import JobPatch, Lever, ReservationSpec
from slurm_ext.model.job import JobKey
from slurm_ext.slurm.actions import (
    Said,
    join,
    patch_commands,
    read_answer,
    reservation_words,
    start_guard,
)
from tests import builders

KEY = JobKey(7, 1)


def lines(guard: str | None = None, address: str = "7", **values: Any) -> list[str]:
    patch = JobPatch(KEY, address, Lever.LEASE, **values)
    return [command.line for command in patch_commands(patch, guard)]


def test_one_update_in_absolute_values() -> None:
    assert lines(
        site_factor=-5, begin_s=1796050499, required_nodes=("n1", "n2"), excluded_nodes=()
    ) == [
        "update JobId=7 SiteFactor=-5 StartTime=2026-11-30T14:54:59 ReqNodeList=n[1-2] ExcNodeList="
    ]


@pytest.mark.parametrize("begin", [0, 1, 1000])
def test_begin_now(begin: int) -> None:
    assert lines(begin_s=begin) == ["update JobId=7 StartTime=now"]


def test_hold_and_release_come_after_the_note() -> None:
    assert lines(hold=True, site_factor=1) == ["update JobId=7 SiteFactor=1", "hold 7"]
    assert lines(hold=False, begin_s=0) == ["update JobId=7 StartTime=now", "release 7"]
    assert lines(hold=True, guard="Partition=gpu,") == ["hold 7"]


def test_the_guard_stands_before_all_else() -> None:
    assert lines(guard="Partition=gpu,", required_nodes=("n1",)) == [
        "update JobId=7 Partition=gpu, ReqNodeList=n1"
    ]


def test_nothing_to_do() -> None:
    assert lines() == []


def test_guard_only_with_one_plain_partition() -> None:
    assert start_guard(builders.job(1, partitions=("gpu",))) == "Partition=gpu,"
    assert start_guard(builders.job(1, partitions=("gpu", "cpu"))) is None
    assert start_guard(builders.job(1, partitions=("g pu",))) is None


@pytest.mark.parametrize("text", ["with blank", 'a "q"', "it's", "line\nbreak", "\x01", "é"])
def test_foreign_text_goes_as_an_argument(text: str) -> None:
    (command,) = patch_commands(JobPatch(KEY, "7", Lever.LEASE, admin_comment=text), None)
    assert not command.stdin
    assert command.words[-1] == f"AdminComment={text}"


@pytest.mark.parametrize(
    "address", ["", "7;8", "7 8", "jobname=x", "7,8", "7_[1-3]", "-1", "\u0667"]
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ValueError, match="not a job address"):
        lines(address=address, site_factor=1)


@pytest.mark.parametrize("address", ["7", "7_3", "7+1"])
def test_addresses(address: str) -> None:
    assert lines(address=address, site_factor=1) == [f"update JobId={address} SiteFactor=1"]


def test_node_names_are_checked() -> None:
    with pytest.raises(ValueError, match="not a node list"):
        lines(required_nodes=("n1 Priority=9",))


A09 = """80520_31-33,71-74: Job has already finished
80520_36,56-63,66,92,114: No error
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", Said(True)),
        pytest.param(A09, Said(True, False, "Job has already finished"), id="A09"),
        (
            "47_0-1: Job is no longer pending execution\n47_2-9: No error\n",
            Said(True, False, "Job is no longer pending execution"),
        ),
        (
            "47_0: Job is no longer pending execution\n",
            Said(False, True, "Job is no longer pending execution", partial=True),
        ),
        (
            "Job is no longer pending execution for job 43\n",
            Said(False, True, "Job is no longer pending execution"),
        ),
        (
            "Invalid job id specified for job 99999\n"
            "slurm_suspend error: Invalid job id specified\n",
            Said(False, True, "Invalid job id specified"),
        ),
        (
            "scontrol: error: Job resizing not supported for job arrays\n",
            Said(False, False, "Job resizing not supported for job arrays"),
        ),
        (
            "Invalid node name specified for job 80\n",
            Said(False, False, "Invalid node name specified"),
        ),
        ("No changes specified\n", Said(False, False, "No changes specified")),
        (
            "80_1: Invalid node name specified\n80_2: No error\n",
            Said(False, False, "Invalid node name specified"),
        ),
        ("scontrol: update JobId=7 SiteFactor=1\n", Said(True)),
    ],
)
def test_answers(text: str, said: Said) -> None:
    assert read_answer(text) == said


def test_join() -> None:
    ok, gone, bad = Said(True), Said(False, True, "gone"), Said(False, False, "bad")
    assert join([]) == Said(True)
    assert join([ok, ok]) == Said(True)
    assert join([ok, gone]) == Said(False, True, "gone")
    assert join([gone, bad]) == Said(False, False, "gone; bad")


def spec(**change: Any) -> ReservationSpec:
    values: dict[str, Any] = {
        "name": "slurm_ext_1", "start_s": 1796050499, "duration_s": 90, "nodes": ("n1", "n2"),
        "users": ("alice",),
    }  # fmt: skip
    return ReservationSpec(**{**values, **change})


def test_reservation() -> None:
    assert reservation_words(spec()) == (
        "create",
        "reservation",
        "ReservationName=slurm_ext_1",
        "StartTime=2026-11-30T14:54:59",
        "Duration=2",
        "Nodes=n[1-2]",
        "Users=alice",
        "Flags=NO_HOLD_JOBS_AFTER",
    )
    assert "Flags=IGNORE_JOBS,NO_HOLD_JOBS_AFTER" in reservation_words(spec(flags=("IGNORE_JOBS",)))


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"name": "slurm_ext_ x"},
        {"users": ()},
        {"nodes": ()},
        {"users": ("a b",)},
        {"duration_s": 0},
        {"flags": ("A B",)},
    ],
)
def test_reservations_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        reservation_words(spec(**change))
