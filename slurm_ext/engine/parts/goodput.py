"""Goodput: samples a second times how much each sample is worth at that batch size.

Qiao et al., Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning, OSDI 2021.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slurm_ext.model.goodput import Goodput, StepTime

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

BATCHES = 50
"""Batch sizes tried, from the smallest to the largest in equal ratios."""

NEVER = 1e-8
"""Seconds of a term that does not arise; not nought, as it is raised to powers."""

_EPS = 1e-8


class Times(NamedTuple):
    """Seconds of a gradient on the GPU, of bringing GPUs together, and of a whole step."""

    gradient_s: FloatArray
    network_s: FloatArray
    step_s: FloatArray


class Best(NamedTuple):
    """Greatest goodput by number of GPUs, samples a GPU at once, further rounds in a step."""

    goodput: FloatArray
    local: IntArray
    accumulate: IntArray


def times(step: StepTime, several: FloatArray, gpus: FloatArray, local: FloatArray) -> Times:
    """Times by the model; ``several``: whether on several nodes; all shapes must broadcast."""
    gradient_s = step.alpha_c + step.beta_c * local
    beyond = np.maximum(gpus - 2, NEVER)
    network_s = np.where(
        several.astype(bool),
        step.alpha_n + step.beta_n * beyond,
        np.where(gpus > 1, step.alpha_r + step.beta_r * beyond, NEVER * (1 + beyond)),
    )
    # The greater one is taken out of the sum, so that no power runs over or under.
    most = np.maximum(gradient_s, network_s)
    ratio = np.minimum(gradient_s, network_s) / most
    return Times(gradient_s, network_s, most * (1 + ratio**step.gamma) ** (1 / step.gamma))


def efficiency(known: Goodput, batch: FloatArray) -> FloatArray:
    """What a sample is worth in a batch of that size, over one in the job's own batch."""
    scale = batch / known.batch
    below = known.grad_var / scale + known.grad_sqr
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(below > 0, (known.grad_var + known.grad_sqr) / below, 1.0)
    worth: FloatArray = gain / scale
    return worth


def best(known: Goodput, several: bool, gpus: IntArray) -> Best:
    """The best batch for each number of GPUs (at least 1), on one node or ``several``.

    A batch above ``local_max`` a GPU is done in rounds; one GPU alone always in two or more, as
    gradients of one round tell nothing of their variance. 0 where no batch suits the number.

    :raises ValueError: nothing was measured yet.
    """
    if known.step is None:
        raise ValueError("no step has been timed yet")
    count = gpus.astype(np.float64)
    least = np.maximum(known.batch, known.local_min * count)
    batch = np.geomspace(least, np.maximum(least, known.max_batch), BATCHES)
    local = batch / count
    rounds = np.ceil(local / known.local_max - _EPS) - 1
    alone = (count == 1) & (local > known.batch + _EPS)
    rounds = np.where(alone, np.maximum(rounds, 1), rounds)
    local = np.ceil(local / (rounds + 1) - _EPS)
    took = times(known.step, np.array(several), count, local)
    batch = count * local * (rounds + 1)
    found = batch / (rounds * took.gradient_s + took.step_s) * efficiency(known, batch)
    fits = (local >= known.local_min) & (local <= known.local_max)
    found = np.where(fits & (least <= known.max_batch), found, 0.0)
    at = np.argmax(found, axis=0), np.arange(len(count))
    return Best(found[at], local[at].astype(np.int64), rounds[at].astype(np.int64))
