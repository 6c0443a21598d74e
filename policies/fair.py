"""Max-min fairness between users."""

from slurm_ext.engine.parts.ordering import SubmitOrder
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.parts.ranked import Ranked
from slurm_ext.engine.parts.ranks import UserShares
from slurm_ext.engine.policy import Policy

POLICY = Policy(
    name="fair",
    summary="GPUs in equal parts to the users that want them; stops jobs of who has more",
    ordering=SubmitOrder(),
    placement=Weighted(),
    allocation=Ranked(UserShares()),
    cite="Bertsekas and Gallager, Data Networks, 1992 (progressive filling)",
    differs="jobs are whole: a user's part is a number of jobs in the order of submission",
    needs=("users", "checkpoints"),
    runs="simulated",
)
"""The policy."""
