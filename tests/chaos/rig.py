"""An independent reading of the cluster, what users asked for, and the invariants between both.

Nothing here uses slurm_ext's own parsers or its ledger: only what ``scontrol show job`` prints.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.integration.harness import Daemon, Slurm, wait_for
from tests.live import script_of

CRASHING = Path(__file__).with_name("crashing.py")
NOTE = re.compile(r" ?\[slurm_ext;[^\]]*\]")
THOROUGH = bool(os.environ.get("SLURM_EXT_CHAOS"))
"""All combinations instead of a choice that fits into CI."""

SLACK_S = 3
"""Whole seconds at both ends, and a busy machine between our clock and slurmctld's."""


@dataclass(frozen=True)
class Seen:
    """One job as ``scontrol show job`` prints it."""

    state: str
    reason: str
    priority: int
    eligible_s: int | None
    start_s: int | None
    required: str
    excluded: str
    nodes: str
    node_count: str
    admin_comment: str
    restarts: int
    array: int

    @property
    def pending(self) -> bool:
        return self.state == "PENDING"

    @property
    def held(self) -> bool:
        return self.pending and (self.priority == 0 or "JobHeld" in self.reason)

    @property
    def foreign(self) -> str:
        """The AdminComment without our note."""
        return NOTE.sub("", self.admin_comment)


