"""Checks one file's tables against the schema and says every problem in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from .config_hints import SCHEMA, shown, toml_type, unit_of, unknown_key, wrong_choice, wrong_type
from .config_read import DEEPEST, Fault, KeyPath, Table, dotted

_VALIDATOR = Draft202012Validator(SCHEMA)
_ARTICLE = {
    "object": "a table (section)", "integer": "an integer", "number": "a number",
    "string": "a string", "boolean": "a boolean",
}  # fmt: skip


def check(document: Mapping[str, Any], file: str) -> tuple[Table, list[Fault]]:
    """What of the document is sound, and every fault of the rest."""
    faults: list[Fault] = []
    sound = _tame(document, file, (), faults)
    _flatten_parameters(sound)
    # A value of the wrong type breaks other rules too; only the type is worth saying.
    for error in sorted(_VALIDATOR.iter_errors(sound), key=lambda e: e.validator != "type"):
        said = {fault.path for fault in faults}
        faults.extend(fault for fault in _explain(error, file) if fault.path not in said)
    for fault in faults:
        _remove(sound, fault.path)
    return sound, sorted(faults, key=lambda fault: fault.path)


def _tame(node: Mapping[str, Any], file: str, at: KeyPath, faults: list[Fault]) -> Table:
    """A copy without values that would trip the validator or every later reader."""
    out: Table = {}
    for key, value in node.items():
        path = (*at, key)
        if isinstance(value, Mapping) and len(path) < DEEPEST:
            out[key] = _tame(value, file, path, faults)
        elif wild := _wild(value):
            faults.append(Fault(file, path, wild[0], wild[1]))
        else:
            out[key] = value
    return out


def _wild(value: object) -> tuple[str, str] | None:
    if isinstance(value, Mapping):
        return "tables are nested too deeply", "remove it"
    if isinstance(value, list) and any(isinstance(v, list | Mapping) for v in value):
        return "arrays are nested", "no key takes such a value, remove it"
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, float) and not math.isfinite(item):
            return f"{item} is not a number that can be used", "write a finite number"
        if isinstance(item, int) and abs(item) >= 1 << 63:
            return "the number does not fit into 64 bits", "write a smaller number"
        if isinstance(item, str) and any("\ud800" <= ch <= "\udfff" for ch in item):
            return f"{shown(item)} is not valid text", "write it as UTF-8"
    return None


def _flatten_parameters(document: Table) -> None:
    """``ordering.beta = 1`` under [policy.parameters] is the parameter "ordering.beta"."""
    policy = document.get("policy")
    parameters = policy.get("parameters") if isinstance(policy, dict) else None
    if isinstance(policy, dict) and isinstance(parameters, dict):
        policy["parameters"] = dict(_flat(parameters, ""))


def _flat(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _explain(error: ValidationError, file: str) -> list[Fault]:
    path = tuple(str(part) for part in error.absolute_path)
    value: Any = error.instance
    schema, rule = error.schema, error.validator
    assert isinstance(schema, Mapping)
    if rule == "additionalProperties":
        known = schema["properties"]
        return [
            Fault(file, (*path, key), "unknown key", unknown_key(path, known, key, value[key]))
            for key in value
            if key not in known
        ]
    if "propertyNames" in error.absolute_schema_path:
        what = f"{shown(value)} is not {schema['x-form']}"
        return [Fault(file, (*path, value), what, "rename or remove it")]
    if rule == "type":
        wanted = _ARTICLE.get(str(schema["type"]), "a number, a string or a boolean")
        what = f"must be {wanted}, not {toml_type(value)}"
        return [Fault(file, path, what, wrong_type(path, schema, value))]
    if rule == "enum":
        return [Fault(file, path, f"{shown(value)} is unknown", wrong_choice(schema, value))]
    return [_limit_fault(file, path, schema, value, str(rule))]


def _limit_fault(
    file: str, path: KeyPath, schema: Mapping[str, Any], value: object, rule: str
) -> Fault:
    if rule in ("minimum", "maximum"):
        unit = unit_of(schema)
        low, high = schema["minimum"], schema["maximum"]
        what = f"{shown(value)} is {'less' if rule == 'minimum' else 'more'} than {schema[rule]:g}"
        remedy = f"give {low:g} to {high:g}" + (f" (unit: {unit})" if unit else "")
        return Fault(file, path, what, remedy)
    if rule == "maxLength":
        limit = schema["maxLength"]
        return Fault(file, path, f"is longer than {limit} characters", "shorten it")
    form = schema.get("x-form", "of the expected form")
    return Fault(file, path, f"{shown(value)} is not {form}", f"give {dotted(path)} {form}")


def _remove(document: Table, path: KeyPath) -> None:
    node: Any = document
    for name in path[:-1]:
        node = node.get(name) if isinstance(node, dict) else None
    if path and isinstance(node, dict):
        node.pop(path[-1], None)
