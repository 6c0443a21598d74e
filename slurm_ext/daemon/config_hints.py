"""What somebody who wrote a wrong key or value most likely meant."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

from .config_read import KeyPath, dotted
from .text import printable

Schema = Mapping[str, Any]

SCHEMA: Schema = json.loads(resources.files(__package__).joinpath("config_schema.json").read_text())
"""JSON Schema of the configuration: the only source of keys, defaults, units and limits."""

_SECONDS = {
    "ms": 0.001, "s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1,
    "m": 60, "min": 60, "mins": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600,
    "d": 86400, "day": 86400, "days": 86400,
}  # fmt: skip
_UNIT_NAMES = {"s": "seconds", "fraction": "a fraction between 0 and 1"}
_SUFFIX = re.compile(r"(?:_(" + "|".join(_SECONDS) + "))$")
_AMOUNT = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([A-Za-z]*)\s*")


def leaves(schema: Schema = SCHEMA, at: KeyPath = ()) -> dict[KeyPath, Schema]:
    """All keys that hold a value (tables of free keys are not among them)."""
    found: dict[KeyPath, Schema] = {}
    for name, part in schema.get("properties", {}).items():
        if part["type"] == "object":
            found |= leaves(part, (*at, name))
        else:
            found[*at, name] = part
    return found


def sections() -> dict[str, Schema]:
    """The sections with fixed keys."""
    return {n: p for n, p in SCHEMA["properties"].items() if "x-main" in p}


def unit_of(schema: Schema) -> str:
    """The unit in words; empty if the key has none."""
    unit = str(schema.get("x-unit", ""))
    return _UNIT_NAMES.get(unit, unit)


def toml_type(value: object) -> str:
    """What TOML calls a value."""
    names = {bool: "a boolean", int: "an integer", float: "a float", str: "a string"}
    if isinstance(value, Mapping):
        return "a table"
    return names.get(type(value), "an array" if isinstance(value, list) else "a date or time")


def unknown_key(parent: KeyPath, known: Schema, key: str, value: object) -> str:
    """What to do about an unknown ``key`` of ``parent``, whose keys are ``known``."""
    target = _section_like(parent, key) if isinstance(value, Mapping) else None
    if target is None:
        target = _target(parent, known, key)
    if target is None:
        names = sorted(known)
        where = f"[{dotted(parent)}] has" if parent else "known are"
        return f"remove it; {where} {', '.join(names)}"
    schema = leaves().get(target) or known.get(target[-1], {})
    shown = target[-1] if target[:-1] == parent else dotted(target)
    return f"did you mean '{shown}'?; {_write(parent, target, schema, key, value)}"


def _section_like(parent: KeyPath, key: str) -> KeyPath | None:
    names = list(SCHEMA["properties"]["policy"]["properties"]) if parent == ("policy",) else []
    near = difflib.get_close_matches(key, names or list(SCHEMA["properties"]), 1)
    return (*(parent if names else ()), near[0]) if near else None


def _target(parent: KeyPath, known: Schema, key: str) -> KeyPath | None:
    stem = _stem(key)
    for name, part in known.items():
        if part["type"] != "object" and _stem(name) == stem:
            return (*parent, name)
    every = leaves()
    if stem in sections():
        return (stem, sections()[stem]["x-main"])
    for path in every:
        if path[-1] == key or _stem(path[-1]) == stem:
            return path
    near = difflib.get_close_matches(key, list(known), 1)
    if near:
        return (*parent, near[0])
    near = difflib.get_close_matches(key, [path[-1] for path in every], 1, 0.75)
    return next((path for path in every if near and path[-1] == near[0]), None)


def _stem(key: str) -> str:
    return _SUFFIX.sub("", key.lower().replace("-", "_"))


def _write(parent: KeyPath, target: KeyPath, schema: Schema, key: str, value: object) -> str:
    name, section = target[-1], target[:-1]
    if schema.get("type") in (None, "object"):
        return f"write [{dotted(target)}]"
    suffix = _SUFFIX.search(key.lower())
    amount = _convert(value, suffix.group(1) if suffix else "", schema)
    unit = unit_of(schema)
    if not amount and schema["type"] == "string" and isinstance(value, str):
        amount = shown(value)
    text = f"write {name} = {amount or '…'}"
    if section != parent:
        text += f" under [{dotted(section)}]" if section else " above the first [section]"
    return f"{text} (unit: {unit})" if unit else text


def _convert(value: object, unit: str, schema: Schema) -> str:
    """``value`` in the unit of the key, as text; empty if it cannot be said."""
    wanted = schema.get("x-unit", "")
    if isinstance(value, str):
        found = _AMOUNT.fullmatch(value)
        if found is None:
            return ""
        value, unit = float(found.group(1)), found.group(2).lower() or unit
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if not unit:
        return "" if wanted in _SECONDS or schema["type"] == "string" else f"{value:g}"
    if wanted not in _SECONDS or unit not in _SECONDS:
        return ""
    amount = value * _SECONDS[unit] / _SECONDS[wanted]
    if schema["type"] == "integer" and amount != int(amount):
        return ""
    return str(int(amount)) if amount == int(amount) else f"{amount:.6g}"


def wrong_type(path: KeyPath, schema: Schema, value: object) -> str:
    """What to write instead of a value of the wrong type."""
    name, kind = path[-1], schema["type"]
    if kind == "object" and "x-main" in schema and "." not in name:
        target = (*path, schema["x-main"])
        inner = schema["properties"][schema["x-main"]]
        return f"did you mean '{dotted(target)}'?; {_write(path[:-1], target, inner, name, value)}"
    if kind == "object":
        return f"write [{dotted(path)}] with keys below it"
    if kind in ("integer", "number"):
        return _number_remedy(name, schema, value)
    if kind == "boolean":
        said = str(value).lower()
        word = {"true": "true", "yes": "true", "on": "true", "1": "true"}.get(said, "false")
        known = said in ("true", "yes", "on", "1", "false", "no", "off", "0")
        return f"write {name} = {word if known else 'true or false'}, without quotes"
    if "enum" in schema:
        return f"write {_choices(schema)}, in quotes"
    return "write a text in quotes" if kind == "string" else "write a number, a text, true or false"


def _number_remedy(name: str, schema: Schema, value: object) -> str:
    unit = unit_of(schema)
    amount = _convert(value, "", schema) if isinstance(value, str) else ""
    if isinstance(value, str) and not amount and _AMOUNT.fullmatch(value):
        # a bare number in quotes: it is in the key's own unit
        amount = value.strip() if value.strip().replace(".", "", 1).isdigit() else ""
    what = "whole number" if schema["type"] == "integer" else "number"
    of = f" of {unit}" if unit and unit != _UNIT_NAMES["fraction"] else ""
    if amount:
        return f"write {name} = {amount}, a plain {what}{of} without quotes"
    return f"write a {what}{of} without quotes"


def wrong_choice(schema: Schema, value: object) -> str:
    """Which of the allowed words was meant."""
    near = difflib.get_close_matches(str(value).lower(), schema["enum"], 1, 0.5)
    meant = f"did you mean '{near[0]}'?; " if near else ""
    return f"{meant}use {_choices(schema)}"


def _choices(schema: Schema) -> str:
    words = [json.dumps(word) for word in schema["enum"]]
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def near_name(name: str, known: Iterable[str]) -> str:
    """ "did you mean" for one of the known names, or nothing."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean '{printable(near[0], 80)}'?" if near else ""


def shown(value: object) -> str:
    """A value in a message, short and escaped."""
    return printable(json.dumps(value, ensure_ascii=False, default=str), 60)
