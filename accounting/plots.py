"""Pictures of an evaluation (matplotlib, extra ``plot``): one file a trace, three panels."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slurm_ext.accounting.evaluate import Result
from slurm_ext.accounting.sacct import HistoryError
from slurm_ext.accounting.weighted import Floats
from slurm_ext.slurm.run import escape


def draw(results: Sequence[Result], best: str, folder: Path) -> list[Path]:
    """Write ``TRACE.png`` for each trace; the files written.

    Panels: mean EA by run-time decade, each predictor; share of run times that ended within p10,
    p50 and p90 of ``best`` by decade; its points against run times.

    :raises HistoryError: no matplotlib, or the folder cannot be written.
    """
    try:
        # The object interface: no display, no state shared with whoever imports us.
        figure = importlib.import_module("matplotlib.figure").Figure
    except ImportError as error:
        raise HistoryError("--plots needs matplotlib: pip install 'slurm-ext[plot]'") from error
    found = []
    for trace in dict.fromkeys(r.trace for r in results):
        mine = [r for r in results if r.trace == trace]
        chart = figure(figsize=(15, 5), layout="constrained")
        left, middle, right = chart.subplots(1, 3)
        _accuracy(left, mine, best)
        winner = next((r for r in mine if r.predictor == best), None)
        if winner is not None:
            _calibration(middle, winner.runs, winner.predictions)
            _scatter(right, winner.runs, winner.predictions)
        chart.suptitle(f"{trace}: predicted at submit, last 70 %")
        path = folder / f"{trace}.png"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            chart.savefig(path, dpi=100)
        except OSError as error:
            raise HistoryError(f"{escape(str(path))}: {error.strerror}") from error
        found.append(path)
    return found


def _accuracy(axes: Any, results: Sequence[Result], best: str) -> None:
    for result in results:
        parts = {k: m.ea for k, m in result.slices.items() if k.endswith(" s")}
        line = {"linewidth": 3, "zorder": 3} if result.predictor == best else {"alpha": 0.7}
        axes.plot(list(parts), list(parts.values()), marker="o", label=result.predictor, **line)
    axes.set(title="accuracy by run time", xlabel="run time, decade", ylabel="mean EA")
    axes.set_ylim(0, 1)
    axes.legend(fontsize="x-small")


def _calibration(axes: Any, runs: Floats, predictions: Floats) -> None:
    decades = np.floor(np.log10(np.maximum(runs, 1.0))).astype(int)
    present = sorted(set(decades.tolist()))
    for column, share in enumerate((0.1, 0.5, 0.9), 1):
        within = [
            float(np.mean(runs[decades == d] <= predictions[decades == d, column])) for d in present
        ]
        (line,) = axes.plot(
            [f"{10**d} s" for d in present], within, marker="o", label=f"p{share * 100:.0f}"
        )
        axes.axhline(share, color=line.get_color(), linestyle=":")
    axes.set(title="ended within its quantiles", xlabel="run time, decade", ylabel="share of jobs")
    axes.legend()


def _scatter(axes: Any, runs: Floats, predictions: Floats) -> None:
    known = ~np.isnan(predictions[:, 0])
    r, p = np.maximum(runs[known], 1.0), np.maximum(predictions[known, 0], 1.0)
    if not len(r):
        return
    axes.hexbin(r, p, xscale="log", yscale="log", gridsize=50, bins="log", mincnt=1)
    ends = (1.0, float(max(r.max(), p.max())))
    axes.plot(ends, ends, color="black", linewidth=1)
    axes.set(title="point against run time", xlabel="run time, s", ylabel="predicted, s")
