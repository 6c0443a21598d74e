"""Finish-time fairness."""

from slurm_ext.engine.parts.ordering import SubmitOrder
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.parts.ranked import Ranked
from slurm_ext.engine.parts.ranks import FinishTimeFairness
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="themis",
    summary="who would end latest against a run of its own goes first, anew each lease",
    ordering=SubmitOrder(),
    placement=Weighted(),
    allocation=Ranked(FinishTimeFairness()),
    cite="inspired by Mahajan et al., Themis, NSDI 2020",
    differs="no auction and no fairness knob: all GPUs go by finish-time fairness",
    needs=("durations", "checkpoints"),
    runs="simulated",
    round_s=600,
)
"""The policy."""
