"""The offline simulator: the daemon's own decision core on a simulated Slurm, or on nothing at all.

``simulate`` runs a workload through a simulated Slurm, alone or steered by the daemon's cycle;
``ideal`` applies decisions at once, for comparison with the literature. ``workload`` has the
format all traces are read into, ``scenario`` and ``compare`` are what the command line calls.
"""
