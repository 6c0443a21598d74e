"""``python -m slurm_ext``."""

import sys

from slurm_ext.cli.main import main

sys.exit(main())
