# SPDX-License-Identifier: GPL-2.0-or-later
"""A real Slurm cluster in one directory: `python3 docker/minislurm up --dir DIR`."""

from .cli import run_cli
from .cluster import Cluster
from .errors import ConflictError, MiniSlurmError, MissingProgramsError
from .spec import NodeGroup, Param, Partition, Spec, User

__all__ = [
    "Cluster",
    "ConflictError",
    "MiniSlurmError",
    "MissingProgramsError",
    "NodeGroup",
    "Param",
    "Partition",
    "Spec",
    "User",
    "run_cli",
]
