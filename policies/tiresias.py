"""Least attained service in queues, without knowing how long a job will take."""

from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.parts.ranked import Ranked
from slurm_ext.engine.parts.ranks import AttainedQueues, Gittins
from slurm_ext.engine.parts.service import LeastAttained
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="tiresias",
    summary="least GPU time had so far goes first, in queues (2D-LAS); needs no durations",
    ordering=LeastAttained(),
    placement=Weighted(),
    allocation=Ranked(AttainedQueues()),
    cite="Gu et al., Tiresias, NSDI 2019",
    differs="consolidates every job, where the paper profiles which ones gain by it; within a "
    "queue by order of submission",
    needs=("checkpoints",),
    runs="order",
)
"""The policy."""

GITTINS = Policy(
    name="tiresias-g",
    summary="2D-LAS with the Gittins index of the GPU times of ended jobs",
    ordering=LeastAttained(),
    placement=Weighted(),
    allocation=Ranked(Gittins()),
    cite="Gu et al., Tiresias, NSDI 2019; Gittins, JRSS B 41(2), 1979",
    differs="the distribution is that of the jobs ended so far; before there are any it is 2D-LAS",
    needs=("checkpoints",),
    runs="order",
)
"""With the Gittins index."""
