"""The pages of the live view."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_ext.tui.cluster import holes
from slurm_ext.tui.render import span
from slurm_ext.tui.view import PAGES, View

from .common import data, shown

HOSTILE = "evil\x1b[2J\x07\r\nNumNodes=4\u202e[bold]"


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("page", [*PAGES, "job"])
def test_hostile_names_never_reach_the_terminal(width: int, page: str) -> None:
    found = data(name=HOSTILE, user=HOSTILE, account=HOSTILE, partitions=("gpu",))
    view = View(job="1") if page == "job" else View(page=page, filter="")
    text = shown(found, view, width=width, stream=[HOSTILE])
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    assert "\u202e" not in text


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("width", "height"), [(80, 24), (132, 40), (40, 10)])
def test_every_page_fits_the_terminal(page: str, width: int, height: int) -> None:
    lines = shown(data(), View(page=page), width=width, height=height).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= height


def test_the_map_shows_free_used_promised_and_unusable_gpus() -> None:
    text = shown(data())
    assert "n1 ■■○○○○○○" in text
    assert "n2 xxxxxxxx" in text


def test_a_daemon_without_a_cycle_yet_can_be_shown() -> None:
    assert "no nodes" in shown({"cycle": 0})


def test_a_job_page_gives_reasons_terms_and_places() -> None:
    text = shown(data(), View(job="1"), width=100)
    for part in ("job 1", "verdict start", "submit_s", "place     n1: 4 GPUs (2,3,4,5)"):
        assert part in text


def test_a_job_that_has_gone_is_said_so() -> None:
    assert "no longer in the queue" in shown(data(), View(job="99"))


def test_the_filter_narrows_the_queue() -> None:
    text = shown(data(), View(page="queue", filter="fits"))
    assert "fits now on n1" in text
    assert "wait  " not in text


def test_the_health_page_says_how_slurm_is_reached() -> None:
    ways = [{"name": "rest", "role": "resting", "text": f"failed: {HOSTILE}", "failed_at_s": 1}]
    switch = {"at_s": 1, "before": "rest", "after": "cli", "why": "no answer"}
    found = {**data(), "ways": ways, "way_switched": switch}
    text = shown(found, View(page="health"), width=200, height=60)
    assert "way to Slurm: rest resting, failed: evil\\x1b" in text
    assert "rest to cli, no answer" in text


def test_a_failure_is_shown_in_place_of_the_keys() -> None:
    failed = {**data(), "failure": {"at_s": 1, "error": "slurmctld does not answer"}}
    assert "slurmctld does not answer" in shown(failed, View())


def test_wide_terminals_show_slurms_reason_beside_ours() -> None:
    found = data(reason="Resources")
    assert "Resources" in shown(found, View(), width=132)
    assert "Resources" not in shown(found, View(), width=80)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "now"), (0, "now"), (90, "+90s"), (121, "+2m"), (7300, "+2h"), (200_000, "+2d")],
)
def test_spans(seconds: int, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("free", "cpus_free", "text"),
    [
        (8, 64, "free 8 (1x8)"),
        (8, 3, "free 3 (1x3), stranded 5"),
        (0, 64, "free 0"),
    ],
)
def test_free_gpus_as_they_lie(free: int, cpus_free: int, text: str) -> None:
    one = {"gpus": 8, "gpus_used": 8 - free, "cpus": 64, "cpus_used": 64 - cpus_free,
           "mem_mib": 100, "mem_used_mib": 1, "states": ["MIXED"]}  # fmt: skip
    assert holes({"nodes": [one]}) == text
    down = replace_states(one)
    assert holes({"nodes": [down]}).startswith("free 0")


def replace_states(node: dict[str, object]) -> dict[str, object]:
    return {**node, "states": ["DOWN"]}


def test_a_stopped_display_says_so() -> None:
    assert "[display stopped]" in shown(data(), replace(View(), paused=True), width=120)
