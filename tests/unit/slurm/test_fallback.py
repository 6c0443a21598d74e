"""Several ways to Slurm: fall back at once, do not hop, send nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from slurm_ext.errors import (
    SlurmCommandError,
    SlurmExtError,
    SlurmUnavailableError,
    StillReadingError,
)
from slurm_ext.model.decision import JobPatch
from slurm_ext.model.observation import Controller, Observation
from slurm_ext.slurm.choose import NativeSettings, RestSettings, open_port
from slurm_ext.slurm.cli import CliSlurm
from slurm_ext.slurm.deadline import Deadline
from slurm_ext.slurm.fallback import (
    REST_FIRST_S,
    REST_MOST_S,
    Choice,
    Fallback,
    Standing,
    Switch,
)
from slurm_ext.slurm.port import Outcome
from slurm_ext.slurm.run import Runner

DOWN = SlurmUnavailableError("down")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Way(CliSlurm):
    """A way to Slurm that fails with ``error``; ``takes_s``: how long a look lasts."""

    def __init__(self, name: str, clock: Clock, error: SlurmExtError | None = None) -> None:
        super().__init__(runner=Runner(environ={}))
        self.name, self.clock, self.error = name, clock, error
        self.takes_s = 0.0
        self.looks = 0
        self.written: list[Sequence[JobPatch]] = []
        self.left: Callable[[], None] = lambda: None

    def observe(self, *, site_factors: bool = False) -> Observation:
        self.looks += 1
        self.left()
        self.clock.now += self.takes_s
        if self.error:
            raise self.error
        return Observation(1, Controller((22, 5), self.name), (), (), ())

    def patch(self, patches: Sequence[JobPatch]) -> tuple[Outcome, ...]:
        self.written.append(patches)
        if self.error:
            raise self.error
        return ()


class Pair:
    """Two ways, the first one broken, and what the fall-back says."""

    def __init__(self, error: SlurmExtError = DOWN) -> None:
        self.clock = Clock()
        self.first, self.second = Way("first", self.clock, error), Way("second", self.clock)
        self.said: list[str] = []
        ways = [("first", self.first), ("second", self.second)]
        self.deadline = Deadline(self.clock)
        self.port = Fallback(
            ways, budget_s=20, deadline=self.deadline, say=self.said.append, clock=self.clock,
            epoch=lambda: 1000 + self.clock.now, unused=[Choice("third", None, "not used: why")],
        )  # fmt: skip

    def seen(self) -> str:
        return self.port.observe().controller.cluster


@pytest.mark.parametrize("error", [DOWN, SlurmCommandError("odd")])
def test_falls_back_within_the_call(error: SlurmExtError) -> None:
    pair = Pair(error)
    assert (pair.seen(), pair.port.current) == ("second", "second")
    assert pair.said == [f"first fails, rests for 300 s: {error}", "Slurm is reached by second now"]


def test_what_failed_rests_before_it_is_tried_again() -> None:
    pair = Pair()
    pair.seen()
    pair.clock.now = REST_FIRST_S - 1
    pair.seen()
    assert pair.first.looks == 1
    pair.clock.now = REST_FIRST_S
    pair.seen()
    assert pair.first.looks == 2
    assert len(pair.said) == 2  # the same complaint is not made again
    pair.clock.now = 3 * REST_FIRST_S - 1
    pair.seen()
    assert pair.first.looks == 2  # it rests twice as long now


def test_a_way_that_only_needs_more_looks_does_not_rest() -> None:
    pair = Pair(StillReadingError("9 of 10 jobs are still to be read"))
    assert pair.seen() == "second"
    assert pair.said[0].startswith("first fails, goes on in the next look: 9 of 10")
    pair.first.error = None
    assert pair.seen() == "first"


def test_rests_have_an_end() -> None:
    pair = Pair()
    for _ in range(20):
        pair.clock.now += REST_MOST_S
        pair.seen()
    assert pair.first.looks == 20


def test_returns_to_what_works_again() -> None:
    pair = Pair()
    pair.seen()
    pair.first.error = None
    pair.clock.now = REST_FIRST_S
    assert pair.seen() == "first"
    assert pair.said[-1] == "Slurm is reached by first now"


def test_all_are_tried_when_all_rest() -> None:
    pair = Pair()
    pair.second.error = SlurmUnavailableError("down, too")
    with pytest.raises(SlurmUnavailableError, match=r"first: down; second: down, too"):
        pair.seen()
    pair.second.error = None
    assert pair.seen() == "second"


def test_no_further_way_is_tried_when_the_time_is_used_up() -> None:
    pair = Pair()
    pair.first.takes_s = 20
    with pytest.raises(SlurmUnavailableError, match=r"^down$"):
        pair.seen()
    assert pair.second.looks == 0
    assert pair.seen() == "second"  # the next call begins with it


def test_writes_go_where_the_last_look_came_from_and_nowhere_else() -> None:
    pair = Pair()
    pair.seen()
    pair.second.error = DOWN
    with pytest.raises(SlurmUnavailableError):
        pair.port.patch([])
    assert (pair.first.written, pair.second.written) == ([], [[]])


def test_check_tries_every_way() -> None:
    pair = Pair()
    assert pair.port.check() == (
        Choice("first", False, "does not work: down"),
        Choice("second", True, "used"),
        Choice("third", None, "not used: why"),
    )
    pair.first.error = None
    assert [one.text for one in pair.port.check()][:2] == [
        "used",
        "works, stands by in case first fails",
    ]


def test_standings_say_why_each_way_is_used_or_not() -> None:
    pair = Pair()
    third = Standing("third", "unused", "not used: why")
    assert pair.port.standings() == (
        Standing("first", "used", "the first way that works"),
        Standing("second", "standby", "in case first fails"),
        third,
    )
    assert pair.port.switch is None
    pair.clock.now = 5.0
    pair.seen()
    assert pair.port.standings() == (
        Standing("first", "resting", "failed, tried again in 300 s: down", 1005),
        Standing("second", "used", "the first way that works"),
        third,
    )
    assert pair.port.switch == Switch(1005, "first", "second", "down")
    pair.first.error = None
    pair.clock.now = 305.0
    assert pair.port.standings()[0].text == "failed, tried again at once: down"
    pair.seen()
    assert pair.port.standings() == (
        Standing("first", "used", "the first way that works", 1005),
        Standing("second", "standby", "in case first fails"),
        third,
    )
    assert pair.port.switch == Switch(1305, "second", "first", "first works again")


SETTINGS: dict[str, Any] = {
    "bin_dir": "", "slurm_conf": "", "format": "text", "call_timeout_s": 5, "observe_timeout_s": 5,
}  # fmt: skip
REST = RestSettings(url="unix:/nowhere", user="u")
NATIVE = NativeSettings(python="/nowhere/python")
NONE = NativeSettings()


@pytest.mark.parametrize(
    ("backend", "native", "rest", "order"),
    [
        ("auto", NONE, RestSettings(), ["cli"]),
        ("auto", NONE, REST, ["cli", "rest"]),
        ("auto", NATIVE, REST, ["native", "cli", "rest"]),
        ("native", NATIVE, RestSettings(), ["native", "cli"]),
        ("cli", NATIVE, REST, ["cli"]),
        ("rest", NATIVE, REST, ["rest", "native", "cli"]),
    ],
)
def test_order(backend: str, native: NativeSettings, rest: RestSettings, order: list[str]) -> None:
    port = open_port(backend=backend, native=native, rest=rest, **SETTINGS)
    assert [way.name for way in port._ways] == order
    unused = {one.name: one.text for one in port._unused}
    assert unused.keys() == {"native", "cli", "rest"} - set(order)
    assert all(text.startswith("not used: ") for text in unused.values())


@pytest.mark.parametrize(
    ("backend", "rest", "said"),
    [
        ("rest", RestSettings(), r'"rest": slurm.rest_url is not set'),
        ("rest", RestSettings(url="ftp://x", user="u"), r"slurm.rest_url = "),
        ("native", REST, r"has no pyslurm; slurm.native_python may name"),
    ],
)
def test_settings_that_cannot_work(backend: str, rest: RestSettings, said: str) -> None:
    with pytest.raises(SlurmUnavailableError, match=said):
        open_port(backend=backend, native=NONE, rest=rest, **SETTINGS)


def test_a_look_ends_in_time_and_leaves_half_of_it_to_the_next_way() -> None:
    pair = Pair()
    seen: list[float] = []
    for way in (pair.first, pair.second):
        way.left = lambda: seen.append(pair.deadline.left(1000))
    pair.first.takes_s = 6
    pair.seen()
    assert seen == [10, 14]
    assert pair.deadline.left(1000) == 1000  # other calls have their own limits
