"""Findings of doctor, one fact changed at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_ext.daemon.config import load
from slurm_ext.daemon.doctor import examine
from slurm_ext.daemon.estimates import HistoryState
from slurm_ext.daemon.findings import Facts, Level
from slurm_ext.model.node import Node
from slurm_ext.model.observation import Controller, Observation, Problem
from slurm_ext.slurm.fallback import Choice
from tests.builders import job, node, observation

GOOD = {
    "prioritytype": "priority/multifactor",
    "priorityflags": "ACCRUE_ALWAYS",
    "schedulertype": "sched/backfill",
    "selecttype": "select/cons_tres",
    "schedulerparameters": "bf_interval=5",
    "accountingstoragetres": "cpu,gres/gpu",
}


FAIR_SHARE: dict[str, object] = {"policy.parameters": {"weight_fair_share": 1.0}}


def found(
    config: dict[str, str] | None = None,
    *,
    version: tuple[int, ...] = (24, 11, 5),
    level: str = "SlurmUser",
    skew: float | None = 0.1,
    nodes: list[Node] | None = None,
    differences: tuple[str, ...] | None = (),
    problems: tuple[Problem, ...] = (),
    overrides: dict[str, object] | None = None,
    ways: tuple[Choice, ...] = (),
    waiting: int = 0,
) -> dict[str, Level]:
    obs = observation(nodes if nodes is not None else [node("n1")], [])
    jobs = tuple(job(i) for i in range(1, waiting + 1))
    obs = Observation(obs.now_s, obs.controller, jobs, obs.nodes, obs.partitions, (), problems)
    controller = Controller(version, "c", {**GOOD, **(config or {})})
    facts = Facts(controller, obs, level, skew, differences, ways=ways)
    settings = load(Path("/dev/null"), {"mode": "enforce", **(overrides or {})})
    return {f.code: f.level for f in examine(facts, settings)}


def test_a_good_cluster_has_no_complaint() -> None:
    assert set(found().values()) == {Level.OK}


def test_factors_that_slurm_works_out_are_no_complaint() -> None:
    assert "slurm_factors" not in found(
        overrides=FAIR_SHARE, config={"priorityweightfairshare": "1"}
    )


@pytest.mark.parametrize(
    ("changes", "code", "level"),
    [
        ({"version": (21, 8, 8)}, "version", Level.ERROR),
        ({"version": (25, 5, 0)}, "version", Level.NOTE),
        ({"version": (23, 2, 4)}, "gpu_selection_bugs", Level.WARNING),
        ({"level": "None"}, "privileges", Level.ERROR),
        ({"level": "Operator"}, "privileges", Level.NOTE),
        ({"config": {"prioritytype": "priority/basic"}}, "priority_type", Level.WARNING),
        ({"config": {"accountingstorageenforce": "limits", "priorityflags": ""}},
         "accrue_always", Level.WARNING),
        ({"config": {"prioritysitefactorplugin": "site_factor/x"}}, "site_factor_plugin",
         Level.WARNING),
        ({"config": {"schedulertype": "sched/builtin"}}, "scheduler_type", Level.WARNING),
        ({"config": {"selecttype": "select/linear"}}, "select_type", Level.ERROR),
        ({"config": {"schedulerparameters": "bf_topopt_enable"}}, "bf_topopt", Level.WARNING),
        ({"config": {"schedulerparameters": ""}}, "bf_interval", Level.NOTE),
        ({"waiting": 1000}, "bf_yield_interval", Level.NOTE),
        ({"ways": (Choice("cli", True, "used"),)}, "backend", Level.OK),
        ({"ways": (Choice("rest", None, "not used"),)}, "backend", Level.NOTE),
        ({"ways": (Choice("rest", False, "does not work: x"),)}, "backend", Level.WARNING),
        ({"config": {"accountingstoragetres": "cpu"}}, "tres", Level.WARNING),
        ({"config": {"slurmctldparameters": "rl_enable"}, "level": "Operator"}, "rate_limit",
         Level.WARNING),
        ({"config": {"preempttype": "preempt/qos"}}, "preemption", Level.NOTE),
        ({"skew": 5.0}, "clock_skew", Level.WARNING),
        ({"skew": -90.0}, "clock_skew", Level.ERROR),
        ({"nodes": [node("n1", gpus=0)]}, "no_gpus", Level.WARNING),
        ({"nodes": [node("n1", states=("DOWN",))]}, "nodes_down", Level.NOTE),
        ({"differences": ("job 7: gpus",)}, "text_json", Level.WARNING),
        ({"problems": (Problem("job", "7", "x"),)}, "unreadable", Level.WARNING),
        ({"overrides": {"partitions.nope.mode": "order"}}, "partition", Level.WARNING),
        ({"overrides": {"mode": "observe"}}, "mode", Level.NOTE),
        ({"overrides": FAIR_SHARE}, "slurm_factors", Level.WARNING),
        ({"overrides": FAIR_SHARE, "config": {"prioritytype": "priority/basic"}}, "slurm_factors",
         Level.WARNING),
        ({"level": "Operator", "overrides": {"levers.defer": "hold"}}, "hold_without_notes",
         Level.ERROR),
    ],
)  # fmt: skip
def test_each_fault_is_found(changes: dict, code: str, level: Level) -> None:  # type: ignore[type-arg]
    assert found(**changes).get(code) is level


def test_every_complaint_names_a_remedy() -> None:
    bad = Facts(
        Controller((21, 8), "c", {}), observation([node("n1", gpus=0)], []), "None", 99.0, ("x",)
    )
    config = load(Path("/dev/null"), {})
    assert all(f.remedy for f in examine(bad, config) if f.level is not Level.OK)


@pytest.mark.parametrize(
    ("history", "exists", "code", "level"),
    [
        (HistoryState("missing"), False, "history", Level.NOTE),
        (HistoryState("damaged"), True, "history", Level.WARNING),
        (HistoryState(coverage=0.4), True, "history_drift", Level.WARNING),
        (HistoryState(coverage=0.8), True, "history", Level.OK),
        (HistoryState(coverage=None), True, "history", Level.OK),
    ],
)
def test_learnt_run_times(
    tmp_path: Path, history: HistoryState, exists: bool, code: str, level: Level
) -> None:
    if exists:
        (tmp_path / "durations.npz").touch()
    facts = Facts(Controller((24, 11, 5), "c", GOOD), observation([node("n1")], []), "SlurmUser",
                  0.1, (), history)  # fmt: skip
    config = load(Path("/dev/null"), {"mode": "enforce", "state.dir": str(tmp_path)})
    assert {f.code: f.level for f in examine(facts, config)}.get(code) is level


@pytest.mark.parametrize(
    ("version", "text"), [((22, 5, 8), "22.05.8"), ((24, 11), "24.11"), ((), "")]
)
def test_a_release_is_written_as_slurm_writes_it(version: tuple[int, ...], text: str) -> None:
    assert Controller(version).release == text
