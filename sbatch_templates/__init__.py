"""Annotated batch scripts to start from, each runnable as it is with the bundled trainer."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from slurm_ext.annotate.directives import DIRECTIVE
from slurm_ext.annotate.schema import KEYS
from slurm_ext.annotate.script import read_script
from slurm_ext.errors import ConfigError
from slurm_ext.slurm import sbatch

_HERE = Path(__file__).resolve().parent
TRAINER = _HERE / "trainer.py"
_VARIABLE = r"^{}=.*$"


def names() -> list[str]:
    """Names of the templates, and ``trainer`` for the program they run."""
    return sorted([path.stem for path in _HERE.glob("*.sbatch")] + [TRAINER.stem])


def text(name: str) -> str:
    """A template as it is. :raises FileNotFoundError: unknown name."""
    path = TRAINER if name == TRAINER.stem else _HERE / f"{name}.sbatch"
    return path.read_text(encoding="utf-8")


def purpose(name: str) -> str:
    """One line on what a template is for: its first remark, or the program's description."""
    first = text(name).split("\n")[0 if name == TRAINER.stem else 1]
    return first.strip('#" ')


def render(name: str, values: Mapping[str, str]) -> str:
    """A template with other values: KEYS of annotations, sbatch options, VARIABLES at its top.

    ``sbatch:NAME`` names an option that is called as a key of the annotation (sbatch:gpus).

    :raises ConfigError: an unknown variable, a value no script can hold, a wrong annotation.
    """
    script = text(name)
    if name == TRAINER.stem:
        return script
    script = _set_variable(script, "TRAINER", str(TRAINER))
    for key, value in values.items():
        if any(ord(ch) < 32 for ch in value):
            raise ConfigError([f"{key}: the value holds a control character"])
        if re.fullmatch(r"[A-Z][A-Z0-9_]*", key):
            script = _set_variable(script, key, value)
        elif key in KEYS:
            script = _set_key(script, key, value)
        elif (option := key.removeprefix("sbatch:")) in sbatch.VALUE | sbatch.FLAGS:
            script = _set_option(script, option, value)
        else:
            raise ConfigError([_unknown(key)])
    if errors := read_script(script).errors:
        raise ConfigError([f"{name}: {problem}" for problem in errors])
    return script


def _unknown(key: str) -> str:
    near = get_close_matches(key, [*KEYS, *sbatch.VALUE, *sbatch.FLAGS], n=1)
    meant = f"; did you mean '{near[0]}'?" if near else ""
    return f"{key[:60]!r} is no variable, annotation key or sbatch option{meant}"


def _set_variable(script: str, name: str, value: str) -> str:
    pattern = re.compile(_VARIABLE.format(name), re.MULTILINE)
    if not pattern.search(script):
        known = sorted(set(re.findall(r"^([A-Z][A-Z0-9_]*)=", script, re.MULTILINE)))
        raise ConfigError([f"{name}: no such variable; there are {', '.join(known)}"])
    line = f"{name}={shlex.quote(value)}"
    return pattern.sub(lambda _: line, script, count=1)


def _set_key(script: str, key: str, value: str) -> str:
    if re.search(r"[\s,#]", value) or not value:
        raise ConfigError([f"{key}: {value[:60]!r} has a blank, a comma or #, or is empty"])
    lines = script.split("\n")
    for i, line in enumerate(lines):
        if line.startswith(DIRECTIVE) and re.search(rf"\s{key}=", line):
            lines[i] = re.sub(rf"(?<=\s){key}=\S+", lambda _: f"{key}={value}", line)
            return "\n".join(lines)
    at = max(i for i, line in enumerate(lines) if line.startswith((DIRECTIVE, "#SBATCH")))
    lines.insert(at + 1, f"{DIRECTIVE} {key}={value}")
    return "\n".join(lines)


def _set_option(script: str, name: str, value: str) -> str:
    if re.search(r"[\s'\"\\#]", value):
        value = '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
    option = f"#SBATCH --{name}" + (f"={value}" if value else "")
    pattern = re.compile(rf"^#SBATCH --{name}(=.*)?$", re.MULTILINE)
    if pattern.search(script):
        return pattern.sub(lambda _: option, script, count=1)
    first, rest = script.split("\n", 1)
    return f"{first}\n{option}\n{rest}"
