"""Every verb says what it does and shows a command that works."""

from __future__ import annotations

import argparse

import pytest

from slurm_ext.cli.help import examples, walk
from slurm_ext.cli.main import build_parser
from tests.manual import commands, parse

VERBS = {" ".join(words): parser for words, parser in walk(build_parser())}


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_has_a_description_and_an_example_of_itself(name: str) -> None:
    assert VERBS[name].description
    shown = commands(examples(VERBS[name]))
    assert shown
    for words in shown:
        assert " ".join(words).startswith(name)
        parse(words)


@pytest.mark.parametrize("name", VERBS)
def test_examples_stay_on_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    shown = VERBS[name].format_help()
    assert all(f"example: {line}" in shown.splitlines() for line in examples(VERBS[name]))


def test_every_option_has_a_help_text() -> None:
    bare = [
        f"{name} {'/'.join(action.option_strings)}"
        for name, parser in VERBS.items()
        for action in parser._actions
        if action.option_strings and action.help is None
    ]
    assert bare == []


def test_an_example_that_is_wrong_is_found() -> None:
    with pytest.raises(SystemExit):
        parse(("plan", "--no-such-option"))


def test_the_walk_finds_verbs_below_verbs() -> None:
    assert {"plan", "sim compare", "history eval"} <= VERBS.keys()
    assert isinstance(VERBS["plan"], argparse.ArgumentParser)
