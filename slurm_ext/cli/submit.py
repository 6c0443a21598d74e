"""``submit``: sbatch with ``##SLURM_EXT`` lines in the script."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from slurm_ext.annotate.script import Script, read_script
from slurm_ext.annotate.text import render, with_annotation
from slurm_ext.errors import ConfigError
from slurm_ext.slurm import sbatch

from .annotate import line_of


def add_parser(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "submit", help="sbatch that understands ##SLURM_EXT lines",
        description="Check the annotations of a script, put them into the job's comment, and call "
        "sbatch with every other option and argument as given. Options of its own come first.",
        epilog="exit code: sbatch's; 2 if an annotation is wrong (nothing is submitted)\n"
        "example: slurm-ext submit --gpus=4 train.sbatch --epochs 90",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="show the sbatch command only")
    parser.add_argument("--anyway", action="store_true",
                        help="submit as a plain job if an annotation is wrong")  # fmt: skip
    parser.add_argument("words", nargs="*", metavar="SBATCH_ARGUMENT",
                        help="options and arguments of sbatch")  # fmt: skip
    parser.set_defaults(run=run)


def shielded(argv: Sequence[str]) -> list[str]:
    """The words with ``--`` before the first that is sbatch's, so that argparse keeps its hands
    off them."""
    own = 1
    while own < len(argv) and argv[own] in ("--dry-run", "--anyway", "--help", "-h"):
        own += 1
    return [*argv[:own], "--", *argv[own:]]


def run(args: argparse.Namespace) -> int:
    line = sbatch.parse(args.words)
    stdin: bytes | None = None
    text: str | None = ""
    if line.script is not None:
        text = sbatch.read_script(line.script)
    elif not line.wrapped and _runs(args.words):
        stdin = sys.stdin.buffer.read(sbatch.MAX_SCRIPT)
        text = stdin.decode("utf-8", "surrogateescape")
    words = line.words
    if text is not None:
        found = read_script("" if line.wrapped else text, line.comment)
        words = _annotated(line, found, anyway=args.anyway)
    if args.dry_run:
        sys.stdout.write(shlex.join(["sbatch", *words]) + "\n")
        return 0
    return sbatch.run(words, stdin)


def _runs(words: list[str]) -> bool:
    return not {"--help", "-h", "--usage", "--version", "-V"} & set(words)  # these read nothing


def _annotated(line: sbatch.CommandLine, found: Script, *, anyway: bool) -> tuple[str, ...]:
    """sbatch's words with the lines of the script in the comment.

    :raises ConfigError: with every error, unless ``anyway``.
    """
    name = line.script or "the script"
    if found.errors and not anyway:
        raise ConfigError([line_of(name, p) for p in found.problems])
    for problem in found.problems:
        print(line_of(name, problem), file=sys.stderr)
    if not found.raw or found.errors or found.understood.off:
        return line.words
    return line.with_comment(with_annotation(found.comment, render(found.raw)))
