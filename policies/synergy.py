"""CPUs and memory by what jobs can use of them."""

from slurm_ext.engine.parts.ordering import SubmitOrder
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.parts.tune import Sensitive
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="synergy",
    summary="GPUs as requested; CPUs and memory go to the jobs that can use them",
    ordering=SubmitOrder(),
    placement=Weighted(),
    allocation=Sensitive(),
    cite="Mohan et al., Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters, OSDI 2022",
    differs="disk bandwidth is not shared out; equal servers are renamed so that jobs stay",
    needs=("models", "checkpoints"),
    runs="annotated",
    round_s=300,
)
"""The policy."""
