"""Figures by hand, causality, the rule, and the published rows on the public traces."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from slurm_ext.accounting import boost
from slurm_ext.accounting.baselines import (
    PREDICTORS,
    Backoff,
    LastTwo,
    Learned,
    Limit,
    LimitRatio,
    Prediction,
    Predictor,
    UserMean,
)
from slurm_ext.accounting.evaluate import (
    PEERS,
    Result,
    judge,
    prequential,
    scores,
    slice_table,
    table,
    winner,
)
from slurm_ext.accounting.features import Features
from slurm_ext.accounting.metrics import Metrics, measure
from slurm_ext.accounting.sacct import HistoryError
from slurm_ext.accounting.trials import TRACES, Trial, load, of_attempts, swf
from tests.unit.accounting.helpers import DATA, T0, attempt

NAN = math.nan


def trial(submit_s: int, run_s: int, user: str = "ann", limit_s: int | None = 1000) -> Trial:
    return Trial(Features(user, gpus=1, limit_s=limit_s), submit_s, submit_s + run_s, run_s, True)


def test_figures_by_hand() -> None:
    predictions = np.array([[50, 10, 50, 90], [400, 100, 400, 900], [NAN, NAN, NAN, NAN]])
    found = measure(np.array([100.0, 100.0, 7.0]), predictions)
    assert (found.n, found.missing, found.mae_s, found.mdae_s) == (2, 1, 175, 175)
    assert (found.mdare, found.ea, found.within2x) == (1.75, 0.375, 0.5)
    assert (found.within50, found.within20, found.under) == (0.5, 0, 0.5)
    assert found.geometric == pytest.approx(math.exp((math.log(2) + math.log(4)) / 2))
    assert found.coverage == 0.5


def test_pinball_of_a_perfect_prediction_is_zero() -> None:
    assert measure(np.array([60.0]), np.full((1, 4), 60.0)).pinball == 0


def test_nothing_predicted_is_not_a_number() -> None:
    found = measure(np.array([1.0]), np.full((1, 4), NAN))
    assert (found.n, found.missing, math.isnan(found.ea)) == (0, 1, True)


class Spy:
    """Refuses to be told of what has not ended."""

    def __init__(self) -> None:
        self.now_s, self.told = 0, 0

    def learn(self, trial: Trial) -> None:
        self.told += 1
        self.last_end_s = trial.end_s

    def predict(self, trial: Trial) -> Prediction:
        assert self.told == 0 or self.last_end_s <= trial.submit_s
        return Prediction(float(self.told))


def test_only_what_had_ended_is_known() -> None:
    trials = [trial(0, 100), trial(10, 20), trial(30, 5), trial(99, 1), trial(100, 1)]
    assert prequential(trials, Spy())[:, 0].tolist() == [0, 0, 1, 2, 4]


@pytest.mark.parametrize(
    ("make", "points"),
    [
        (Limit, [1000, 1000, 1000]),
        (LimitRatio, [1000, 100, 200]),
        (LastTwo, [1000, 1000, 200]),
        (UserMean, [1000, 100, 200]),
        (lambda: Backoff((lambda t: t.job.user,)), [1000, 100, 200]),
    ],
)
def test_baselines(make: Callable[[], Predictor], points: list[float]) -> None:
    trials = [trial(0, 100), trial(1000, 300), trial(2000, 1)]
    assert prequential(trials, make())[:, 0].tolist() == points


def test_baseline_without_limit_or_history_has_no_figure() -> None:
    assert math.isnan(LastTwo().predict(trial(0, 1, limit_s=None)).point_s)


@pytest.mark.parametrize("name", PREDICTORS)
def test_predictions_stay_within_the_limit(name: str) -> None:
    trials = [trial(i * 2000, 100 + 700 * (i % 2), limit_s=500 + i) for i in range(30)]
    found = prequential(trials, PREDICTORS[name]())
    limits = np.array([t.job.limit_s for t in trials], dtype=float)
    assert (found[:, 0] <= limits).all()


def result(trace: str, name: str, ea: float, missing: int = 0) -> Result:
    return Result(trace, name, Metrics(9, missing, 0, 0, 0, ea, 0, 0, 0, 0, 0, 0, 0), {})


def test_winner_is_best_on_average_and_complete() -> None:
    results = [
        result("a", "x", 0.5), result("b", "x", 0.5),
        result("a", "y", 0.9), result("b", "y", 0.2),
        result("a", "z", 0.9), result("b", "z", 0.9, missing=1),
        result("a", "w", 0.99),
    ]  # fmt: skip
    assert scores(results) == {"x": 0.5, "y": pytest.approx(0.55)}
    assert winner(results) == "y"
    assert winner([]) == ""


def test_tables_name_every_row() -> None:
    trials = [trial(i * 2000, 100) for i in range(20)]
    results = judge("kth-sp2", trials, ["limit", "weighted, nearest"])
    said = table(results)
    assert "| kth-sp2 | *peer:* kNN (slurmise) |" in said
    assert "| kth-sp2 | weighted, nearest | 14 |" in said
    assert "ended by itself | 14" in slice_table(results, "weighted, nearest")


def test_own_history_leaves_out_what_never_ran_or_still_runs() -> None:
    rows = [attempt(), attempt(outcome="never_ran"), attempt(end_s=None)]
    assert [t.submit_s for t in of_attempts(rows)] == [T0]


def test_swf_line() -> None:
    line = "2 327952 291900 9382 80 -1 -1 80 14400 -1 1 2 2 -1 -1 -1 -1 -1"
    (made,) = swf(["; comment", "", line])
    assert (made.end_s, made.run_s, made.ended) == (327952 + 291900 + 9382, 9382, True)
    assert (made.job.user, made.job.size, made.job.limit_s) == ("user2", -80, 14400)


def test_unknown_and_absent_traces_are_said(tmp_path: object) -> None:
    with pytest.raises(HistoryError, match="known: philly15k"):
        load("nope", DATA)
    with pytest.raises(HistoryError, match="No such file"):
        load("eagle", DATA / "nowhere")


@pytest.mark.skipif(not boost.available(), reason="scikit-learn is not installed (extra learn)")
def test_boosting_never_sees_the_future() -> None:
    rng = np.random.default_rng(1)
    trials = [trial(i * 2000, int(rng.integers(50, 900))) for i in range(260)]
    changed = [*trials[:200], *(t._replace(run_s=1) for t in trials[200:])]
    whole, other = (boost.predictions(t, stacked=False) for t in (trials, changed))
    assert np.isnan(whole[:100]).all()
    assert np.array_equal(whole[:200], other[:200], equal_nan=True)


@cache
def trace(name: str) -> list[Trial]:
    if not (DATA / TRACES[name][0]).exists():
        pytest.skip(f"needs the trace {name}, looked for in {DATA}")
    return load(name, DATA)


REPRODUCED = [
    key for key in PEERS if key[1] in PREDICTORS and key != ("eagle", "user+size median of 20")
]  # a few eagle jobs without history fall back differently there


@pytest.mark.parametrize(("name", "predictor"), REPRODUCED)
def test_published_rows_are_reproduced(name: str, predictor: str) -> None:
    """The same split and rules as others: else a comparison with their figures is worth nothing."""
    (found,) = judge(name, trace(name), [predictor])
    for figure, value in PEERS[name, predictor].items():
        assert getattr(found.all, figure) == pytest.approx(value, rel=0.01, abs=0.003), figure


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ea", "mdare"), [("philly15k", 0.512, 0.42), ("kth-sp2", 0.6, 0.32)]
)
def test_ours_beats_what_is_published(name: str, ea: float, mdare: float) -> None:
    found = measure_tail(trace(name), Learned())
    best = max(figures["ea"] for (of, _), figures in PEERS.items() if of == name)
    assert found.ea > max(ea, best)
    assert found.mdare < mdare


def measure_tail(trials: list[Trial], predictor: Predictor) -> Metrics:
    begin = int(len(trials) * 0.3)
    runs = np.array([t.run_s for t in trials[begin:]], dtype=float)
    return measure(runs, prequential(trials, predictor)[begin:])
