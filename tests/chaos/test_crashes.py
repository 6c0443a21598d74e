"""kill -9 of the daemon anywhere: nobody's job stays behind, nobody's wish is lost.

One queue lives through all crash points of a run; after each crash something else happens:
restart with the ledger, restart without it, ``recover --fail-open`` with or without it, one
cycle that manages nothing, or nothing at all. SLURM_EXT_CHAOS=500 gives that many random points.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.chaos.conftest import SPEC
from tests.chaos.rig import NOTE, SLACK_S, THOROUGH, Frail, Queue, Wish, read
from tests.integration.harness import running, wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(1800)]

LEASE_S = 8
RANDOM_POINTS = int(os.environ.get("SLURM_EXT_CHAOS", "20")) // 2
POINTS = (
    "observe:after:2", "commit_intents:before:1", "commit_intents:after:1",
    "commit_intents:after:3", "patch:before:2", "patch:after:1", "patch:after:3",
    "cut:half:1", "cut:after:ReqNodeList=n", "record_outcomes:after:1",
    "forget:before:1", "forget:after:1",
    "record_changes:before:2", "record_cycle:after:2",
)  # fmt: skip
KINDS = ("lease", "hold", "lease, no notes", "hold, no notes")[: 4 if THOROUGH else 2]
FOREIGN = "rack=7; owner=ops [ticket 12] k=v"


@dataclass
class Storm:
    """A queue that never runs dry, and the daemon that dies beside it again and again."""

    queue: Queue
    daemon: Frail
    defer: str
    noting: bool
    random: random.Random
    turn: Iterator[str] = field(default_factory=lambda: itertools.cycle(VARIANTS))
    crashes: dict[str, int] = field(default_factory=dict)
    marked: int = 0

    def feed(self, least: int = 12) -> None:
        rng = self.random
        for _ in range(least - self.queue.pending()):
            kind = rng.randrange(9)
            run_s = rng.choice((2, 3, 4))
            now_s = int(time.time())
            if kind == 0:
                self.queue.add(Wish(nodes=2), "--gpus-per-node=8", run_s=run_s)
            elif kind == 1:
                self.queue.add(
                    Wish(required=rng.choice(("n1", "n4"))), "--gpus-per-node=8", run_s=2
                )
            elif kind == 2:
                self.queue.add(Wish(excluded="n[1-2]"), "--gpus-per-node=4", run_s=2)
            elif kind == 3:
                self.queue.add(Wish(begin_s=now_s + rng.randrange(4, 30)), "--gpus-per-node=8")
            elif kind == 4:
                self.queue.add(Wish(admin_comment=FOREIGN), "--gpus-per-node=8", run_s=run_s)
            elif kind == 5:
                self.queue.add(Wish(), "--gpus-per-node=4", "--array=0-3", run_s=2)
            else:
                self.queue.add(Wish(), f"--gpus-per-node={rng.choice((4, 8))}", run_s=run_s)

    def crash_at(self, point: str) -> None:
        """Run the daemon until the fault in it strikes."""
        self.feed()
        self.daemon.launch(point)
        code = wait_for(self._dead, 15, f"{point} strikes", self.daemon.log)
        assert code == 9, (code, self.daemon.log())

    def _dead(self) -> int:
        self.feed(8)
        return self.daemon.wait_dead(0)

    def crash_after(self, delay_s: float) -> None:
        self.feed()
        self.daemon.launch()
        assert self.daemon.wait_dead(delay_s) == 0, self.daemon.log()
        self.daemon.kill()

    def aftermath(self, variant: str) -> None:
        """What happens after the crash, and what must be true then."""
        if not self.noting:
            variant = variant.replace("without", "with")  # the ledger is all there is
        self.crashes[variant] = self.crashes.get(variant, 0) + 1
        self.marked += len(self.queue.marked())
        self.queue.check_always(LEASE_S, just_died=True)
        if variant.endswith("without"):
            self.daemon.lose_ledger()
        if variant.startswith("recover"):
            said = self.daemon.command("recover", "--fail-open")
            self._nothing_left(said.stdout + said.stderr)
        elif variant.startswith("cycle"):
            self.daemon.command("cycle", "--set", "mode=observe")
            # The note of a hold goes once the release has been seen.
            said = self.daemon.command("cycle", "--set", "mode=observe")
            self._nothing_left(said.stdout + said.stderr)
        elif variant == "nothing":
            self._lapses()
        # A restart is the next point's beginning: only what was undone by now must be right.
        self.queue.check_always(LEASE_S, just_died=variant.startswith("restart"))

    def _nothing_left(self, said: str) -> None:
        left = self.queue.left_behind(read(self.queue.slurm))
        assert not left, "\n".join([*left, said, self.daemon.log()])

    def _lapses(self) -> None:
        """Without anybody's help no lease outlives its length; holds are the janitor's."""
        wait_for(lambda: not self._leased(), LEASE_S + SLACK_S, "leases lapse", self._leased,
                 exact=True)  # fmt: skip
        left = self.queue.left_behind(read(self.queue.slurm))
        kinds = ("held=", "ReqNodeList", "ExcNodeList", "AdminComment")
        found = {kind: sum(kind in line.split(": ", 2)[1] for line in left) for kind in kinds}
        print(f"\n[{self.defer}] a lease after the death: {found} on pending jobs")
        if self.defer == "hold":
            # The janitor acts once the heartbeat is old.
            wait_for(self._janitor_acts, 20, "the janitor to find the daemon dead")
            self._nothing_left("")

    def _janitor_acts(self) -> bool:
        return "alive a moment ago" not in self.daemon.command("recover").stdout

    def _leased(self) -> list[str]:
        return [x for x in self.queue.left_behind(read(self.queue.slurm)) if ": begins" in x]


VARIANTS = ("restart with", "recover with", "restart without", "recover without",
            "cycle with", "restart with", "cycle without")[: 7 if THOROUGH else 5]  # fmt: skip


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=pytest.mark.xdist_group(kind)) for kind in KINDS],
)
def storm(request: pytest.FixtureRequest) -> Iterator[Storm]:
    defer, _, rest = str(request.param).partition(",")
    base = Path(tempfile.mkdtemp(prefix="ch-d-", dir="/tmp"))
    try:
        with running(SPEC) as slurm:
            daemon = Frail(
                slurm, base / "d", levers__defer=defer, levers__lease_s=LEASE_S,
                levers__undo_notes="off" if rest else "auto",
                levers__frontier="wide", policy__name="sjf", levers__pin_ttl_s=4,
                levers__write_tokens_per_s=200, guard__idle_waste_cycles=1000,
            )  # fmt: skip
            storm = Storm(Queue(slurm), daemon, defer, not rest, random.Random(20 + len(defer)))
            for held in ("user", "user", "later"):
                wish = Wish(held=True, admin_comment=FOREIGN if held == "later" else "")
                storm.queue.add(wish, "--gpus-per-node=1")
            yield storm
            if daemon.process is not None and daemon.process.poll() is None:
                daemon.kill()
    finally:
        shutil.rmtree(base, ignore_errors=True)


@pytest.mark.parametrize("point", POINTS)
def test_dies_between_two_steps(storm: Storm, point: str) -> None:
    storm.crash_at(point)
    storm.aftermath(next(storm.turn))


@pytest.mark.parametrize("number", range(RANDOM_POINTS))
def test_dies_at_a_random_moment(storm: Storm, number: int) -> None:
    storm.crash_after(storm.random.uniform(0.2, 2.5))
    storm.aftermath(next(storm.turn))


def test_dies_for_good(storm: Storm) -> None:
    storm.crash_at("patch:after:3")
    storm.aftermath("nothing")


def test_nothing_is_lost(storm: Storm) -> None:
    """The last test of a run: all jobs of all crash points end well, and clean."""
    storm.daemon.start()
    seen = storm.queue.end(120)
    storm.queue.check_always(LEASE_S)
    notes = [job for job in storm.queue.wishes if NOTE.search(seen[job].admin_comment)]
    print(f"\n[{storm.defer}] {sum(storm.crashes.values())} crash points {storm.crashes}, "
          f"{len(seen)} jobs, {storm.marked} marked jobs seen at the crashes, "
          f"{storm.queue.checks} job checks; notes left on ended jobs: {len(notes)}")  # fmt: skip
    assert storm.daemon.stop() == 0
    assert not storm.daemon.tracebacks(), storm.daemon.tracebacks()
