"""Short jobs first, aged by the slowdown they have had."""

from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.parts.slowdown import SlowdownAged
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="slowdown",
    summary="expected run time over slowdown so far, the lowest first",
    ordering=SlowdownAged(),
    placement=Weighted(),
    differs="home-made; run times learnt from accounting where there are any, else the limit",
    needs=("limits",),
)
