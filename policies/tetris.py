"""Packing by several resources."""

from slurm_ext.engine.parts.alignment import Alignment
from slurm_ext.engine.parts.shares import LeastWork
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="tetris",
    summary="least work over all resources first, on the node that is free of just those",
    ordering=LeastWork(),
    placement=Alignment(),
    cite="inspired by Grandl et al., Multi-resource Packing for Cluster Schedulers, SIGCOMM 2014",
    differs="the job is chosen by its work, then the node by alignment, not both by one score; no "
    "fairness knob, no disks and networks",
    needs=("limits",),
)
"""The policy."""
