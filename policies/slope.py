"""GPUs along the slopes of the speed curves."""

from slurm_ext.engine.parts.ordering import SubmitOrder
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.parts.slope import Slopes
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="slope",
    summary="jobs keep what they asked for; GPUs beyond that go where one more is worth most",
    ordering=SubmitOrder(),
    placement=Weighted(),
    allocation=Slopes(),
    cite="after Zhang et al., Rubick, MLSys 2025, and its artifact",
    differs="parallel plans are the job's own: a declared speed for each number of GPUs; CPUs are "
    "not shared out; all jobs are of one class",
    needs=("speed", "checkpoints"),
    runs="simulated",
)
"""The policy."""
