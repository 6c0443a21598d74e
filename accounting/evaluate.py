"""Prequential evaluation: each job is predicted at its submit from the jobs that had ended by then.

The first 30 % of a trace warm predictors up (and are what :class:`Settings` were chosen on); the
last 70 % are judged. The winner is the predictor with the highest mean EA over the traces.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import nan
from statistics import fmean
from typing import Any

import numpy as np

from slurm_ext.accounting import boost
from slurm_ext.accounting.baselines import PREDICTORS, Predictor
from slurm_ext.accounting.metrics import Metrics, measure
from slurm_ext.accounting.record import FROM_OUTSIDE, ITSELF
from slurm_ext.accounting.trials import Trial
from slurm_ext.accounting.weighted import Bools, Floats

WARM_UP = 0.3
RULE = "highest mean EA over the traces, last 70 % of each; must have a figure for every job"
BOOSTED = {"boosted (GBDT)": False, "boosted on ours (GBDT)": True}

PEERS: dict[tuple[str, str], dict[str, float]] = {
    ("philly15k", "last two (Tsafrir)"): {
        "mae_s": 39752, "mdare": 0.666, "ea": 0.456, "within2x": 0.486, "under": 0.534,
    },
    ("philly15k", "user+size median of 20"): {
        "mae_s": 29158, "mdare": 0.453, "ea": 0.507, "within2x": 0.546,
    },
    ("philly15k", "kNN (slurmise)"): {"mae_s": 46372, "mdare": 0.995, "ea": 0.369},
    ("kth-sp2", "limit"): {"mdare": 1.195, "ea": 0.487, "within2x": 0.478},
    ("kth-sp2", "last two (Tsafrir)"): {
        "mae_s": 5274, "mdare": 0.469, "ea": 0.547, "within2x": 0.565, "under": 0.476,
    },
    ("kth-sp2", "user+size median of 20"): {
        "mae_s": 5388, "mdare": 0.532, "ea": 0.526, "within2x": 0.526,
    },
    ("kth-sp2", "kNN (slurmise)"): {"mae_s": 4353, "mdare": 0.545, "ea": 0.506},
    ("eagle", "limit"): {"mdare": 1.909, "ea": 0.297, "within2x": 0.039},
    ("eagle", "last two (Tsafrir)"): {
        "mae_s": 23717, "mdare": 1.883, "ea": 0.340, "within2x": 0.073, "under": 0.100,
    },
    ("eagle", "user+size median of 20"): {
        "mae_s": 15063, "mdare": 0.997, "ea": 0.182, "within2x": 0.160,
    },
}  # fmt: skip
"""Figures of other people's programs on the same traces and split."""


@dataclass(frozen=True, slots=True)
class Result:
    """One predictor on one trace: overall, by run-time decade and by size.

    ``runs`` and ``predictions`` (columns point, p10, p50, p90) of the judged jobs, for plots.
    """

    trace: str
    predictor: str
    all: Metrics
    slices: Mapping[str, Metrics]
    runs: Floats = field(default_factory=lambda: np.empty(0), compare=False)
    predictions: Floats = field(default_factory=lambda: np.empty((0, 4)), compare=False)

    def plain(self) -> dict[str, Any]:
        """Without the predictions, as JSON would hold it."""
        return {
            "trace": self.trace, "predictor": self.predictor, "all": asdict(self.all),
            "slices": {name: asdict(one) for name, one in self.slices.items()},
        }  # fmt: skip


def prequential(trials: Sequence[Trial], predictor: Predictor) -> Floats:
    """Predictions (columns point, p10, p50, p90) in the order of the trials."""
    found = np.full((len(trials), 4), nan)
    running: list[tuple[int, int]] = []
    for number, trial in enumerate(trials):
        while running and running[0][0] <= trial.submit_s:
            predictor.learn(trials[heapq.heappop(running)[1]])
        found[number] = predictor.predict(trial)
        heapq.heappush(running, (trial.end_s, number))
    return found


def judge(
    trace: str,
    trials: Sequence[Trial],
    names: Sequence[str],
    progress: Callable[[str, str], None] = lambda trace, name: None,
    *,
    rank: bool = False,
) -> list[Result]:
    """All these predictors on one trace; boosted ones are left out without scikit-learn."""
    results = []
    for name in names:
        progress(trace, name)
        if name in BOOSTED:
            if not boost.available():
                continue
            predictions = boost.predictions(trials, stacked=BOOSTED[name])
        else:
            predictions = prequential(trials, PREDICTORS[name]())
        results.append(_result(trace, name, trials, predictions, rank=rank))
    return results


