"""First come, first served; of those that may pass, the shortest first."""

from slurm_ext.engine.parts.ordering import HeadThenShortest
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="sjbf",
    summary="first come, first served with EASY backfill, the shortest passing first (EASY++)",
    ordering=HeadThenShortest(),
    placement=Weighted(),
    cite="Tsafrir, Etsion, Feitelson, Backfilling Using System-Generated Predictions Rather than "
    "User Runtime Estimates, IEEE TPDS 18(6), 2007",
    differs="with several starts in one decision the second is the shortest, not the next in line",
    needs=("limits",),
)
"""The policy."""
