"""Several ways to the same Slurm: the first that works, without hopping to and fro."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slurm_ext.errors import (
    SlurmCommandError,
    SlurmExtError,
    SlurmUnavailableError,
    StillReadingError,
)
from slurm_ext.model.decision import JobPatch, ReservationSpec
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.observation import Controller, Observation
from slurm_ext.model.restart import JobSignal
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.deadline import Deadline
from slurm_ext.slurm.port import Outcome, SlurmPort

REST_FIRST_S = 300.0
REST_MOST_S = 3600.0


class Adapter(SlurmPort, Protocol):
    """A way to Slurm that can also compare what two formats say, and tell how it works."""

    @property
    def note(self) -> str:
        """What it is and what it leaves to other ways; asked for after a look."""
        ...

    def crosscheck(self) -> list[str]:
        """What two readings of this moment say differently; empty if they agree."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to Slurm, whether it works (None: not tried), and why it is used or not.

    ``note``: what it is, and what it leaves to other ways.
    """

    name: str
    works: bool | None
    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """A way as the looks so far left it. ``role``: used, standby, resting or unused; ``text``: why.

    ``failed_at_s``: of the last failure, None if it never failed.
    """

    name: str
    role: str
    text: str
    failed_at_s: EpochS | None = None


@dataclass(frozen=True, slots=True)
class Switch:
    """The last change of the way in use, and what made it necessary."""

    at_s: EpochS
    before: str
    after: str
    why: str


@dataclass(slots=True)
class _Way:
    name: str
    adapter: Adapter
    said: str = ""
    rests_s: float = 0.0
    until_s: float = 0.0
    failed_at_s: EpochS | None = None


class Fallback:
    """Implements :class:`Adapter`: looks go to the first way that works, within the same call.

    A way that has failed rests for five minutes, then twice as long each time, up to an hour;
    meanwhile the next one is used. One that only needs more looks does not rest. ``budget_s``: time
    for a look, whatever happens; a way gets half of what is left while there are others.
    ``deadline`` is what keeps the ways to it. Writes go where the last look came from and are never
    sent twice. ``say`` is told of every change.
    ``unused``: ways that are not even tried, with the reason.
    """

    def __init__(
        self,
        ways: Sequence[tuple[str, Adapter]],
        *,
        budget_s: float,
        deadline: Deadline | None = None,
        unused: Sequence[Choice] = (),
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        epoch: Callable[[], float] = time.time,
    ) -> None:
        self._ways = [_Way(name, adapter) for name, adapter in ways]
        self._current = self._ways[0]
        self._budget_s = budget_s
        self._deadline = deadline or Deadline(clock)
        self._unused = tuple(unused)
        self._say = say
        self._clock = clock
        self._epoch = epoch
        self._switch: Switch | None = None

    @property
    def current(self) -> str:
        """The name of the way in use."""
        return self._current.name

    @property
    def switch(self) -> Switch | None:
        """The last change of the way in use; None: there was none."""
        return self._switch

    def standings(self) -> tuple[Standing, ...]:
        """How each way stands after the last look; asks nothing."""
        return (*map(self._standing, self._ways), *(
            Standing(choice.name, "unused", choice.text) for choice in self._unused
        ))  # fmt: skip

    def observe(self, *, site_factors: bool = False) -> Observation:
        """The look of the first way that works.

        :raises SlurmUnavailableError: none of them does (or the error of the only one).
        """
        begun = self._clock()
        errors: list[tuple[_Way, SlurmExtError]] = []
        ways = self._in_turn(begun)
        for number, way in enumerate(ways, 1):
            left = begun + self._budget_s - self._clock()
            if errors and left <= 0:
                break
            try:
                with self._deadline.within(left if number == len(ways) else left / 2):
                    seen = way.adapter.observe(site_factors=site_factors)
            except (SlurmUnavailableError, SlurmCommandError) as error:
                errors.append((way, error))
                self._failed(way, error)
                continue
            self._worked(way)
            return seen
        if len(errors) == 1:
            raise errors[0][1]
        raise SlurmUnavailableError("; ".join(f"{way.name}: {error}" for way, error in errors))

    def check(self) -> tuple[Choice, ...]:
        """Tries every way once; which is used, which stands by, which fails, each with why."""
        found: list[Choice] = []
        used = ""
        for way in self._ways:
            try:
                with self._deadline.within(self._budget_s):
                    way.adapter.observe()
                    note = way.adapter.note
            except (SlurmUnavailableError, SlurmCommandError) as error:
                found.append(Choice(way.name, False, f"does not work: {error}"))
                continue
            text = f"works, stands by in case {used} fails" if used else "used"
            used = used or way.name
            found.append(Choice(way.name, True, text, note))
        return (*found, *self._unused)

    def crosscheck(self) -> list[str]:
        """What two readings of this moment say differently; empty if they agree."""
        return self._current.adapter.crosscheck()

    def controller(self) -> Controller:
        """Version and configuration of the controller."""
        return self._current.adapter.controller()

    def look(self, keys: Sequence[JobKey]) -> Mapping[JobKey, Job]:
        """Fresh records of these jobs."""
        return self._current.adapter.look(keys)

    def patch(self, patches: Sequence[JobPatch]) -> tuple[Outcome, ...]:
        """Write job differences."""
        return self._current.adapter.patch(patches)

    def requeue(
        self, addresses: Sequence[tuple[JobKey, str]], *, failed: bool = False
    ) -> tuple[Outcome, ...]:
        """Requeue what runs."""
        return self._current.adapter.requeue(addresses, failed=failed)

    def signal(self, signals: Sequence[JobSignal]) -> tuple[Outcome, ...]:
        """Signal what runs."""
        return self._current.adapter.signal(signals)

    def workdirs(self, job_ids: Sequence[int]) -> Mapping[int, str]:
        """Directories jobs were submitted from."""
        return self._current.adapter.workdirs(job_ids)

    def reserve(self, spec: ReservationSpec) -> Outcome:
        """Create a reservation of ours."""
        return self._current.adapter.reserve(spec)

    def unreserve(self, name: str) -> Outcome:
        """Delete a reservation of ours."""
        return self._current.adapter.unreserve(name)

    def rpc_counts(self) -> Mapping[str, int]:
        """Messages the controller has handled, by type."""
        return self._current.adapter.rpc_counts()

    def _in_turn(self, now: float) -> list[_Way]:
        """Ways that do not rest, in order; if all do, all of them."""
        return [way for way in self._ways if now >= way.until_s] or self._ways

    def _failed(self, way: _Way, error: SlurmExtError) -> None:
        reading = isinstance(error, StillReadingError)
        way.rests_s = 0.0 if reading else min(max(2 * way.rests_s, REST_FIRST_S), REST_MOST_S)
        way.until_s = self._clock() + way.rests_s
        way.failed_at_s = int(self._epoch())
        if len(self._ways) > 1 and str(error) != way.said:
            rests = "goes on in the next look" if reading else f"rests for {way.rests_s:.0f} s"
            self._say(f"{way.name} fails, {rests}: {error}")
        way.said = str(error)

    def _worked(self, way: _Way) -> None:
        if way is not self._current:
            why = self._current.said or f"{way.name} works again"
            self._switch = Switch(int(self._epoch()), self._current.name, way.name, why)
            self._say(f"Slurm is reached by {way.name} now")
            self._current = way
        way.rests_s, way.until_s, way.said = 0.0, 0.0, ""

    def _standing(self, way: _Way) -> Standing:
        rests_s = way.until_s - self._clock()
        if way.said:
            role = "resting" if rests_s > 0 else "standby"
            again = f"tried again in {rests_s:.0f} s" if rests_s > 0 else "tried again at once"
            text = f"failed, {again}: {way.said}"
        elif way is self._current:
            role, text = "used", "the first way that works"
        else:
            role, text = "standby", f"in case {self._current.name} fails"
        return Standing(way.name, role, text, way.failed_at_s)
