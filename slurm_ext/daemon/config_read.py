"""TOML files as plain tables, and the tables of several files as one."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_ext.files import read_up_to

from .text import printable

KeyPath = tuple[str, ...]
Table = dict[str, Any]

MAX_BYTES = 1 << 20
"""Larger files are refused: a configuration of that size is a mistake."""

DEEPEST = 6
"""Tables within tables beyond this are refused; it keeps every later reader from recursing."""

OVERRIDE = "(command line)"
"""Stands for the file name where a value was given on the command line."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_POSITION = re.compile(r"^(.*) \(at (?:line (\d+), column (\d+)|end of document)\)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Fault:
    """One problem: in which file, at which key (empty: the whole file), what, what to do."""

    file: str
    path: KeyPath
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        parts = [printable(self.file, 400), dotted(self.path), self.what]
        return ": ".join(part for part in parts if part) + (
            f"; {self.remedy}" if self.remedy else ""
        )


def dotted(path: KeyPath) -> str:
    """A key path as TOML writes it; names that are not bare come out quoted and escaped."""
    return ".".join(key if _BARE.fullmatch(key) else f'"{printable(key, 80)}"' for key in path)


def read_toml(file: Path, *, regular_only: bool = False) -> tuple[Table, list[Fault]]:
    """The tables of one file (empty if there is a fault)."""
    name = str(file)
    try:
        if regular_only and not stat.S_ISREG(file.stat().st_mode):
            return {}, [Fault(name, (), "is not a regular file", "move it out of conf.d")]
        data = read_up_to(file, MAX_BYTES + 1)
    except OSError as error:
        return {}, [_unreadable(name, error)]
    except ValueError:
        return {}, [Fault(name, (), "is not a file name", "name the file without NUL characters")]
    if len(data) > MAX_BYTES:
        return {}, [
            Fault(name, (), f"is larger than {MAX_BYTES >> 20} MiB", "is it the right file?")
        ]
    return _parse(name, data)


def is_there(file: Path) -> bool:
    """False only if there is surely no such file (a dangling link is there)."""
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def list_dropins(directory: Path) -> tuple[list[Path], list[Fault]]:
    """``*.toml`` of a directory by name, without hidden files; no directory: none."""
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, ValueError):
        return [], []
    except OSError as error:
        return [], [_unreadable(str(directory), error)]
    return [directory / n for n in names if n.endswith(".toml") and n[0] != "."], []


def _unreadable(name: str, error: OSError) -> Fault:
    remedy = "let the daemon's user read it, or name another file"
    if isinstance(error, FileNotFoundError):
        remedy = "create it, or name another file; without a name the defaults hold"
    return Fault(name, (), f"cannot be read: {error.strerror}", remedy)


def _parse(name: str, data: bytes) -> tuple[Table, list[Fault]]:
    try:
        return tomllib.loads(data.decode().removeprefix("\ufeff")), []
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        what = f"line {line}, column {column}: byte 0x{data[error.start]:02x} is not UTF-8"
        return {}, [Fault(name, (), what, "save the file as UTF-8")]
    except tomllib.TOMLDecodeError as error:
        return {}, [_syntax_fault(name, data.decode(), str(error))]
    except (ValueError, RecursionError):
        # tomllib lets int() complain about absurdly long numbers, and recurses into arrays.
        return {}, [Fault(name, (), "has a number or a nesting beyond reason", "shorten it")]


def _syntax_fault(name: str, text: str, message: str) -> Fault:
    found = _POSITION.match(message)
    lines = text.split("\n")
    if found is None:
        return Fault(name, (), f"TOML syntax: {printable(message)}", "see https://toml.io")
    what, line, column = found.groups()
    if line is None:
        line, column = str(len(lines)), str(len(lines[-1]) + 1)
    source = lines[int(line) - 1] if int(line) <= len(lines) else ""
    where = f"line {line}, column {column}: TOML syntax: {printable(what)}"
    return Fault(
        name, (), f"{where} in `{printable(source.strip(), 80)}`", _syntax_remedy(what, source)
    )


def _syntax_remedy(what: str, source: str) -> str:
    _, equals, value = source.partition("=")
    value = value.split("#")[0].strip()
    if "overwrite" in what.lower() or "twice" in what or "declare" in what:
        return "a key or table may be given only once in a file"
    if equals and re.fullmatch(r"(?i)true|false|yes|no|on|off", value):
        return "booleans are written true or false, in lower case"
    if equals and re.fullmatch(r"[\d.]+\s*[A-Za-z%]+", value):
        return "numbers are written without a unit; the key's name ends in its unit"
    if equals and re.fullmatch(r"[A-Za-z_/][^\"']*", value):
        return f'texts are written in quotes: "{printable(value, 40)}"'
    if not equals and ":" in source:
        return "write key = value, with an equals sign"
    return "write key = value, texts in quotes, sections as [name]"


def parse_key(key: str) -> KeyPath | None:
    """``partitions."a.b".mode`` as a path; None if it is not one TOML key."""
    try:
        node: object = tomllib.loads(f"{key} = 0")
    except (ValueError, RecursionError):
        return None
    path: list[str] = []
    while isinstance(node, dict) and len(node) == 1:
        name, node = next(iter(node.items()))
        path.append(name)
    return tuple(path) if node == 0 and len(path) <= DEEPEST else None


def nest(overrides: Mapping[str, object]) -> tuple[Table, list[Fault]]:
    """Dotted keys as nested tables."""
    tables: Table = {}
    faults = []
    for key, value in overrides.items():
        path = parse_key(key)
        if path is None:
            remedy = "write it as section.key"
            faults.append(Fault(OVERRIDE, (key,), "is not a configuration key", remedy))
            continue
        one: Any = value
        for name in reversed(path):
            one = {name: one}
        merge(tables, one, {}, OVERRIDE)
    return tables, faults


def merge(into: Table, new: Mapping[str, Any], origins: dict[KeyPath, str], file: str) -> None:
    """Lay ``new`` over ``into``: tables are merged, anything else is replaced.

    ``origins`` learns for each value which file it comes from.
    """
    _merge(into, new, origins, file, ())


def _merge(
    into: Table, new: Mapping[str, Any], origins: dict[KeyPath, str], file: str, at: KeyPath
) -> None:
    for key, value in new.items():
        path = (*at, key)
        if not isinstance(value, Mapping):
            into[key] = value
            origins[path] = file
            continue
        if not isinstance(into.get(key), dict):
            into[key] = {}
        _merge(into[key], value, origins, file, path)
