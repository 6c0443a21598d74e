"""A configuration as commented TOML."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from .config_hints import SCHEMA, Schema, unit_of
from .config_read import KeyPath, dotted
from .text import printable

_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def render(values: Mapping[str, Any], origins: Mapping[KeyPath, str]) -> str:
    """TOML text of all ``values``; each key under its description, default and origin."""
    top = {name: part for name, part in SCHEMA["properties"].items() if part["type"] != "object"}
    lines = list(_keys(values, {"properties": top}, (), origins))
    for name, part in SCHEMA["properties"].items():
        if name == "partitions":
            lines += _partitions(values[name], part, origins)
        elif part["type"] == "object":
            lines += ["", *_comment(part["description"]), f"[{name}]"]
            lines += _keys(values[name], part, (name,), origins)
            for inner, free in part["properties"].items():
                if free["type"] == "object":
                    lines += ["", *_comment(free["description"]), f"[{name}.{inner}]"]
                    lines += _free(values[name][inner], (name, inner), origins)
    return "\n".join(lines) + "\n"


def _partitions(
    values: Mapping[str, Any], schema: Schema, origins: Mapping[KeyPath, str]
) -> Iterator[str]:
    yield from ["", *_comment(schema["description"])]
    for name, table in values.items():
        path = ("partitions", name)
        yield from ["", f"[partitions.{_key(name)}]"]
        yield from _keys(table, schema["additionalProperties"], path, origins)


def _keys(
    values: Mapping[str, Any], schema: Schema, at: KeyPath, origins: Mapping[KeyPath, str]
) -> Iterator[str]:
    for name, part in schema["properties"].items():
        if part["type"] == "object":
            continue
        yield from ["", *_comment(part["description"])]
        about = [allowed(part), f"default: {toml(part['default'])}" if "default" in part else ""]
        if (*at, name) in origins:
            about.append(f"from {printable(origins[*at, name], 400)}")
        yield from _comment("; ".join(text for text in about if text))
        yield f"{name} = {_short(values[name])}" if name in values else f"# {name} is not set"


def _free(values: Mapping[str, Any], at: KeyPath, origins: Mapping[KeyPath, str]) -> Iterator[str]:
    for name, value in values.items():
        if (*at, name) in origins:
            yield f"# from {printable(origins[*at, name], 400)}"
        yield f"{_key(name)} = {toml(value)}"


def allowed(part: Schema) -> str:
    """The values of a key in words; empty where its type says it all."""
    if "enum" in part:
        return "one of: " + ", ".join(part["enum"])
    if "minimum" in part:
        unit = unit_of(part)
        return f"{part['minimum']:.15g} to {part['maximum']:.15g}" + (f" {unit}" if unit else "")
    return str(part.get("x-form", ""))


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        92,
        initial_indent="# ",
        subsequent_indent="# ",
        break_on_hyphens=False,
        break_long_words=False,  # a path that is cut cannot be copied
    )


def _key(name: str) -> str:
    bare = dotted((name,))
    return bare if bare == name else toml(name)


def _short(value: object) -> str:
    # Keys of the schema know their type, so 30.0 may be written as 30.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else toml(value)


def toml(value: object) -> str:
    """One value as TOML text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(_SHORT.get(ch, _escaped(ch)) for ch in value) + '"'
    return repr(value)


def _escaped(ch: str) -> str:
    if ch.isprintable():
        return ch
    return f"\\u{ord(ch):04x}" if ord(ch) < 0x10000 else f"\\U{ord(ch):08x}"
