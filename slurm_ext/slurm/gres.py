"""GRES strings: what nodes have and use, what jobs hold and ask for.

Grammar (interfaces/gres.c): ``name[:type][:no_consume][:count[K|M|…]][(detail)]``, comma-separated,
with commas also inside the parentheses. Types may begin with a digit and contain dots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from slurm_ext.model.node import GpuGroup
from slurm_ext.model.units import GpuMask

_NOTHING = frozenset({"", "(null)", "N/A", "n/a", "none"})
_COUNT = re.compile(r"(\d{1,18})([KMGTP]?)", re.ASCII)
_SCALE = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_SPAN = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
SHARED = frozenset({"shard", "mps"})
"""GRES that are parts of GPUs (gres.conf(5))."""
_MAX_INDEX = 4096
"""No node has more devices; keeps a forged range from becoming a huge number."""


@dataclass(frozen=True, slots=True)
class Gres:
    """One entry. ``mask`` None: no indices shown or not all of them (cut short)."""

    name: str
    type: str
    count: int
    mask: GpuMask | None = None
    sockets: tuple[int, ...] = ()
    no_consume: bool = False


def _split(text: str) -> list[str]:
    """Parts between the commas outside parentheses; one left open takes all that follows."""
    parts: list[str] = []
    for piece in text.split(","):
        if parts and parts[-1].count("(") > parts[-1].count(")"):
            parts[-1] += "," + piece
        else:
            parts.append(piece)
    return parts


def _spans(text: str) -> tuple[int, ...] | None:
    numbers: list[int] = []
    for part in text.split(","):
        found = _SPAN.fullmatch(part.strip())
        if found is None:
            return None
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first or last > _MAX_INDEX:
            return None
        numbers.extend(range(first, last + 1))
    return tuple(numbers)


def _head(text: str) -> tuple[str, str, int | None, bool]:
    """Name, type, count (None: not given) and whether it is ``no_consume``."""
    name, *parts = text.split(":")
    no_consume = "no_consume" in parts
    parts = [part for part in parts if part != "no_consume"]
    count: int | None = None
    if parts and (found := _COUNT.fullmatch(parts[-1])) is not None:
        count = int(found[1]) * _SCALE[found[2]]
        parts.pop()
    return name, ":".join(part for part in parts if part), count, no_consume


def _entry(item: str, default: int) -> Gres | None:
    head, _, detail = item.partition("(")
    name, kind, count, no_consume = _head(head)
    if not name:
        return None
    mask: GpuMask | None = None
    sockets: tuple[int, ...] = ()
    key, _, value = detail.rstrip(")").partition(":")
    if key == "IDX":
        found = () if value in ("N/A", "") else _spans(value)
        if found is not None and len(found) == (len(found) if count is None else count):
            mask = sum(1 << index for index in set(found))
            count = len(found)
    elif key == "S":
        sockets = _spans(value) or ()
    elif key == "CNT" and value.isdecimal():
        count = int(value)
    return Gres(name, kind, default if count is None else count, mask, sockets, no_consume)


@lru_cache(maxsize=8192)
def parse_gres(text: str, default: int = 1) -> tuple[tuple[Gres, ...], tuple[str, ...]]:
    """The entries of any GRES string and the parts that cannot be read.

    ``default``: the count of an entry that names none (``gres:gpu`` asks for one).
    If the indices shown do not number ``count``, the count is trusted and the mask is None.
    """
    if text in _NOTHING:
        return (), ()
    entries: list[Gres] = []
    bad: list[str] = []
    # Up to 23.11 an untyped GPU with files prints as "gpu:(null):4(IDX:0-3)".
    for item in _split(text.replace("(null)", "")):
        stripped = item.strip()
        for prefix in ("gres:", "gres/"):
            stripped = stripped.removeprefix(prefix)
        entry = _entry(stripped.replace("=", ":"), default)
        if entry is None:
            bad.append(item)
        else:
            entries.append(entry)
    return tuple(entries), tuple(bad)


@lru_cache(maxsize=4096)
def node_gpus(
    gres: str,
) -> tuple[tuple[GpuGroup, ...], tuple[tuple[str, int], ...], tuple[str, ...]]:
    """GPU groups of a node's ``Gres``, its other GRES (name, count), and what is unreadable.

    Slurm numbers a node's GPUs through all types in the order of this string.
    """
    entries, bad = parse_gres(gres)
    groups: list[GpuGroup] = []
    other: dict[str, int] = {}
    first = 0
    for entry in entries:
        if entry.name != "gpu":
            if not entry.no_consume:
                other[entry.name] = other.get(entry.name, 0) + entry.count
        elif first + entry.count > _MAX_INDEX:
            bad = (*bad, f"{entry.count} GPUs")
        else:
            mask = ((1 << entry.count) - 1) << first
            groups.append(GpuGroup(entry.type, mask, entry.sockets))
            first += entry.count
    return tuple(groups), tuple(other.items()), bad


@lru_cache(maxsize=8192)
def used_gpus(gres_used: str) -> tuple[GpuMask, int, tuple[tuple[str, int], ...], tuple[str, ...]]:
    """Mask and count of used GPUs from ``GresUsed``, other GRES used, what is unreadable."""
    entries, bad = parse_gres(gres_used, 0)
    mask = count = 0
    other: dict[str, int] = {}
    for entry in entries:
        if entry.name == "gpu":
            mask |= entry.mask or 0
            count += entry.count
        elif not entry.no_consume:
            other[entry.name] = other.get(entry.name, 0) + entry.count
    return mask, count, tuple(other.items()), bad


@lru_cache(maxsize=8192)
def shared_gpus(gres_used: str) -> GpuMask:
    """GPUs of which shards or MPS shares are in use, from a node's ``GresUsed``.

    22.05 prints the GPUs' indices and their number, ``shard:a100:2(IDX:0,2)`` for two GPUs;
    later versions used/available of each GPU in turn, ``shard:a100:3(1/4,0/4,2/4)``.
    """
    mask, first = 0, 0
    for item in _split(gres_used.replace("(null)", "")):
        head, _, detail = item.strip().partition("(")
        if _head(head)[0] not in SHARED:
            continue
        detail = detail.rstrip(")")
        if detail.startswith("IDX:"):
            mask |= sum(1 << index for index in set(_spans(detail[4:]) or ()))
        elif "/" in detail:
            used = [part.partition("/")[0].strip() for part in detail.split(",")[:_MAX_INDEX]]
            mask |= sum(1 << first + i for i, count in enumerate(used) if count.strip("0"))
            first += len(used)
    return mask


def misnumbered(groups: tuple[GpuGroup, ...], gres_used: str) -> tuple[str, ...]:
    """GPU types whose used indices lie outside the range that ``node_gpus`` gave them.

    Then gres.conf lists the types in another order than the node's Gres.
    """
    ranges: dict[str, GpuMask] = {}
    for group in groups:
        ranges[group.type] = ranges.get(group.type, 0) | group.mask
    return tuple(
        entry.type
        for entry in parse_gres(gres_used, 0)[0]
        if entry.name == "gpu" and entry.mask and entry.mask & ~ranges.get(entry.type, entry.mask)
    )


@dataclass(frozen=True, slots=True)
class HeldGpus:
    """GPUs one job holds on one node; ``mask`` 0 with ``count`` > 0: indices not known."""

    count: int = 0
    mask: GpuMask = 0
    type: str = ""


@lru_cache(maxsize=8192)
def held_gpus(detail: str) -> HeldGpus:
    """GPUs of a job on one node from ``GRES=gpu:a100:2(IDX:4-5)`` (scontrol -d, gres_detail)."""
    entries = [entry for entry in parse_gres(detail, 0)[0] if entry.name == "gpu" and entry.count]
    if not entries:
        return HeldGpus()
    masks = [entry.mask for entry in entries]
    whole = 0
    for mask in masks:
        whole |= mask or 0
    types = {entry.type for entry in entries}
    count = sum(entry.count for entry in entries)
    exact = None not in masks and whole.bit_count() == count
    return HeldGpus(count, whole if exact else 0, types.pop() if len(types) == 1 else "")


@dataclass(frozen=True, slots=True)
class Asked:
    """GPUs in a request string; ``other`` names GRES and TRES that are not GPUs."""

    gpus: int = 0
    type: str = ""
    types: int = 0
    other: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


_PLAIN_TRES = frozenset({"cpu", "mem", "node", "billing", "energy"})


@lru_cache(maxsize=4096)
def asked_gpus(text: str) -> Asked:
    """GPUs of a ``--gres``/``--gpus…`` request in any spelling.

    ``gres:gpu:a100:2`` (to 23.02), ``gres/gpu:2`` (from 23.11), ``gres/gpu=2``, ``gpu``.
    """
    entries, bad = parse_gres(text)
    gpus = [entry for entry in entries if entry.name == "gpu"]
    types = {entry.type for entry in gpus if entry.type}
    typed = sum(entry.count for entry in gpus if entry.type)
    untyped = sum(entry.count for entry in gpus if not entry.type)
    return Asked(
        gpus=max(typed, untyped) if typed and untyped else typed + untyped,
        type=next(iter(types)) if len(types) == 1 else "",
        types=len(types),
        other=tuple(_other(entries)),
        unreadable=bad,
    )


def _other(entries: tuple[Gres, ...]) -> Iterator[str]:
    for entry in entries:
        if entry.name != "gpu" and entry.name not in _PLAIN_TRES and not entry.no_consume:
            yield entry.name
