"""How the numbers in ``accounting.predict.Settings`` are chosen, on data that is not judged later.

Rule, fixed beforehand: the highest mean EA over the traces, of every fourth job from 10 % to 30 %
of each log (the first 10 % only warm up; the last 70 %, on which predictors are judged, are never
read). Of the smallest trace every job counts.
Coordinate search from the values below, one parameter after the other, until a whole round
changes nothing; at equal score the earlier value stays. A change must gain 0.001.

``python bench/history_settings.py DIR`` prints each step and the result.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np

from slurm_ext.accounting.baselines import Learned, Prediction
from slurm_ext.accounting.evaluate import WARM_UP
from slurm_ext.accounting.metrics import measure
from slurm_ext.accounting.predict import Settings
from slurm_ext.accounting.trials import TRACES, Trial, load
from slurm_ext.accounting.weighted import Floats

BEGIN, EVERY, SMALL = 0.1, 4, 1000
GAIN = 0.001
START = Settings(
    fade=20.0, size=0.5, limit=0.5, stem=0.5, place=0.5, least=0.01, account=0.1, site=0.1,
    rescale=True, censored=False,
)  # fmt: skip
CHOICES: dict[str, tuple[float | bool, ...]] = {
    "stem": (0.05, 0.1, 0.2, 0.5),
    "limit": (0.1, 0.2, 0.3, 0.5),
    "size": (0.1, 0.2, 0.3, 0.5),
    "place": (0.3, 0.5, 1.0),
    "fade": (3.0, 6.0, 12.0, 20.0, 40.0),
    "least": (0.001, 0.005, 0.01, 0.03),
    "account": (0.0, 0.05, 0.1, 0.15, 0.3),
    "site": (0.02, 0.05, 0.1, 0.2, 0.4),
    "rescale": (True, False),
    "censored": (False, True),
}


def score(settings: Settings, sets: Sequence[Sequence[Trial]]) -> float:
    """Mean EA over the traces, of the part that may be looked at."""
    found = []
    for trials in sets:
        begin = int(len(trials) * BEGIN / WARM_UP)
        step = EVERY if len(trials) > SMALL else 1
        judged = list(range(begin, len(trials), step))
        runs = np.array([trials[n].run_s for n in judged], dtype=float)
        found.append(measure(runs, _predict(trials, set(judged), Learned(settings))).ea)
    return fmean(found)


def _predict(trials: Sequence[Trial], judged: set[int], predictor: Learned) -> Floats:
    """As :func:`~slurm_ext.accounting.evaluate.prequential`, of these jobs alone."""
    found: list[Prediction] = []
    running: list[tuple[int, int]] = []
    for number, trial in enumerate(trials):
        while running and running[0][0] <= trial.submit_s:
            predictor.learn(trials[heapq.heappop(running)[1]])
        if number in judged:
            found.append(predictor.predict(trial))
        heapq.heappush(running, (trial.end_s, number))
    return np.array(found, dtype=float)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of traces")
    folder = parser.parse_args().folder
    whole = [load(name, folder) for name in TRACES]
    sets = [trials[: int(len(trials) * WARM_UP)] for trials in whole]
    best, best_score = START, score(START, sets)
    print(f"{best_score:.4f} at the start", flush=True)
    changed = True
    while changed:
        changed = False
        for name, values in CHOICES.items():
            for value in values:
                if value == getattr(best, name):
                    continue
                other = replace(best, **{name: value})
                found = score(other, sets)
                if found > best_score + GAIN:
                    best, best_score, changed = other, found, True
                    print(f"{found:.4f} with {name} {value}", flush=True)
    print(best)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
