# SPDX-License-Identifier: GPL-2.0-or-later
"""Entry point of `python3 docker/minislurm`."""

import sys
from pathlib import Path

# Run as a directory, Python puts this directory itself in front: our modules would hide others.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from minislurm.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
