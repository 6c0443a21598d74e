"""``policy list`` and ``policy show``; and what every policy must tell of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_ext.cli.main import main
from slurm_ext.engine.policy import RUNS, Policy
from slurm_ext.errors import PolicyError
from slurm_ext.policies import for_daemon, get, registry
from slurm_ext.sim.needs import FIELDS

PAGES = Path(__file__).resolve().parents[3] / "docs" / "policies"
POLICIES = list(registry().values())
NAMES = [p.name for p in POLICIES]


def test_the_list_has_every_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "list"]) == 0
    text = capsys.readouterr().out
    assert all(p.name in text for p in POLICIES)
    assert RUNS["simulated"] in text


def test_show_tells_source_needs_and_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "show", "tiresias"]) == 0
    text = capsys.readouterr().out
    for part in ("NSDI 2019", "checkpoints", "allocation.rank.limits = (3250.0, 7200.0)", "order:"):
        assert part in text


def test_json_is_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "show", "synergy", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["runs"], found["round_s"]) == ("annotated", 300)
    assert main(["policy", "list", "--json"]) == 0
    assert [p["name"] for p in json.loads(capsys.readouterr().out)] == NAMES


def test_an_unknown_name_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "show", "tiresia"]) == 7
    assert "did you mean 'tiresias'?" in capsys.readouterr().err


@pytest.mark.parametrize("policy", POLICIES, ids=NAMES)
def test_every_policy_says_where_it_runs_and_what_it_needs(policy: Policy) -> None:
    assert policy.runs in RUNS
    assert policy.summary
    assert set(policy.needs) <= {*FIELDS, "priority"}
    if policy.runs == "live":
        assert policy.allocation is None
    else:
        assert policy.allocation is not None


@pytest.mark.parametrize("policy", POLICIES, ids=NAMES)
def test_every_policy_has_a_page(policy: Policy) -> None:
    text = "\n".join(p.read_text() for p in PAGES.glob("*.md"))
    assert any(f"# {policy.name}" in line or f", {policy.name}" in line
               for line in text.splitlines() if line.startswith("# "))  # fmt: skip


def test_the_daemon_refuses_what_is_only_simulated() -> None:
    with pytest.raises(PolicyError, match="simulator only"):
        for_daemon("themis", {})
    assert for_daemon("sjf", {"times_gpus": True}).name == "sjf"


def test_parameters_of_the_order_inside_an_allocation_are_its_own_part() -> None:
    changed = get("tiresias").with_parameters({"rank.limits": [10.0, 20.0], "scatter": True})
    found = changed.parameters()
    assert found["allocation.rank.limits"] == (10.0, 20.0)
    assert found["allocation.scatter"] is True
    assert "allocation.rank" not in found
    with pytest.raises(PolicyError, match="expected"):
        get("tiresias").with_parameters({"rank.limits": 1})
    with pytest.raises(PolicyError, match="unknown parameter"):
        get("tiresias").with_parameters({"rank": 1})
