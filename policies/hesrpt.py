"""More GPUs the less time is left."""

from slurm_ext.engine.parts.hesrpt import LeastTimeMost
from slurm_ext.engine.parts.ordering import ShortestFirst
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="hesrpt",
    summary="all jobs at once, with more GPUs the less time they have left",
    ordering=ShortestFirst(),
    placement=Weighted(),
    allocation=LeastTimeMost(),
    cite="inspired by Berg, Vesilo, Harchol-Balter, heSRPT, Performance Evaluation 2020",
    differs="one exponent for all jobs; shares are rounded to doublings of the smallest size, at "
    "most what a job can use; sizes change only if the time saved outweighs the restarts",
    needs=("speed", "durations", "checkpoints"),
    runs="annotated",
)
"""The policy."""
