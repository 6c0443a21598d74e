"""Shortest remaining time first."""

from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.parts.ranked import Ranked
from slurm_ext.engine.parts.ranks import ShortestRemaining
from slurm_ext.engine.parts.service import LeastService
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="srtf",
    summary="least time to the end first; stops running jobs for shorter ones",
    ordering=LeastService(times_gpus=False),
    placement=Weighted(),
    allocation=Ranked(ShortestRemaining()),
    cite="Schrage, Operations Research 16(3), 1968",
    differs="on several GPUs: a job that does not fit is passed over",
    needs=("durations", "checkpoints"),
    runs="order",
)
"""The policy."""

SRSF = Policy(
    name="srsf",
    summary="least GPU time to the end first; stops running jobs for shorter ones",
    ordering=LeastService(),
    placement=Weighted(),
    allocation=Ranked(ShortestRemaining(times_gpus=True)),
    cite="Gu et al., Tiresias, NSDI 2019 (as the oracle of 2D-LAS)",
    differs="a job that does not fit is passed over",
    needs=("durations", "checkpoints"),
    runs="order",
)
"""Shortest remaining service first."""
