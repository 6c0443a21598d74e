"""Plots of runs: JCT distribution, the course over time, JCT by size, who held GPUs when.

Needs matplotlib (extra ``plot``). Every plot takes runs by label and draws on a figure of its own.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .errors import TraceError
from .outcome import SimResult
from .series import series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Runs = Mapping[str, SimResult]

SIZES = ((1, 1), (2, 4), (5, 8), (9, 10**9))
"""Classes of GPU counts of the box plot."""

GANTT_JOBS = 400
"""Jobs drawn at most in a Gantt chart; more cannot be told apart."""


def draw_all(runs: Runs) -> dict[str, Figure]:
    """All plots by name.

    :raises TraceError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise TraceError(
            f"plots need matplotlib: pip install 'slurm-ext[plot]' ({error})"
        ) from None
    plots: dict[str, Callable[[Figure, Runs], None]] = {
        "jct": _jct, "course": _course, "sizes": _sizes, "gantt": _gantt,
    }  # fmt: skip
    found = {}
    for name, draw in plots.items():
        height = 2.6 * len(runs) if name == "gantt" else 6.0 if name == "course" else 4.0
        figure = Figure(figsize=(8.0, max(3.0, height)), layout="constrained")
        draw(figure, runs)
        found[name] = figure
    return found


def write_files(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Every plot as PNG and SVG.

    :raises OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name, figure in figures.items():
        for kind in ("png", "svg"):
            path = folder / f"{name}.{kind}"
            figure.savefig(path, dpi=120)
            found.append(path)
    return found


def page(title: str, figures: Mapping[str, Figure], tables: str) -> str:
    """One HTML page with everything in it; ``tables`` is text, shown as it is."""
    parts = [
        "<!DOCTYPE html>",
        f"<html lang='en'><meta charset='utf-8'><title>{html.escape(title)}</title>",
        "<style>body{font-family:sans-serif;max-width:60em;margin:2em auto}"
        "img{max-width:100%}pre{overflow-x:auto}</style>",
        f"<h1>{html.escape(title)}</h1><pre>{html.escape(tables)}</pre>",
    ]
    for name, figure in figures.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=120)
        data = base64.b64encode(buffer.getvalue()).decode()
        parts.append(f"<p><img alt='{name}' src='data:image/png;base64,{data}'></p>")
    return "\n".join([*parts, "</html>", ""])


def _jct(figure: Figure, runs: Runs) -> None:
    axes = figure.add_subplot()
    for label, result in runs.items():
        jct_s = np.sort([o.jct_s for o in result.jobs])
        share = np.arange(1, len(jct_s) + 1) / len(jct_s)
        axes.step(np.maximum(jct_s, 1), share, where="post", label=label)
    axes.set_xscale("log")
    axes.set_xlabel("job completion time, s")
    axes.set_ylabel("share of jobs")
    axes.set_ylim(0, 1)
    axes.grid(alpha=0.3)
    axes.legend()


def _course(figure: Figure, runs: Runs) -> None:
    upper, lower = figure.subplots(2, 1, sharex=True)
    for label, result in runs.items():
        course = series(result)
        hours = course.at_s / 3600
        upper.step(hours, course.used / result.gpus, where="post", label=label)
        lower.step(hours, course.waiting, where="post", label=label)
    upper.set_ylabel("GPUs held / all")
    upper.set_ylim(0, 1.02)
    upper.legend()
    lower.set_ylabel("jobs waiting")
    lower.set_xlabel("time, h")
    for axes in (upper, lower):
        axes.grid(alpha=0.3)


def _sizes(figure: Figure, runs: Runs) -> None:
    axes = figure.add_subplot()
    width = 0.8 / len(runs)
    any_result = next(iter(runs.values()))
    classes = [
        (low, high)
        for low, high in SIZES
        if any(low <= o.spec.gpus <= high for o in any_result.jobs)
    ]
    for number, (label, result) in enumerate(runs.items()):
        values = [
            [max(1, o.jct_s) for o in result.jobs if low <= o.spec.gpus <= high]
            for low, high in classes
        ]
        at = np.arange(len(classes)) + (number - (len(runs) - 1) / 2) * width
        drawn = axes.boxplot(
            values, positions=at, widths=0.9 * width, whis=(5, 95), showfliers=False,
            patch_artist=True,
        )  # fmt: skip
        for box in drawn["boxes"]:
            box.set_facecolor(f"C{number}")
        axes.plot([], [], color=f"C{number}", label=label)
    names = [
        str(low) if low == high else f"{low}-{high}" if high < SIZES[-1][1] else f">{low - 1}"
        for low, high in classes
    ]
    axes.set_xticks(range(len(classes)), names)
    axes.set_yscale("log")
    axes.set_xlabel("GPUs asked for (whiskers: 5 and 95 %)")
    axes.set_ylabel("job completion time, s")
    axes.legend()


def _gantt(figure: Figure, runs: Runs) -> None:
    several = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (label, result) in zip(several, runs.items(), strict=True):
        for colour, start_s, end_s, lanes in lanes_of(result):
            for first, count in lanes:
                axes.broken_barh(
                    [(start_s / 3600, (end_s - start_s) / 3600)], (first, count),
                    facecolors=f"C{colour % 10}", edgecolor="white", linewidth=0.2,
                )  # fmt: skip
        shown = min(GANTT_JOBS, len(result.jobs))
        axes.set_title(f"{label}: first {shown} jobs" if shown < len(result.jobs) else label)
        axes.set_ylabel("GPUs")
        axes.set_ylim(0, result.gpus)
    several[-1].set_xlabel("time, h (GPUs of equal rank are put together, whatever their node)")


def lanes_of(
    result: SimResult,
) -> list[tuple[int, int, int, list[tuple[int, int]]]]:
    """(job number, start, end, [(first lane, lanes)]) of each stretch: lowest free lanes first."""
    spans = [
        (span, number)
        for number, outcome in enumerate(result.jobs[:GANTT_JOBS])
        for span in outcome.held
    ]
    free = list(range(result.gpus))
    ends: list[tuple[int, list[int]]] = []
    found = []
    for span, number in sorted(spans):
        for end_s, lanes in [e for e in ends if e[0] <= span.start_s]:
            free.extend(lanes)
            ends.remove((end_s, lanes))
        free.sort()
        lanes, free = free[: span.gpus], free[span.gpus :]
        ends.append((span.end_s, lanes))
        found.append((number, span.start_s, span.end_s, _runs_of(lanes)))
    return found


def _runs_of(lanes: list[int]) -> list[tuple[int, int]]:
    """Neighbouring lanes put together: (first, how many)."""
    found: list[tuple[int, int]] = []
    for lane in lanes:
        if found and found[-1][0] + found[-1][1] == lane:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((lane, 1))
    return found
