"""Rules that tie several keys together; checked on the merged configuration."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple

from .config_read import Fault, KeyPath, dotted
from .text import printable

LEASE: KeyPath = ("levers", "lease_s")
RENEW: KeyPath = ("levers", "renew_at")
INTERVAL: KeyPath = ("cycle", "interval_s")
LEAST: KeyPath = ("cycle", "min_interval_s")
OBSERVE: KeyPath = ("cycle", "observe_timeout_s")
STALE: KeyPath = ("cycle", "stale_s")
BACKOFF: KeyPath = ("cycle", "backoff_max_s")
DEFERRAL: KeyPath = ("guard", "max_deferral_s")
BACKEND: KeyPath = ("slurm", "backend")
URL: KeyPath = ("slurm", "rest_url")
TOKEN_FILE: KeyPath = ("slurm", "rest_token_file")
TOKEN_COMMAND: KeyPath = ("slurm", "rest_token_command")
LEASES_PER_INTERVAL = 3


class Rule(NamedTuple):
    """``ok`` on the values of ``keys``; otherwise ``why`` and ``remedy`` (given the values)."""

    keys: tuple[KeyPath, ...]
    ok: Callable[..., bool]
    why: str
    remedy: Callable[..., str]


def _splits(command: str) -> bool:
    try:
        return not command.strip() or bool(shlex.split(command))
    except ValueError:
        return False


RULES = (
    Rule(
        (LEASE, INTERVAL),
        lambda lease, interval: lease >= LEASES_PER_INTERVAL * interval,
        "a lease must outlast 3 cycles, or one late cycle lets jobs go",
        lambda lease, interval: (
            f"set {dotted(LEASE)} to {math.ceil(3 * interval)} or more, "
            f"or {dotted(INTERVAL)} to {lease / 3:g} or less"
        ),
    ),
    Rule(
        (RENEW, LEASE, INTERVAL),
        lambda renew, lease, interval: renew * lease >= interval,
        "a lease that is due must still stand at the next cycle",
        lambda renew, lease, interval: (
            f"set {dotted(RENEW)} to {math.ceil(100 * interval / lease) / 100:g} or more"
        ),
    ),
    Rule(
        (LEAST, INTERVAL),
        lambda least, interval: least <= interval,
        "the least time between cycles is above the ordinary one",
        lambda least, interval: f"set {dotted(LEAST)} to {interval:g} or less",
    ),
    Rule(
        (STALE, OBSERVE),
        lambda stale, observe: stale >= observe,
        "an observation within its time-out would already be too old to use",
        lambda stale, observe: f"set {dotted(STALE)} to {observe:g} or more",
    ),
    Rule(
        (BACKOFF, INTERVAL),
        lambda backoff, interval: backoff >= interval,
        "the back-off would be quicker than the ordinary interval",
        lambda backoff, interval: f"set {dotted(BACKOFF)} to {interval:g} or more",
    ),
    Rule(
        (DEFERRAL, LEASE),
        lambda deferral, lease: deferral >= lease,
        "one lease alone would exceed the deferral that is allowed",
        lambda deferral, lease: f"set {dotted(DEFERRAL)} to {lease:g} or more",
    ),
    Rule(
        (BACKEND, URL),
        lambda backend, url: backend != "rest" or url,
        "there is no slurmrestd to ask",
        lambda backend, url: f"set {dotted(URL)}, or {dotted(BACKEND)} to auto",
    ),
    Rule(
        (TOKEN_FILE, TOKEN_COMMAND),
        lambda file, command: not (file and command),
        "the token can come from one place only",
        lambda file, command: f"leave {dotted(TOKEN_FILE)} or {dotted(TOKEN_COMMAND)} empty",
    ),
    Rule(
        (URL, TOKEN_FILE, TOKEN_COMMAND),
        lambda url, file, command: not url.startswith("http") or file or command,
        "slurmrestd takes nothing over TCP without a token",
        lambda url, file, command: f"set {dotted(TOKEN_FILE)} or {dotted(TOKEN_COMMAND)}",
    ),
    Rule(
        (TOKEN_COMMAND,),
        _splits,
        "the quotes in the command do not match",
        lambda command: "close every quote",
    ),
)


def cross_check(
    effective: Mapping[str, Any], origins: Mapping[KeyPath, str], broken: Set[KeyPath]
) -> list[Fault]:
    """Rules that do not hold; those that touch a ``broken`` key are left out."""
    faults = []
    for rule in RULES:
        values = [effective[section][name] for section, name in rule.keys]
        if broken.isdisjoint(rule.keys) and not rule.ok(*values):
            # Blame the first key that was written by somebody, not a default.
            blamed = next((key for key in rule.keys if key in origins), rule.keys[0])
            said = ", ".join(map(_said, rule.keys, values, [origins] * len(values)))
            faults.append(
                Fault(origins.get(blamed, ""), blamed, f"{rule.why} ({said})", rule.remedy(*values))
            )
    return faults


def _said(key: KeyPath, value: float | str, origins: Mapping[KeyPath, str]) -> str:
    source = printable(origins[key], 400) if key in origins else "default"
    shown = repr(printable(value, 80)) if isinstance(value, str) else f"{value:g}"
    return f"{dotted(key)} = {shown}, {source}"
