"""Where GPUs and nodes sit, and what bandwidth a set of them gives.

Pure: text in, values out. ``shape`` is the inside of one node, ``fabric`` what lies between
nodes, ``ring`` the one score (predicted ring all-reduce bus bandwidth, GB/s), ``pick`` which
GPU indices Slurm will take, ``site`` all of it as one value, ``view`` what a placement reads.
"""
