"""Manual pages in roff, from argparse and the schema of the configuration; see man-pages(7).

argparse's own help texts differ between versions of Python, so nothing of them is used here but
the words given to it.
"""

from __future__ import annotations

import argparse
from typing import Any

from slurm_ext import __version__
from slurm_ext.cli.common import EXIT_CODES
from slurm_ext.cli.help import EXAMPLE, children, examples, walk
from slurm_ext.cli.main import build_parser
from slurm_ext.daemon.config_hints import SCHEMA
from slurm_ext.daemon.config_render import allowed, toml

LONG = 40
"""Longer words may be broken after their commas."""
COMMON = ("config", "overrides")
"""Destinations of the options that are told once, for all verbs."""

ABOUT = """\
A daemon beside slurmctld that ranks, places and defers GPU jobs, with levers that lapse by
themselves, and says why. Verbs that look at decisions need no daemon; those that steer one ask it
through its sockets.

How far it may go is its mode: observe (the default) computes and touches nothing, order ranks jobs
through SiteFactor, enforce also defers, pins and requeues."""

FILES = (
    ("/etc/slurm_ext/slurm_ext.toml", "configuration, see slurm_ext.toml(5)"),
    ("/etc/slurm_ext/conf.d/*.toml", "more of it, read in the order of their names"),
    ("/etc/slurm_ext/setup.json", "what setup has made, for setup --undo"),
    ("/var/lib/slurm_ext/journal.db", "the journal: what was decided, sent and still stands"),
    ("/var/lib/slurm_ext/history.db", "ended jobs, read from accounting"),
    ("/var/lib/slurm_ext/durations.npz", "learnt run times"),
    ("/run/slurm_ext/status.sock", "what the last cycle saw and decided, read-only"),
    ("/run/slurm_ext/admin.sock", "pause, resume, reload; for operators"),
    ("/run/slurm_ext/heartbeat", "a sign of life, read by job_submit.lua"),
)
ENVIRONMENT = (
    ("SLURM_CONF", "slurm.conf of the cluster, for Slurm's commands"),
    ("SLURM_JWT", "never read: a token comes from a file or a command of the configuration"),
    ("NO_COLOR", "no colours"),
    ("COLUMNS", "width of help texts and of tables that are not on a terminal"),
)
SIGNALS = (
    ("SIGTERM", "serve ends; leases lapse by themselves, holds are lifted first"),
    ("SIGINT", "serve ends and gives every job back first"),
    ("SIGHUP", "serve reads its configuration again"),
    ("SIGUSR1", "serve starts a cycle at once"),
)


def commands() -> str:
    """slurm-ext(1)."""
    parser = build_parser()
    out = [
        _title("SLURM-EXT", 1),
        ".SH NAME", text("slurm-ext - GPU scheduling beside slurmctld"),
        ".SH SYNOPSIS", r".B slurm-ext", r".I VERB", "[options]",
        ".SH DESCRIPTION", *paragraphs(ABOUT),
        ".SH COMMON OPTIONS", text("Every verb that reads the configuration takes:"),
    ]  # fmt: skip
    plan = children(parser)["plan"]
    out += [line for a in plan._actions if a.dest in COMMON for line in _option(a)]
    out.append(".SH VERBS")
    for words, verb in walk(parser):
        if words and not children(verb):
            out += _verb(words, verb)
    out += [
        ".SH EXIT STATUS",
        text(EXIT_CODES.replace("exit codes: ", "") + "."),
    ]
    for title, rows in (("SIGNALS", SIGNALS), ("FILES", FILES), ("ENVIRONMENT", ENVIRONMENT)):
        out.append(f".SH {title}")
        for name, what in rows:
            out += [".TP", f".B {escape(name)}", text(what)]
    out += [".SH SEE ALSO", r".BR slurm_ext.toml (5),", r".BR sbatch (1),", r".BR scontrol (1),",
            r".BR slurm.conf (5)"]  # fmt: skip
    return "\n".join(out) + "\n"


