"""Shortest job first."""

from slurm_ext.engine.parts.ordering import ShortestFirst
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="sjf",
    summary="shortest expected run time first",
    ordering=ShortestFirst(),
    placement=Weighted(),
    differs="run times learnt from accounting where there are any, else the time limit",
    needs=("limits",),
)
