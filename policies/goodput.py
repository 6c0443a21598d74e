"""The most learning over all jobs."""

from slurm_ext.engine.parts.goodput_shares import MostGoodput
from slurm_ext.engine.parts.ordering import SubmitOrder
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="goodput",
    summary="GPUs to where jobs learn fastest beside a fair share; jobs choose their batch sizes",
    ordering=SubmitOrder(),
    placement=Weighted(),
    allocation=MostGoodput(),
    cite="Qiao et al., Pollux, OSDI 2021; its artifact",
    differs="an exact programme for the sizes and a greedy layout instead of a genetic search",
    needs=("goodput", "checkpoints"),
    runs="simulated",
    round_s=60,
)
"""The policy."""
