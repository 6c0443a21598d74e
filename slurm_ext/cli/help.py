"""How ``--help`` looks, and a walk over all verbs for those who describe them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

EXAMPLE = "example: "
"""Begins a line of an epilog that holds a command."""


class HelpFormatter(argparse.HelpFormatter):
    """Fills each line of a text by itself, and leaves examples whole: they are to be copied."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n".join(
            indent + line if line.startswith(EXAMPLE) else fill(line, width, indent)
            for line in text.splitlines()
        )


def children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The verbs directly below a parser, in the order of their registration."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def walk(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Every parser with the words that lead to it, parents first."""
    yield words, parser
    for name, child in children(parser).items():
        yield from walk(child, (*words, name))


def examples(parser: argparse.ArgumentParser) -> list[str]:
    """The commands that a parser's epilog shows."""
    lines = (parser.epilog or "").splitlines()
    return [line.removeprefix(EXAMPLE) for line in lines if line.startswith(EXAMPLE)]
