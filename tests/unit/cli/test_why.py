"""``why`` and ``frag`` on a snapshot: texts for people, and JSON of a fixed shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli.main import main
from slurm_ext.daemon.capture import Capture, save
from slurm_ext.engine.settings import PreemptionSettings
from slurm_ext.model.annotation import Annotation, Checkpoint
from tests.builders import NOW, context, job, node, observation

HOUR_S = 3600


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Two full nodes, an 8-GPU job at the front, two jobs behind it, one of them older."""
    held = [
        job(10, gpus=8, on={"n1": 8}, cpus=2, end=NOW + 2 * HOUR_S, start_s=NOW - HOUR_S,
            requeueable=True, user="ann"),
        job(11, gpus=5, on={"n2": 5}, cpus=60, end=NOW + 9 * HOUR_S, user="bob\x1b[2J"),
    ]  # fmt: skip
    waiting = [
        job(1, gpus=8, limit=600, submit=NOW - 5000),
        job(2, gpus=4, limit=7200, submit=NOW - 4000),
        job(3, gpus=4, limit=7200, submit=NOW - 300),
    ]
    nodes = [
        node("n1", used=range(8), cpus_used=2),
        node("n2", used=range(5), cpus_used=60, cpus=62),
    ]
    saves = Annotation(preemptible=True, checkpoint=Checkpoint(interval_s=300))
    ctx = context(
        "multifactor", preemption=PreemptionSettings(enabled=True),
        annotations={held[0].key: saves},
    )  # fmt: skip
    path = tmp_path / "s.json"
    save(Capture(observation(nodes, [*held, *waiting]), ctx), path)
    return path


@pytest.fixture
def ask(snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    config = tmp_path / "c.toml"
    config.write_text(f'[state]\ndir = "{tmp_path}/none"\nrun_dir = "{tmp_path}/none"\n')

    def call(*words: str) -> str:
        code = main([*words, "--from", str(snapshot), "--config", str(config)])
        said = capsys.readouterr()
        return said.out if code == 0 else said.err

    return call


def test_the_account_names_what_decides(ask: Any) -> None:
    out = ask("why", "2")
    assert "job 2: wait, rank 1 of 3" in out
    assert "job 1 is before 2 mostly by short" in out
    assert "job 2 is before 3 mostly by age" in out


def test_the_first_job_is_promised_a_start_and_shown_who_could_make_room(ask: Any) -> None:
    out = ask("why", "1")
    assert "promised: in 02:00:00 on n1" in out
    assert "requeueing 10 would start it now" in out
    assert "2 nodes" not in out
    assert "no room now" in out


def test_a_running_victim_is_told_for_whom(ask: Any) -> None:
    assert "for job 1 (planned)" in ask("why", "10")


def test_what_if_shows_the_other_decision(ask: Any) -> None:
    assert "with gpus=2 limit=10m: start" in ask(
        "why", "3", "--what-if", "gpus=2", "--what-if", "limit=10m"
    )
    assert "did you mean limit" in ask("why", "3", "--what-if", "limits=1h")
    assert "KEY=VALUE" in ask("why", "3", "--what-if", "limit")


def test_what_would_start_it_has_been_decided(ask: Any) -> None:
    assert "would start now with gpus=3" in ask("why", "2")
    assert json.loads(ask("why", "3", "--json"))["would_start_with"] == [{"gpus": "3"}]
    assert "would start now" not in ask("why", "10")


WHY_KEYS = {
    "id", "at_s", "state", "policy", "waiting", "verdict", "rank", "stage", "reasons", "start_s",
    "would_start_with", "start_in_s", "holds", "end_s", "forecast", "estimate",
    "nodes", "gpu_indices", "terms", "factors", "ahead", "behind", "alternatives",
    "shapes", "fence", "preempt", "victim_for", "slurm", "history", "what_if",
}  # fmt: skip
PARTS = {
    "ahead": {"id", "rank", "verdict", "terms", "factors", "decided_by"},
    "slurm": {"reason", "priority", "start_s"},
    "what_if": {"changes", "verdict", "rank", "stage", "reasons", "start_s", "start_in_s", "nodes",
                "gpu_indices"},
}  # fmt: skip
LISTS = {
    "reasons": {"code", "stage", "text", "facts", "would_change"},
    "factors": {"name", "value", "weight", "contribution"},
    "shapes": {"gpus", "cpus", "mem_mib", "nodes", "usable", "fit", "could", "best_gpus",
               "best_cpus", "best_mem_mib"},
}  # fmt: skip


def documented() -> str:
    return (Path(__file__).parents[3] / "docs" / "explain.md").read_text()


def test_the_shape_of_the_account_is_as_documented(ask: Any) -> None:
    data = json.loads(ask("why", "2", "--what-if", "limit=10m", "--json"))
    assert set(data) == WHY_KEYS
    for name, keys in PARTS.items():
        assert set(data[name]) == keys
    for name, keys in LISTS.items():
        assert set(data[name][0]) == keys
    first = json.loads(ask("why", "1", "--json"))
    assert set(first["fence"]) == {"start_s", "nodes"}
    assert set(first["preempt"]) == PREEMPT_KEYS
    everything = WHY_KEYS.union(*PARTS.values(), *LISTS.values(), PREEMPT_KEYS, FRAG_KEYS)
    assert [key for key in sorted(everything) if f"`{key}`" not in documented()] == []


PREEMPT_KEYS = {
    "job_id", "worth", "reason", "cost_gpu_s", "gain_gpu_s", "optimal", "nodes", "victims",
}  # fmt: skip
FRAG_KEYS = {
    "at_s", "gpus", "free", "whole_nodes", "stranded", "fragments", "unusable", "per_gpu", "target",
    "nodes", "nodes_unlisted", "room",
}  # fmt: skip


def test_frag_names_the_culprit_and_the_fewest_moves(ask: Any) -> None:
    out = ask("frag")
    assert "3 of 16 GPUs are free" in out
    assert "target: job 1: 8 GPUs" in out
    assert "11 (bob\\x1b[2J)" in out
    assert "job 10" in out or "job 11" in out
    assert "\x1b" not in out


def test_frag_of_a_request_that_is_not_there(ask: Any) -> None:
    data = json.loads(ask("frag", "--gpus", "16", "--nodes", "2", "--json"))
    assert set(data) == FRAG_KEYS
    assert data["target"] == {
        "id": None, "gpus": 16, "nodes": 2, "gpu_type": "", "partitions": ["gpu"],
    }  # fmt: skip
    assert data["room"]["verdict"] == "moves"
    assert [m["id"] for m in data["room"]["moves"]] == ["10", "11"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpus", "4", "--type", "a10"), "did you mean a100"),
        (("--gpus", "4", "--partition", "gpus"), "did you mean gpu"),
        (("--gpus", "9", "--nodes", "2"), "evenly"),
        (("--nodes", "2"), "at least 1"),
    ],
)
def test_frag_with_a_wrong_target(ask: Any, words: tuple[str, ...], said: str) -> None:
    assert said in ask("frag", *words)
