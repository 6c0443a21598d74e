"""What all tests share: the mini-Slurm launcher can be imported; no test judges its own speed."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docker"))
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
