"""Quasi shortest service first."""

from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.parts.service import LeastService
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="qssf",
    summary="least predicted GPU time first; nothing is stopped",
    ordering=LeastService(),
    placement=Weighted(),
    cite="Hu et al., Characterization and Prediction of Deep Learning Workloads, SC 2021",
    differs="the prediction is ours: learned quantiles in the daemon, the mean of a user's jobs "
    "of equal size in the simulator",
    needs=("durations",),
)
"""The policy."""
