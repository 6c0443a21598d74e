"""Node feature constraints as Slurm reads them (sbatch(1), --constraint)."""

from __future__ import annotations

import re
from functools import lru_cache

_NAME = re.compile(r"^!?[^\s&|!()\[\]*,:]+$")


@lru_cache(maxsize=4096)
def parse(expression: str) -> tuple[tuple[str, ...], ...] | None:
    """Alternatives of conjunctions: ``a&b|c`` -> ((a, b), (c,)); ``!x`` negates.

    None for forms that bind counts or several nodes together (``[a|b]``, ``a*2``, brackets):
    whoever asks that is left to Slurm.
    """
    if not expression:
        return ((),)
    alternatives = []
    for part in expression.replace(",", "&").split("|"):
        names = tuple(name.strip() for name in part.split("&"))
        if not all(_NAME.match(name) for name in names):
            return None
        alternatives.append(names)
    return tuple(alternatives)
