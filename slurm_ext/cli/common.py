"""What several verbs share: options, opening Slurm and the journal, printing safely."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import pwd
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from slurm_ext.daemon.config import Config, load
from slurm_ext.daemon.text import printable
from slurm_ext.errors import ConfigError, JournalError, SlurmUnavailableError
from slurm_ext.slurm.choose import NativeSettings, RestSettings, open_port
from slurm_ext.slurm.fallback import Fallback
from slurm_ext.slurm.port import SlurmPort

EXIT_CODES = (
    "exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 Slurm does not answer, "
    "4 Slurm refused, 5 another daemon holds the lock, 6 journal unusable, 7 policy unusable, "
    "8 history unusable"
)


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """``--config`` and ``--set``, for every verb that reads the configuration."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE",
        help="configuration file (default /etc/slurm_ext/slurm_ext.toml, if it exists)",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
        help="override one key for this call, e.g. --set mode=enforce (repeatable)",
    )  # fmt: skip


def at_least(least: int) -> Callable[[str], int]:
    """A type of argparse: whole numbers from ``least`` on."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return value

    number.__name__ = "whole number"  # argparse says: invalid whole number value
    return number


def read_config(args: argparse.Namespace) -> Config:
    """The configuration the options name.

    :raises ConfigError: with every problem found.
    """
    return load(args.config, parse_overrides(args.overrides))


def parse_overrides(items: list[str]) -> dict[str, object]:
    """``key=value`` items; values are read as TOML, bare words as text."""
    found: dict[str, object] = {}
    for item in items:
        key, equals, raw = item.partition("=")
        if not equals or not key:
            raise ConfigError([f"--set {printable(item, 80)}: expected KEY=VALUE"])
        try:
            document = tomllib.loads(f"v = {raw}")
        except tomllib.TOMLDecodeError:
            document = {}
        found[key] = document["v"] if set(document) == {"v"} else raw
    return found


def connect(config: Config) -> Fallback:
    """The ways to Slurm that the configuration names."""
    slurm = config.slurm
    return open_port(
        backend=slurm.backend,
        native=NativeSettings(slurm.native_python, slurm.native_memory_mib),
        rest=RestSettings(
            url=slurm.rest_url,
            user=slurm.rest_user,
            token_file=slurm.rest_token_file,
            token_command=slurm.rest_token_command,
            ca_file=slurm.rest_ca_file,
            max_jobs=slurm.rest_max_jobs,
        ),
        bin_dir=slurm.bin_dir,
        slurm_conf=slurm.slurm_conf,
        format=slurm.format,
        call_timeout_s=config.cycle.call_timeout_s,
        observe_timeout_s=config.cycle.observe_timeout_s,
    )


def can_write_notes(port: SlurmPort) -> bool:
    """Whether we may write AdminComment: root, SlurmUser (slurm.conf(5)); False if unsure."""
    if os.geteuid() == 0:
        return True
    try:
        named = port.controller().value("SlurmUser").partition("(")[0]
    except SlurmUnavailableError:
        return False
    return bool(named) and named == user_name()


def has_journal(config: Config) -> bool:
    """Whether there is a journal.

    :raises JournalError: its directory may not be entered.
    """
    path = config.state.journal_path
    try:
        return path.exists()
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror}; ask as the daemon's user or root") from error


def user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return getpass.getuser()


def console(*, stderr: bool = False) -> Console:
    """A console that never wraps what is piped, and never interprets user text as markup."""
    target = sys.stderr if stderr else sys.stdout
    width = None if target.isatty() else 200
    return Console(stderr=stderr, width=width, markup=False, highlight=False, emoji=False)


def safe(value: object, limit: int = 40) -> Text:
    """User-written text for a terminal: control characters escaped, no markup."""
    return Text(printable(str(value), limit))


def print_json(value: Any) -> None:
    """Machine output: one JSON document on standard output (control characters escaped)."""
    json.dump(value, sys.stdout, indent=2, default=str)
    sys.stdout.write("\n")


def facts(values: Mapping[str, object]) -> str:
    return ", ".join(f"{k}={printable(str(v), 60)}" for k, v in values.items())
