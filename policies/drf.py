"""Dominant resource fairness."""

from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.parts.shares import DominantShares
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="drf",
    summary="the user with the smallest share of what it uses most goes first",
    ordering=DominantShares(),
    placement=Weighted(),
    cite="Ghodsi et al., Dominant Resource Fairness, NSDI 2011",
    differs="what the cluster has for each GPU is a parameter; jobs are whole; nothing is stopped",
    needs=("users",),
)
"""The policy."""
