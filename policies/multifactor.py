"""Slurm's own multifactor order, with our placement and backfill."""

from slurm_ext.engine.parts.ordering import SlurmPriority
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="multifactor",
    summary="the site's own priorities; what changes is where and when jobs are placed",
    ordering=SlurmPriority(),
    placement=Weighted(),
    cite="https://slurm.schedmd.com/priority_multifactor.html",
    needs=("priority",),
)