def _result(
    trace: str, name: str, trials: Sequence[Trial], predictions: Floats, *, rank: bool
) -> Result:
    begin = int(len(trials) * WARM_UP)
    # Cut short from outside: nobody knows how long it would have run.
    chosen = [n for n in range(begin, len(trials)) if trials[n].ended > FROM_OUTSIDE]
    judged, tail = [trials[n] for n in chosen], predictions[chosen]
    runs = np.array([t.run_s for t in judged], dtype=float)
    slices = {
        label: measure(runs[part], tail[part])
        for label, part in _slices(judged, runs).items()
        if part.any()
    }
    return Result(trace, name, measure(runs, tail, rank=rank), slices, runs, tail)


def _slices(trials: Sequence[Trial], runs: Floats) -> dict[str, Bools]:
    decades = np.floor(np.log10(np.maximum(runs, 1.0)))
    sizes = np.array([abs(t.job.size) for t in trials])
    unit = "GPU" if sum(t.job.gpus > 0 for t in trials) * 2 > len(trials) else "CPU"
    found = {f"{10**d} s": decades == d for d in range(int(decades.max(initial=0)) + 1)}
    bounds = (1, 2, 4, 8, 16, 32, 64)
    for low, high in zip(bounds, (*bounds[1:], np.inf), strict=True):
        label = f"{low}+ {unit}" if high == np.inf else f"{low}-{int(high) - 1} {unit}"
        label = f"1 {unit}" if low == 1 else label
        found[label] = (sizes >= low) & (sizes < high)
    found["ended by itself"] = np.array([t.ended == ITSELF for t in trials])
    found["cut off"] = ~found["ended by itself"]
    return found


def scores(results: Sequence[Result]) -> dict[str, float]:
    """Mean EA of each predictor that has a figure for every judged job of every trace."""
    traces = {r.trace for r in results}
    found = {}
    for name in dict.fromkeys(r.predictor for r in results):
        own = [r for r in results if r.predictor == name]
        if {r.trace for r in own} == traces and all(r.all.n and not r.all.missing for r in own):
            found[name] = fmean(r.all.ea for r in own)
    return found


def winner(results: Sequence[Result]) -> str:
    """By :data:`RULE`; empty without any complete predictor."""
    found = scores(results)
    return max(found, key=lambda name: found[name]) if found else ""


COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("MAE s", "mae_s", ".0f"), ("median AE s", "mdae_s", ".0f"), ("MdARE", "mdare", ".3f"),
    ("EA", "ea", ".3f"), ("within 20 %", "within20", ".3f"), ("within 50 %", "within50", ".3f"),
    ("within 2x", "within2x", ".3f"), ("geo", "geometric", ".2f"), ("under", "under", ".3f"),
    ("pinball", "pinball", ".3f"), ("p10-p90", "coverage", ".3f"), ("tau", "tau", ".3f"),
)  # fmt: skip


def table(results: Sequence[Result]) -> str:
    """Markdown, the peers' published rows beside ours, then the scores."""
    names = [title for title, _, _ in COLUMNS]
    lines = [f"| trace | predictor | n | {' | '.join(names)} |", f"|{'---|' * (len(names) + 3)}"]
    for trace in dict.fromkeys(r.trace for r in results):
        for (of, name), figures in PEERS.items():
            if of == trace:
                cells = [_cell(figures.get(field, nan), form) for _, field, form in COLUMNS]
                lines.append(f"| {trace} | *peer:* {name} | | {' | '.join(cells)} |")
        for result in (r for r in results if r.trace == trace):
            cells = [_cell(getattr(result.all, field), form) for _, field, form in COLUMNS]
            lines.append(f"| {trace} | {result.predictor} | {result.all.n} | {' | '.join(cells)} |")
    ranked = sorted(scores(results).items(), key=lambda item: -item[1])
    lines += ["", f"Rule: {RULE}."]
    lines += [f"{place}. {name}: {score:.4f}" for place, (name, score) in enumerate(ranked, 1)]
    return "\n".join(lines)


def slice_table(results: Sequence[Result], name: str) -> str:
    """Markdown of one predictor by run-time decade, size and way of ending."""
    lines = ["| trace | slice | n | MdARE | EA | within 2x | under | p10-p90 |", f"|{'---|' * 8}"]
    for result in (r for r in results if r.predictor == name):
        for label, m in result.slices.items():
            figures = (m.mdare, m.ea, m.within2x, m.under, m.coverage)
            cells = " | ".join(_cell(value, ".3f") for value in figures)
            lines.append(f"| {result.trace} | {label} | {m.n} | {cells} |")
    return "\n".join(lines)


def _cell(value: float, form: str) -> str:
    return "-" if value != value else format(value, form)
