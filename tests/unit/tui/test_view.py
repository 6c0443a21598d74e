"""Keys and what they change."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.tui.keys import split
from slurm_ext.tui.view import View, changes, chosen_jobs, press

from .common import Plain, data, shown

SNAPSHOT = data()


def after(*keys: str) -> View:
    return reduce(lambda view, key: press(view, key, SNAPSHOT), keys, View())


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["2"], View(page="queue")),
        (["9"], View()),
        (["down", "up", "up"], View(cursor=0)),
        (["down"] * 9, View(cursor=2)),
        (["enter"], View(job="1")),
        (["down", "enter"], View(cursor=1, job="2")),
        (["enter", "q"], View()),
        (["enter", "escape"], View()),
        (["q"], View(ended=True)),
        (["p"], View(paused=True)),
        (["s"], View(sort="gpus")),
        (["s"] * 5, View()),
        (["/", "g", "p", "backspace", "enter"], View(filter="g")),
        (["/", "q", "escape"], View()),
        (["3", "down", "down"], View(page="nodes", top=2)),
    ],
)
def test_keys(keys: list[str], expected: View) -> None:
    assert after(*keys) == expected


@given(st.lists(st.sampled_from(
    ["1", "2", "3", "4", "5", "up", "down", "pagedown", "enter", "escape", "/", "x", "s", "p",
     "backspace", "\x00", "é"]), max_size=30))  # fmt: skip
def test_no_sequence_of_keys_breaks_the_view(keys: list[str]) -> None:
    assert shown(SNAPSHOT, after(*keys))


def test_sorting_by_gpus() -> None:
    assert [j["gpus"] for j in chosen_jobs(SNAPSHOT, View(sort="gpus"))] == [8, 7, 4]


def test_changes_between_two_looks() -> None:
    before, now = data(), data()
    now["jobs"] = [j for j in now["jobs"] if j["id"] != "4"]
    started = next(j for j in now["jobs"] if j["id"] == "1")
    started.update(verdict="running", reasons=[{"code": "running", "text": "it runs"}])
    now["jobs"].append({**started, "id": "9", "verdict": "wait"})
    assert [line.replace(" user ", " ") for line in changes(before, now)] == [
        f"1 {started['user']} start -> running: it runs",
        f"9 {started['user']} new: wait: it runs",
        f"4 {started['user']} wait -> gone",
    ]


def test_the_first_look_is_no_change() -> None:
    assert changes({}, SNAPSHOT) == []


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("\x1b[A\x1b[B", ["up", "down"]),
        ("\x1b", ["escape"]),
        ("a\rb", ["a", "enter", "b"]),
        ("\x1b[5~x", ["pageup", "x"]),
        ("\x1b[1;5Cq", ["q"]),
        ("\x1b[<0;10;10Mq", ["q"]),
        ("\x03", ["ctrl-c"]),
    ],
)
def test_terminal_sequences_become_keys(typed: str, keys: list[str]) -> None:
    assert split(typed) == keys


@given(st.text(max_size=20))
def test_any_input_is_split_into_keys(text: str) -> None:
    assert all(isinstance(key, str) for key in split(text))


def test_an_empty_queue_has_no_job_to_open() -> None:
    empty: Plain = {"cycle": 1, "jobs": [], "nodes": []}
    assert press(View(), "enter", empty) == View()
