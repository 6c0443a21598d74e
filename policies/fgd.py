"""Least new fragmentation."""

from slurm_ext.engine.parts.costs import Fragmentation
from slurm_ext.engine.parts.ordering import SubmitOrder
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="fgd",
    summary="by submit time, on the nodes where fewest GPUs become useless to the usual jobs",
    ordering=SubmitOrder(),
    placement=Weighted(parts=(Fragmentation(weight=1.0),)),
    cite="Weng et al., Beware of Fragmentation, USENIX ATC 2023 (fragmentation gradient descent)",
    differs="the usual jobs are the eight most frequent kinds that wait and run; whole GPUs only",
)
"""The policy."""
