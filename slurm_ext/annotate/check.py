"""From the text of an annotation to a checked value, with every problem in words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator

from slurm_ext.model.annotation import Annotation, Checkpoint, Scaling, Sensitivity, Speed

from . import units
from .problem import Problem, shown
from .rules import contradictions
from .schema import KEYS, MARKER, SCHEMA, near_key, near_word
from .shorthand import native, pairs
from .text import Found, find, parse_json

_VALIDATOR = Draft202012Validator(SCHEMA)

_SUGGESTIONS = 4
"""Unknown keys of one text that are compared with all known ones, which takes a while."""

_CONVERT: Mapping[str, Callable[[Any], Any]] = {
    "duration": units.duration_s,
    "size": units.size_mib,
    "moment": units.moment_s,
    "range": units.gpu_range,
    "amount": units.amount,
    "table": units.speed_table,
    "numbers": units.numbers,
    "signal": lambda value: value.removeprefix("SIG"),
}


@dataclass(frozen=True, slots=True)
class Understood:
    """What a text says. ``annotation`` None: nothing, or an error (then the job is plain).

    ``given``: the keys it names, with their values in plain units.
    """

    annotation: Annotation | None = None
    problems: tuple[Problem, ...] = ()
    given: Mapping[str, Any] | None = None
    off: bool = False

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(p for p in self.problems if p.error)


def understand(comment: str) -> Understood:
    """The annotation of a job's comment (Slurm's ``Comment``); never raises."""
    if MARKER not in comment:
        return Understood()
    return of_found(find(comment))


def of_found(found: Found) -> Understood:
    """The annotation that was found; offsets of problems are in the whole comment."""
    if not found.there:
        return Understood(off=found.off)
    if found.problem is not None:
        return Understood(problems=(found.problem,), off=found.off)
    return of_body(found.body, found.start + len(MARKER), off=found.off)


def of_body(body: str, base: int = 0, *, off: bool = False) -> Understood:
    """What a body (JSON, or shorthand) says; ``base`` is its offset in a larger text."""
    places: dict[str, int] = {}
    if body.startswith("{"):
        raw, problems = parse_json(body)
        for key in raw:
            name = re.search(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:", body)
            places[key] = name.start() if name else 0
    else:
        raw, problems = {}, []
        found, problems = pairs(body)
        for pair in found:
            if pair.key in raw:
                problems.append(Problem("repeated", f"key {shown(pair.key)} stands twice",
                                        "keep one of them", pair.key, pair.at))  # fmt: skip
            raw[pair.key] = native(pair.key, pair.value)
            places[pair.key] = pair.at
    if not raw and not problems:
        problems.append(
            Problem("empty", "the annotation is empty", "write key=value, or remove it")
        )
    placed = [_at(p, places, base) for p in problems]
    checked = of_values(raw) if raw else Understood()
    placed += [_at(p, places, base) for p in checked.problems]
    failed = any(p.error for p in placed)
    return Understood(None if failed else checked.annotation, tuple(placed), checked.given, off)


def _at(problem: Problem, places: Mapping[str, int], base: int) -> Problem:
    at = places.get(problem.key, 0) if problem.key else problem.at
    return Problem(problem.code, problem.text, problem.remedy, problem.key, base + at,
                   error=problem.error)  # fmt: skip


def of_values(raw: Mapping[str, Any]) -> Understood:
    """Checks keys and values against the schema, converts units, looks for contradictions."""
    problems = _schema_problems(raw)
    bad = {p.key for p in problems}
    values: dict[str, Any] = {}
    for key, value in raw.items():
        if key in bad:
            continue
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON's 4.0 is an integer, as JSON Schema has it
        try:
            values[key] = _CONVERT.get(KEYS[key]["x-kind"], lambda v: v)(value)
        except ValueError:
            problems.append(_not_of_form(key, value))
            continue
        problems += _out_of_range(key, value, values[key])
    if not problems:
        problems = contradictions(values)
    failed = any(p.error for p in problems)
    return Understood(None if failed else _build(values), tuple(problems), values)


def _schema_problems(raw: Mapping[str, Any]) -> list[Problem]:
    problems: dict[str, Problem] = {}
    for name in raw:
        if name not in KEYS:
            problems[name] = _unknown(name, suggest=len(problems) < _SUGGESTIONS)
        elif isinstance(raw[name], float) and not math.isfinite(raw[name]):
            problems[name] = _not_of_form(name, raw[name])
    for error in _VALIDATOR.iter_errors({k: v for k, v in raw.items() if k not in problems}):
        if error.absolute_path:
            key = str(error.absolute_path[0])
            problems.setdefault(key, _not_of_form(key, raw[key]))
    return list(problems.values())


def _unknown(name: str, *, suggest: bool) -> Problem:
    near = near_key(name) if suggest else ""
    remedy = f"did you mean {near}?" if near else f"remove it; keys are {', '.join(KEYS)}"
    return Problem("unknown_key", f"unknown key {shown(name)}", remedy, name)


def _not_of_form(key: str, value: object) -> Problem:
    near = near_word(key, value)
    meant = f"did you mean {near}? " if near else ""
    return Problem("value", f"{key}: {shown(value)} cannot be used",
                   f"{meant}write {KEYS[key]['x-form']}", key)  # fmt: skip


def _out_of_range(key: str, value: object, plain: Any) -> list[Problem]:
    low, high = KEYS[key].get("x-minimum"), KEYS[key].get("x-maximum")
    if low is None or low <= plain <= high:
        return []
    unit = "seconds" if KEYS[key]["x-kind"] == "duration" else "MiB"
    return [Problem("range", f"{key}: {shown(value)} is out of range",
                    f"give {low} to {high} {unit}", key)]  # fmt: skip


def _build(values: Mapping[str, Any]) -> Annotation:
    get = values.get
    low, high = get("gpus", (0, 0))
    return Annotation(
        scaling=Scaling(
            get("scaling", "fixed"), low, high,
            get("sizes", "powers_of_two") == "powers_of_two", get("logical_workers", 0),
        ),
        checkpoint=Checkpoint(
            get("signal", ""), get("signal_to", "batch"), get("grace", 60),
            get("checkpoint_every", 0), get("restart_cost", 30),
        ),
        speed=Speed(get("speed", ()), get("theta", ())),
        sensitivity=Sensitivity(
            get("sensitivity", ""), get("cpus_per_gpu", 0), get("mem_per_gpu", 0)
        ),
        preemptible=get("preemptible", False),
        deadline_s=get("deadline", 0),
        family=get("family", ""),
        work=get("work", 0.0),
        communication=get("communication", ""),
        model_mib=get("model_size", 0),
        locality=get("locality", ""),
        gpu_mem_mib=get("gpu_mem", 0),
        debug=get("debug", False),
    )  # fmt: skip
