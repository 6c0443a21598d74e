"""Frozen values to plain JSON-able data and back, by their type hints alone."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from slurm_ext.errors import SlurmExtError


def to_plain(value: Any) -> Any:
    """Lists, dicts, numbers, texts; sets are sorted, so that equal values give equal text.

    Fields that a dataclass works out by itself are left out.
    """
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value) if f.init}
    if isinstance(value, Mapping):
        return [[to_plain(k), to_plain(v)] for k, v in value.items()]
    if isinstance(value, frozenset | set):
        return sorted(to_plain(v) for v in value)
    if isinstance(value, tuple | list):
        return [to_plain(v) for v in value]
    return value


def from_plain(hint: Any, data: Any) -> Any:
    """The value of type ``hint`` that ``data`` stands for.

    :raises SlurmExtError: data that does not fit, with the place.
    """
    try:
        return _read(hint, data)
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise SlurmExtError(f"not a {getattr(hint, '__name__', hint)}: {error}") from error


def _read(hint: Any, data: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _read_union(inner, data)
    if origin is tuple:
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(_read(inner[0], v) for v in data)
        return tuple(_read(h, v) for h, v in zip(inner, data, strict=True))
    if origin is frozenset:
        return frozenset(_read(inner[0], v) for v in data)
    if origin is not None and issubclass(origin, Mapping):
        return {_read(inner[0], k): _read(inner[1], v) for k, v in data}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(data)
    if isinstance(hint, type) and is_dataclass(hint):
        hints = _hints(hint)
        known = {k: v for k, v in data.items() if k in hints}
        return hint(**{k: _read(hints[k], v) for k, v in known.items()})
    if isinstance(hint, type) and issubclass(hint, tuple):  # a named tuple
        kinds = list(_hints(hint).values())
        if len(data) > len(kinds):
            raise ValueError(f"{len(data)} values for {len(kinds)} fields")
        return hint(*(_read(h, v) for h, v in zip(kinds, data, strict=False)))
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if isinstance(data, int) and abs(data) >= 1 << 62 and not isinstance(data, bool):
        raise ValueError(f"{data} is out of range")
    if isinstance(hint, type) and not isinstance(data, hint):
        raise ValueError(f"{data!r} is not {hint.__name__}")
    return data


def _read_union(inner: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in inner:
        return None
    for hint in inner:
        if hint is type(None):
            continue
        try:
            return _read(hint, data)
        except (TypeError, ValueError, KeyError, AttributeError):
            continue
    raise ValueError(f"{data!r} fits none of {inner}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
