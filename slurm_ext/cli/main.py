"""``slurm-ext``: argument parsing and the translation of errors to messages and exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from slurm_ext import __version__
from slurm_ext.daemon.text import printable
from slurm_ext.errors import ConfigError, SlurmExtError

from . import (
    admin,
    annotate,
    completion,
    config,
    doctor,
    forecast,
    frag,
    history,
    policy,
    replay,
    run,
    setup,
    sim,
    status,
    submit,
    template,
    top,
    topology,
    why,
)
from .common import EXIT_CODES
from .help import HelpFormatter, walk

GROUPS = (
    run, status, top, why, frag, forecast, replay, admin, doctor, config, topology, history, sim,
    policy, setup, submit, annotate, template, completion,
)  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="slurm-ext",
        description="GPU scheduling beside slurmctld: topology, backfill, explanation.",
        epilog=f"{EXIT_CODES}\nexample: slurm-ext plan",
    )
    parser.add_argument("--version", action="version", version=f"slurm-ext {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for group in GROUPS:
        group.add_parser(verbs)
    for _, each in walk(parser):
        each.formatter_class = HelpFormatter
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["submit"]:
        words = submit.shielded(words)
    args = build_parser().parse_args(words)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has gone: nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ConfigError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return error.exit_code
    except SlurmExtError as error:
        print(f"slurm-ext {args.verb}: {printable(str(error), 2000)}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        # A file the user named, mostly to be written.
        what = f"{error.filename}: " if error.filename is not None else ""
        said = printable(f"{what}{error.strerror or error}", 2000)
        print(f"slurm-ext {args.verb}: {said}; name another path", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
