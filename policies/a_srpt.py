"""In the order of a virtual machine that preempts, without preempting."""

from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.parts.service import LeastService
from slurm_ext.engine.parts.virtual import VirtualOrder
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="a-srpt",
    summary="as one fast machine would end them by shortest remaining time; stops nothing",
    ordering=LeastService(),
    placement=Weighted(),
    allocation=VirtualOrder(),
    cite="inspired by Luo et al., Prediction-Assisted Online Distributed Deep Learning Workload "
    "Scheduling in GPU Clusters, INFOCOM 2025",
    differs="predictions are those of the simulator, not a random forest; GPUs of a job are alike, "
    "so that its heaviest edges lie on as few nodes as possible",
    needs=("durations",),
    runs="simulated",
)
"""The policy."""
