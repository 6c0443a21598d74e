"""Doubling of GPU counts."""

from dataclasses import replace

from slurm_ext.engine.parts.doubling import Doubling
from slurm_ext.engine.parts.ordering import SubmitOrder
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="doubling",
    summary="one GPU each, then whoever gains most per GPU has its number doubled",
    ordering=SubmitOrder(),
    placement=Weighted(),
    allocation=Doubling(),
    cite="inspired by Capes et al., Dynamic Scheduling of MPI-based Distributed Deep Learning "
    "Training Jobs, MLSys workshop 2018 (arXiv 1908.08082); US 11,693,706 B2",
    differs="the work left comes from the expected run time, not from a loss curve; sizes change "
    "only if the time saved outweighs the restarts",
    needs=("speed", "durations", "checkpoints"),
    runs="annotated",
)
"""Speeds known on arrival (the paper's precompute)."""

EXPLORATORY = replace(
    POLICY,
    name="doubling-explore",
    summary="doubling; a new job first walks through 1, 2, 4, ... GPUs for ten minutes",
    allocation=Doubling(explore_s=600.0),
    runs="simulated",
)
"""Speeds measured first (the paper's exploratory)."""
