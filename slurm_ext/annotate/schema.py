"""The keys of the language, from the packaged JSON Schema: the only source of names and limits."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

MARKER = "slurm_ext:"
MAX_BYTES = 1024
"""Of a comment with its annotation: Slurm refuses a job with a longer one (tried on 22.05)."""

MAX_KEYS = 32
"""Of one text; more than there are, so it only bounds what a hostile text may cost."""

SCHEMA_TEXT = resources.files(__package__).joinpath("schema.json").read_text(encoding="utf-8")
SCHEMA: Mapping[str, Any] = json.loads(SCHEMA_TEXT)
KEYS: Mapping[str, Mapping[str, Any]] = SCHEMA["properties"]

_ALSO: dict[str, str] = {also: key for key, part in KEYS.items() for also in part["x-also"]}


def near_key(name: str) -> str:
    """The key that somebody who wrote ``name`` most likely meant; empty if there is none."""
    plain = name.lower().replace("-", "_")
    if plain in KEYS:
        return plain
    if plain in _ALSO:
        return _ALSO[plain]
    near = difflib.get_close_matches(plain, [*KEYS, *_ALSO], 1, 0.7)
    if not near:
        return ""
    return _ALSO[near[0]] if near[0] in _ALSO else near[0]


def near_word(key: str, value: object) -> str:
    """The allowed word of ``key`` nearest to ``value``; empty if there is none."""
    words = [str(word) for word in KEYS[key].get("enum", [])]
    plain = str(value).strip().lower().replace("-", "_")
    near = difflib.get_close_matches(plain, words, 1, 0.5)
    return near[0] if near else ""
