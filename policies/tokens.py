"""Tokens: shortest first, without starving the long."""

from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.parts.tokens import Tokens
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="tokens",
    summary="shortest first among the jobs that have waited longest for their length",
    ordering=Tokens(),
    placement=Weighted(),
    cite="inspired by Choi and Rhu, PREMA, HPCA 2020",
    differs="nothing is stopped; all jobs are of one priority; tokens follow from the wait instead "
    "of growing at each scheduling point",
    needs=("durations",),
)
"""The policy."""
