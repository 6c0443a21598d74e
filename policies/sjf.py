"""Shortest job first."""

from slurm_ext.engine.parts.ordering import ShortestFirst
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="sjf",
    summary="shortest expected run time first",
    ordering=ShortestFirst(),
    placement=Weighted(),
    differs="the expected run time is the time limit until durations have been learned",
    needs=("limits",),
)
