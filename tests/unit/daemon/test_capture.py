"""Snapshots: written, read and decided again."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from slurm_ext.daemon.capture import Capture, fingerprint, load, save
from slurm_ext.engine.settings import Memory
from slurm_ext.errors import SlurmExtError
from slurm_ext.model.job import JobKey
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.observation import Observation
from slurm_ext.model.plain import from_plain, to_plain
from tests.builders import NOW, context, job, node, observation
from tests.property.test_decide import clusters


def small() -> Capture:
    jobs = [job(1, gpus=8), job(2, gpus=2, comment="secret", admin_comment="theirs"),
            job(3, on={"n1": 2})]  # fmt: skip
    entry = LedgerEntry(JobKey(2, NOW - 1000), "2", NOW + 100, pinned=("n1",))
    ctx = context(ledger={entry.key: entry}, memory=Memory(waste={"gpu": 3}))
    return Capture(observation([node("n1", used=range(2)), node("n2")], jobs), ctx)


@pytest.mark.parametrize("name", ["s.json", "s.json.gz"])
def test_a_snapshot_gives_the_same_plan(tmp_path: Path, name: str) -> None:
    save(small(), tmp_path / name)
    found = load(tmp_path / name)
    assert found.observation == small().observation
    assert found.context == small().context
    assert fingerprint(found.decide()) == found.recorded


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    save(small(), tmp_path / "s.json")
    assert (tmp_path / "s.json").stat().st_mode & 0o077 == 0


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_any_observation_survives_as_plain_data(obs: Observation) -> None:
    text = json.dumps(to_plain(obs))
    assert from_plain(Observation, json.loads(text)) == obs


def test_a_plan_that_differs_is_noticed(tmp_path: Path) -> None:
    save(small(), tmp_path / "s.json")
    found = load(tmp_path / "s.json")
    other = replace(found, context=replace(found.context, policy=context("sjf").policy))
    assert fingerprint(other.decide()) != found.recorded


GZIP = gzip.compress(b'{"format": 1}' * 99)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut"),
        pytest.param(b"[]", id="no-object"),
        pytest.param(b'{"format": 99}', id="another-format"),
        pytest.param(b'{"format": 1}', id="incomplete"),
        pytest.param(gzip.compress(b'{"format": 1}')[:-9], id="cut-gzip"),
        pytest.param(GZIP[:12] + b"\xff" * 8 + GZIP[20:], id="broken-gzip"),
        pytest.param(b'{"format":2,"policy":{"name":"fifo","parameters":[1]}}', id="no-table"),
        pytest.param(b'{"format":1,"policy":{"name":"fifo","parameters":{}},"context":{},'
                     b'"observation":{"now_s":"x"}}', id="wrong-type"),
        pytest.param(b"[" * 100_000, id="deep"),
    ],
)  # fmt: skip
def test_damaged_files_are_said_so(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(data)
    with pytest.raises(SlurmExtError, match=r"s\.json: "):
        load(path)
