"""The published schema of the status socket, and answers of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from slurm_ext.daemon.access import Viewer, seen_by
from slurm_ext.daemon.client import ask
from slurm_ext.daemon.publish import Publisher
from slurm_ext.daemon.ways import ways_of
from slurm_ext.errors import SlurmExtError
from slurm_ext.slurm.fallback import Standing, Switch
from tests.status_schema import PUBLISHED, problems

from .test_publish import Plain, data, put

ANSWERS = (
    ("/v1/status", "status"), ("/v1/status?limit=1", "status"), ("/v1/jobs", "jobs"),
    ("/v1/jobs/1", "job"), ("/v1/nodes", "nodes"), ("/v1/policy", "policy"),
    ("/healthz", "health"),
)  # fmt: skip


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(PUBLISHED)


def test_it_is_served(tmp_path: Path) -> None:
    with Publisher(tmp_path):
        assert ask(tmp_path, "/v1/schema") == PUBLISHED


@pytest.mark.parametrize(("path", "name"), ANSWERS)
def test_answers_are_as_published(path: str, name: str, tmp_path: Path) -> None:
    with Publisher(tmp_path) as publisher:
        put(publisher)
        assert problems(ask(tmp_path, path), name) == []


@pytest.mark.parametrize(("path", "name"), ANSWERS)
def test_so_they_are_before_the_first_cycle_and_after_a_failure(
    path: str, name: str, tmp_path: Path
) -> None:
    with Publisher(tmp_path) as publisher:
        if path != "/v1/jobs/1":
            assert problems(ask(tmp_path, path), name) == []
        put(publisher)
        publisher.failed("slurmctld is down", 7)
        assert problems(ask(tmp_path, path), name) == []


def test_errors_are_as_published(tmp_path: Path) -> None:
    with Publisher(tmp_path), pytest.raises(SlurmExtError, match="paths: /healthz"):
        ask(tmp_path, "/v1/nothing")


def test_so_it_is_where_others_are_hidden() -> None:
    shown = seen_by(data(user="alice"), Viewer(4711, "bob", False), hide=True)
    assert shown["jobs"][0]["user"] == ""
    assert problems({**shown, "failure": None}, "status") == []


def test_so_are_the_ways_to_slurm() -> None:
    ways = (Standing("rest", "resting", "failed", 7), Standing("cli", "used", "works"))
    told = json.loads(json.dumps(ways_of(ways, Switch(7, "rest", "cli", "failed"))))
    assert problems({**data(), **told, "failure": None}, "status") == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"policy": 7}, "$.policy"),
        ({"surprise": 1}, "surprise"),
        ({"modes": {"gpu": "wild"}}, "$.modes.gpu"),
    ],
)
def test_what_is_not_as_published_is_found(change: Plain, said: str) -> None:
    made = json.loads(json.dumps({**data(), "failure": None, **change}))
    assert said in " ".join(problems(made, "status"))
