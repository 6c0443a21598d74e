"""The default: Slurm's own priority, and what matters to deep-learning queues beside it."""

from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.parts.weighted import WeightedFactors
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="multifactor",
    summary="Slurm's priority, age, expected GPU time, deadline and debug lane; bounded waiting",
    ordering=WeightedFactors(),
    placement=Weighted(),
    cite="https://slurm.schedmd.com/priority_multifactor.html; Gu et al., NSDI 2019 (remaining "
    "service)",
    differs="Slurm's factors come in as one, its own sum, or one by one where they have weights; "
    "with all other weights and max_wait_s 0 the order is Slurm's",
    needs=("priority",),
)
