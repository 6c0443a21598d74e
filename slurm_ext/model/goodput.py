"""How fast a training job learns, as its user's library has measured it so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one step by GPUs and batch (Qiao et al., Pollux, OSDI 2021).

    Gradients of m samples a GPU take ``alpha_c + beta_c m``; bringing K GPUs together
    ``alpha + beta max(K - 2, 0)``, on one node (``r``) or several (``n``); the two overlap more
    the greater ``gamma`` (from 1, not at all, to 10).
    """

    alpha_c: float
    beta_c: float
    alpha_n: float
    beta_n: float
    alpha_r: float
    beta_r: float
    gamma: float


@dataclass(frozen=True, slots=True)
class Goodput:
    """What is known of a job that chooses its own batch size.

    ``step``: None until something was measured. ``grad_sqr``, ``grad_var``: squared norm and
    variance of the gradient at ``batch``, the batch it was written for (samples). It may use up to
    ``max_batch``, ``local_min`` to ``local_max`` samples a GPU at once, on at most ``most_gpus``.
    """

    step: StepTime | None
    grad_sqr: float
    grad_var: float
    batch: int
    max_batch: int
    local_min: int
    local_max: int
    most_gpus: int
