"""One GPU more at a time, where it helps most."""

from slurm_ext.engine.parts.ordering import SubmitOrder
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.parts.throughput import MarginalGain
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="optimus",
    summary="one GPU more at a time to the job whose remaining time it shortens most",
    ordering=SubmitOrder(),
    placement=Weighted(),
    allocation=MarginalGain(),
    cite="inspired by Peng et al., Optimus, EuroSys 2018",
    differs="all-reduce jobs without parameter servers; the work left comes from the expected run "
    "time, not from a loss curve",
    needs=("speed", "durations", "checkpoints"),
    runs="annotated",
)
"""The policy."""
