"""The greatest sum of speed-ups, exactly."""

from slurm_ext.engine.parts.ordering import SubmitOrder
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.parts.throughput import MaxThroughput
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="elastic-dp",
    summary="GPU counts with the greatest sum of speed-ups over all jobs, by dynamic programming",
    ordering=SubmitOrder(),
    placement=Weighted(),
    allocation=MaxThroughput(),
    cite="Saxena et al., Effective Elastic Scaling of Deep Learning Workloads, MASCOTS 2020",
    differs="batch sizes are the job's own, so that only GPU counts are chosen",
    needs=("speed", "checkpoints"),
    runs="annotated",
)
"""The policy."""