def read(slurm: Slurm) -> dict[int, Seen]:
    """Every job slurmctld still keeps."""
    env = {**slurm.env, "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
    text = subprocess.run(
        ["scontrol", "show", "job"], env=env, text=True, errors="surrogateescape",
        capture_output=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    return {int(_value(r, "JobId")): _seen(r) for r in text.split("\n\n") if "JobId=" in r}


def _seen(record: str) -> Seen:
    lines = record.split("\n")
    comment = next((x.strip() for x in lines if x.strip().startswith("AdminComment=")), "")
    return Seen(
        state=_value(record, "JobState"),
        reason=_value(record, "Reason"),
        priority=int(_value(record, "Priority")),
        eligible_s=_moment(_value(record, "EligibleTime")),
        start_s=_moment(_value(record, "StartTime")),
        required=_value(record, "ReqNodeList"),
        excluded=_value(record, "ExcNodeList"),
        nodes=_value(record, "NodeList"),
        node_count=_value(record, "NumNodes"),
        admin_comment=comment.removeprefix("AdminComment="),
        restarts=int(_value(record, "Restarts")),
        array=int(_value(record, "ArrayJobId") or 0),
    )


def _value(record: str, key: str) -> str:
    found = re.search(rf"(?:^|\s){key}=(\S*)", record)
    value = found.group(1) if found else ""
    return "" if value == "(null)" else value


def _moment(text: str) -> int | None:
    if not text or text in ("Unknown", "N/A"):
        return None
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def choice(values: Iterable[Any], step: int) -> list[Any]:
    """All values, or every ``step``-th in CI."""
    return list(values) if THOROUGH else list(values)[::step]


def hosts(text: str) -> set[str]:
    """``a[1-2],b1`` as names."""
    names: set[str] = set()
    for name, inside in re.findall(r"([A-Za-z]+)(\d+|\[[^\]]*\])", text):
        for part in inside.strip("[]").split(","):
            first, _, last = part.partition("-")
            names |= {f"{name}{n}" for n in range(int(first), int(last or first) + 1)}
    return names


@dataclass
class Wish:
    """What the user of one job asked for; nobody may lose it."""

    begin_s: int = 0
    required: str = ""
    excluded: str = ""
    held: bool = False
    admin_comment: str = ""
    nodes: int = 1


@dataclass
class Queue:
    """The jobs of one run with their users' wishes."""

    slurm: Slurm
    wishes: dict[int, Wish] = field(default_factory=dict)
    checks: int = 0

    def add(self, wish: Wish, *options: str, run_s: float = 1, until: Path | None = None) -> int:
        """Submit it; it sleeps ``run_s``, or until the file ``until`` appears."""
        words = ["--cpus-per-task=1", "--mem=100", f"--nodes={wish.nodes}", *options]
        if wish.begin_s:
            stamp = datetime.fromtimestamp(wish.begin_s, UTC).isoformat(timespec="seconds")
            words.append(f"--begin={stamp.removesuffix('+00:00')}")
        words += [f"--nodelist={wish.required}"] if wish.required else []
        words += [f"--exclude={wish.excluded}"] if wish.excluded else []
        words += ["--hold"] if wish.held else []
        done = subprocess.run(
            ["sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp", "--time=1", *words,
             f"--wrap={script_of(run_s, until)}"],
            env={**self.slurm.env, "TZ": "UTC"}, text=True, capture_output=True, timeout=60,
            check=True,
        )  # fmt: skip
        job = int(done.stdout)
        self.wishes[job] = wish
        if wish.admin_comment:
            self.slurm.run("scontrol", "update", f"JobId={job}",
                           f"AdminComment={wish.admin_comment}")  # fmt: skip
        return job

    # -- invariants --------------------------------------------------------------------------

    def check_always(self, lease_s: int, *, just_died: bool = False) -> dict[int, Seen]:
        """What must hold at every moment, whoever is alive or dead.

        ``just_died``: a hold that came a moment after its job's start may still stand there.
        """
        seen = read(self.slurm)
        now_s = int(time.time())
        for job, wish, one in self._with(seen):
            self.checks += 1
            assert one.foreign == wish.admin_comment, (job, one, wish)
            if wish.held:
                assert one.held, f"released against its user's hold: {job} {one}"
            if one.pending:
                bound = max(wish.begin_s, now_s + lease_s + SLACK_S)
                assert one.eligible_s is None or one.eligible_s <= bound, (job, one, wish, now_s)
            elif not wish.held and one.start_s:
                self._check_started(job, one, wish)
                if one.state == "RUNNING" and not just_died:
                    assert one.priority > 0, f"a hold waits for its requeue: {job} {one}"
        return seen

    def _check_started(self, job: int, one: Seen, wish: Wish) -> None:
        where = hosts(one.nodes)
        assert len(where) == wish.nodes, f"shrunk or grown: {job} {one} {wish}"
        assert hosts(wish.required) <= where, (job, one, wish)
        assert hosts(wish.excluded).isdisjoint(where), (job, one, wish)
        assert one.start_s is not None
        assert one.start_s >= wish.begin_s - 1, f"before its begin: {job} {one} {wish}"

    def left_behind(self, seen: dict[int, Seen]) -> list[str]:
        """Marks of ours on pending jobs: what must be gone once all is given back."""
        now_s = int(time.time())
        found = []
        for job, wish, one in self._with(seen):
            if not one.pending:
                continue
            if one.held != wish.held:
                found.append(f"{job}: held={one.held}, user wants {wish.held}: {one}")
            if hosts(one.required) != hosts(wish.required):
                found.append(f"{job}: ReqNodeList={one.required}, user's {wish.required!r}: {one}")
            if hosts(one.excluded) != hosts(wish.excluded):
                found.append(f"{job}: ExcNodeList={one.excluded}, user's {wish.excluded!r}: {one}")
            if one.admin_comment != wish.admin_comment:
                found.append(f"{job}: AdminComment {one.admin_comment!r}")
            begin = one.eligible_s or 0
            if wish.begin_s > now_s + 1 and not wish.held and begin != wish.begin_s:
                found.append(f"{job}: begins {begin}, user's {wish.begin_s}")
            if wish.begin_s <= now_s and begin > now_s + 1:
                found.append(f"{job}: begins {begin}, in {begin - now_s} s: {one}")
        return found

    def _with(self, seen: dict[int, Seen]) -> Iterator[tuple[int, Wish, Seen]]:
        """Jobs of this queue, the tasks of arrays each by itself; none may be missing."""
        assert self.wishes.keys() <= seen.keys() | {one.array for one in seen.values()}
        for job, one in seen.items():
            wish = self.wishes.get(one.array or job)
            if wish is not None:
                yield job, wish, one

    def marked(self) -> list[int]:
        """Pending jobs that carry something of ours at this moment."""
        now_s = int(time.time())
        return [job for job, wish, one in self._with(read(self.slurm)) if one.pending and (
            one.held != wish.held or one.required != wish.required
            or (one.eligible_s or 0) > max(now_s, wish.begin_s)
        )]  # fmt: skip

    def pending(self) -> int:
        return sum(one.pending and not wish.held for _, wish, one in self._with(read(self.slurm)))

    def end(self, deadline_s: float) -> dict[int, Seen]:
        """Release what the users hold and wait until everything has COMPLETED."""
        for job, wish in self.wishes.items():
            if wish.held:
                self.slurm.run("scontrol", "release", str(job))
                wish.held = False
        self.slurm.wait_completed(list(self.wishes), deadline_s)
        return read(self.slurm)


class Frail(Daemon):
    """A daemon that may die, be deprived of its ledger, or carry a fault of crashing.py.

    ``resize_to``: with a fault, the GPUs every elastic job is wanted on (0: as the policy says).
    """

    resize_to = 0

    def launch(self, point: str = "", mark: Path | None = None, *verb: str) -> Frail:
        """Start it (or another verb) and return at once."""
        head = [sys.executable, str(CRASHING), point] if point else self.program
        env = {**self.slurm.env, **({"CHAOS_MARK": str(mark)} if mark else {})}
        env["CHAOS_RESIZE_TO"] = str(self.resize_to)
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*head, *(verb or ("serve",)), "--config", str(self.config_path)],
                env=env, cwd="/tmp", stdout=log, stderr=log,
            )  # fmt: skip
        return self

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def wait_dead(self, deadline_s: float) -> int:
        assert self.process is not None
        try:
            return self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return 0

    def lose_ledger(self) -> None:
        for path in self.journal_path.parent.glob("journal.db*"):
            path.unlink()

    def tracebacks(self) -> str:
        text = self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
        return text[text.index("Traceback") :][:3000] if "Traceback" in text else ""

    def wait_log(self, text: str, deadline_s: float) -> None:
        wait_for(lambda: text in self.log_path.read_text(errors="replace"), deadline_s,
                 f"{text!r} in the log", self.log)  # fmt: skip
