"""Answers of the status socket held against the published schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator

from slurm_ext.daemon.publish import schema

PUBLISHED: dict[str, Any] = json.loads(schema())


def strict(part: Any) -> Any:
    """The schema with every key that it does not name forbidden: what we send must be in it."""
    if isinstance(part, list):
        return [strict(each) for each in part]
    if not isinstance(part, Mapping):
        return part
    closed = {name: strict(each) for name, each in part.items()}
    if "properties" in part and "required" in part:
        closed.setdefault("additionalProperties", False)
    return closed


def problems(answer: Any, name: str) -> list[str]:
    """What of an answer is against the schema called ``name``, or not in it."""
    closed = strict({k: v for k, v in PUBLISHED.items() if k != "$defs"})
    closed["$defs"] = {n: strict(part) for n, part in PUBLISHED["$defs"].items()}
    closed["$ref"] = f"#/$defs/{name}"
    found = Draft202012Validator(closed).iter_errors(answer)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]
