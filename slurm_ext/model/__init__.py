"""Pure values: what Slurm shows, what a policy reads, what a cycle decides.

Everything here is frozen; times are seconds since the epoch (``_s``), memory is MiB
(``_mib``), GPU sets are bit masks over Slurm's GRES indices of one node.
"""