def configuration() -> str:
    """slurm_ext.toml(5)."""
    out = [
        _title("SLURM_EXT.TOML", 5),
        ".SH NAME", text("slurm_ext.toml - configuration of slurm-ext"),
        ".SH DESCRIPTION",
        text("Read from /etc/slurm_ext/slurm_ext.toml, then /etc/slurm_ext/conf.d/*.toml, then "
             "--set on the command line; later ones win, key by key. Numbers are in the unit "
             "their key ends in. 'slurm-ext config check' finds mistakes, 'slurm-ext config show' "
             "prints what is in force."),
    ]  # fmt: skip
    for name, part in SCHEMA["properties"].items():
        if part["type"] != "object":
            out += [".SH AT THE TOP", *_key(name, part)]
            continue
        inner = part.get("properties")
        heading = f"[{name}]" if inner is not None else f"[{name}.NAME]"
        out += [f".SH {escape(heading)}", text(part["description"])]
        inner = inner if inner is not None else part["additionalProperties"]["properties"]
        for key, one in inner.items():
            out += _key(key, one)
    out += [".SH EXAMPLE", ".nf", *(escape(line) for line in EXAMPLE_FILE.splitlines()), ".fi",
            ".SH SEE ALSO", r".BR slurm-ext (1)"]  # fmt: skip
    return "\n".join(out) + "\n"


EXAMPLE_FILE = """\
mode = "observe"

[partitions.a100]
mode = "enforce"

[cycle]
interval_s = 10

[policy]
name = "tiresias"
"""


def escape(words: str) -> str:
    """Text that roff shows as it is."""
    done = words.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return f"\\&{done}" if done[:1] in (".", "'") else done


def text(words: str) -> str:
    """One paragraph on one line."""
    shown = (w.replace(",", ",\\:") if len(w) > LONG else w for w in escape(words).split())
    return " ".join(shown)


def paragraphs(words: str) -> list[str]:
    out = []
    for i, part in enumerate(words.split("\n\n")):
        out += [".PP", text(part)] if i else [text(part)]
    return out


def _title(name: str, section: int) -> str:
    return f'.TH {name} {section} "" "slurm\\-ext {__version__}" "slurm\\-ext manual"\n.ad l\n.nh'


def _verb(words: tuple[str, ...], parser: argparse.ArgumentParser) -> list[str]:
    shown = [a for a in parser._actions if a.help is not argparse.SUPPRESS and a.dest != "help"]
    places = " ".join(_place(a) for a in shown if not a.option_strings)
    out = [f'.SS "{escape(" ".join(words))}{" [options]" if shown else ""}{" " if places else ""}'
           f'{escape(places)}"', text(parser.description or "")]  # fmt: skip
    if any(a.dest in COMMON for a in shown):
        out += [".PP", "Takes the common options."]
    for action in shown:
        if action.dest not in COMMON:
            out += _option(action)
    notes = [line for line in (parser.epilog or "").splitlines() if not line.startswith(EXAMPLE)]
    if notes:
        out += [".PP", text(" ".join(notes))]
    out += [".PP", "Example:", ".PP", ".RS", ".nf", *map(escape, examples(parser)), ".fi", ".RE"]
    return out


def _place(action: argparse.Action) -> str:
    name = _value(action)
    return {"?": f"[{name}]", "*": f"[{name}...]", "+": f"{name}..."}.get(str(action.nargs), name)


def _value(action: argparse.Action) -> str:
    if action.metavar is not None:
        return str(action.metavar)
    if action.choices is not None:
        return "{" + ",".join(str(c) for c in action.choices if str(c)) + "}"
    return action.dest.upper()


def _option(action: argparse.Action) -> list[str]:
    name = ", ".join(action.option_strings) or _value(action)
    if action.option_strings and action.nargs != 0:
        name += f" {_value(action)}"
    said: Any = (action.help or "") % {"default": action.default, "prog": "slurm-ext"}
    return [".TP", f".B {escape(name)}", text(said) or "\\&"]


def _key(name: str, part: dict[str, Any]) -> list[str]:
    about = [allowed(part), f"default: {toml(part['default'])}"
             if "default" in part and part["type"] != "object" else ""]  # fmt: skip
    known = "; ".join(a for a in about if a)
    return [
        ".TP",
        f".B {escape(name)}",
        text(part["description"] + (f" ({known})" if known else "")),
    ]
