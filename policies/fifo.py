"""First in, first out."""

from slurm_ext.engine.parts.ordering import SubmitOrder
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="fifo",
    summary="by submit time; with EASY backfill unless configured otherwise",
    ordering=SubmitOrder(),
    placement=Weighted(),
)
