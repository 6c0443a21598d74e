"""GPU scheduling extension for Slurm."""

__version__ = "0.1.0"
