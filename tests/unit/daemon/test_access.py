"""Who sees what at the status socket."""

from __future__ import annotations

import os
import socket

import pytest

from slurm_ext.daemon.access import Viewer, hides_others, seen_by, viewer

ALICE = Viewer(1001, "alice", False)
NOBODY = Viewer(1009, "", False)
ROOT = Viewer(0, "root", True)

JOBS = [
    {"id": "1", "user": "alice", "name": "mine", "account": "lab", "gpus": 4, "terms": {"a": 1.0},
     "placement": [], "alternatives": []},
    {"id": "2", "user": "bob", "name": "secret", "account": "lab", "gpus": 8, "terms": {"a": 1.0},
     "placement": [{"node": "n1"}], "alternatives": []},
]  # fmt: skip
SNAPSHOT = {"jobs": JOBS, "problems": ["job 2: secret"], "errors": ["job 2: secret"]}


@pytest.mark.parametrize(
    ("setting", "private", "hidden"),
    [
        ("slurm", "", False),
        ("slurm", "accounts,usage", False),
        ("slurm", "accounts,Jobs", True),
        ("show", "jobs", False),
        ("hide", "", True),
    ],
)
def test_slurm_decides_unless_told_otherwise(setting: str, private: str, hidden: bool) -> None:
    assert hides_others(setting, private) is hidden


@pytest.mark.parametrize("who", [ALICE, NOBODY])
def test_nothing_of_another_user_is_left_but_id_and_size(who: Viewer) -> None:
    seen = seen_by(SNAPSHOT, who, hide=True)
    assert "secret" not in str(seen)
    assert "bob" not in str(seen)
    assert seen["jobs"][1]["gpus"] == 8
    assert seen["jobs"][1]["placement"] is None


def test_a_user_sees_the_own_jobs_whole() -> None:
    assert seen_by(SNAPSHOT, ALICE, hide=True)["jobs"][0] == JOBS[0]


def test_a_user_without_a_name_owns_nothing() -> None:
    nameless = {**SNAPSHOT, "jobs": [{**JOBS[0], "user": ""}]}
    assert seen_by(nameless, NOBODY, hide=True)["jobs"][0]["name"] == ""


@pytest.mark.parametrize(("who", "hide"), [(ROOT, True), (ALICE, False)])
def test_operators_and_open_sites_see_everything(who: Viewer, hide: bool) -> None:
    assert seen_by(SNAPSHOT, who, hide=hide) is SNAPSHOT


def test_the_peer_is_read_from_the_connection() -> None:
    left, right = socket.socketpair(socket.AF_UNIX)
    with left, right:
        found = viewer(left, ())
    assert (found.uid, found.operator) == (os.geteuid(), True)
