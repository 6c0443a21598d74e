"""A cluster of docker/minislurm, a daemon beside it or none, and what became of the jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean, median

ROOT = Path(__file__).resolve().parents[2]
MINISLURM = [sys.executable, str(ROOT / "docker" / "minislurm")]
LUA = ROOT / "slurm_ext" / "slurm" / "lua" / "job_submit.lua"
OURS = [sys.executable, "-m", "slurm_ext"]
NODES, GPUS = 4, 8
POLL_S = 1.0


@dataclass(frozen=True)
class Row:
    """One contender. ``settings`` of the daemon; None: Slurm alone. ``sched``: see minislurm."""

    name: str
    settings: Mapping[str, object] | None
    sched: str = "tuned"


@dataclass(frozen=True)
class Ran:
    """A job that has ended, in epoch seconds; ``start_s`` of its last run."""

    state: str
    submit_s: int
    start_s: int
    end_s: int
    restarts: int


class Bed:
    """One cluster in a directory, and the daemon beside it. The jobs' records stay to the end."""

    def __init__(
        self, row: Row, directory: Path, *, accounting: bool = False, users: Sequence[str] = ()
    ) -> None:
        self.row, self.directory, self.accounting = row, directory, accounting
        self.users = tuple(users)
        self.cluster = directory / "cluster"
        self.env = {**os.environ, "SLURM_CONF": str(self.cluster / "etc" / "slurm.conf")}
        self.config = directory / "slurm_ext.toml"

    def up(self, stack: ExitStack) -> None:
        self.directory.mkdir(mode=0o755)
        # The name is in learnt artefacts: it must be the same where they are used.
        argv = [*MINISLURM, "up", "--dir", str(self.cluster), "--nodes", str(NODES), "--gpus",
                str(GPUS), "--sched", self.row.sched, "--name", "live",
                "--param", "MinJobAge=7200"]  # fmt: skip
        if self.users:
            argv += ["--users", ",".join(self.users)]
        if self.accounting:
            argv.append("--accounting")
        if self.row.settings is not None:
            argv += ["--job-submit-lua", str(self._lua())]
        stack.callback(subprocess.run, [*MINISLURM, "down", "--dir", str(self.cluster)],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        settings = {
            "mode": '"enforce"', "cycle.interval_s": 2, "cycle.min_interval_s": 0.5,
            "levers.lease_s": 60, "state.dir": f'"{self.directory}/state"',
            "state.run_dir": f'"{self.directory}/run"',
            "progress.spool_dir": f'"{self.directory}/spool"', **(self.row.settings or {}),
        }  # fmt: skip
        self.config.write_text("".join(f"{k} = {v}\n" for k, v in settings.items()))

    def _lua(self) -> Path:
        """The submit plugin, looking for this daemon's heartbeat."""
        path = self.directory / "job_submit.lua"
        path.write_text(LUA.read_text().replace("/run/slurm_ext/", f"{self.directory}/run/"))
        return path

    @contextmanager
    def daemon(self) -> Iterator[None]:
        if self.row.settings is None:
            yield
            return
        with (self.directory / "daemon.log").open("ab") as log:
            argv = [*OURS, "serve", "--config", str(self.config)]
            process = subprocess.Popen(argv, env=self.env, cwd=ROOT, stdout=log, stderr=log)
            try:
                yield
            finally:
                process.terminate()
                process.wait(60)

    def ours(self, *words: str) -> str:
        return self._run([*OURS, *words, "--config", str(self.config)], ROOT)

    def slurm(self, *argv: str, text: str = "") -> str:
        return self._run(argv, Path("/tmp"), text)

    def _run(self, argv: Sequence[str], directory: Path, text: str = "") -> str:
        done = subprocess.run(argv, env=self.env, cwd=directory, capture_output=True, text=True,
                              input=text, check=False)  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{self.row.name}: {argv}: {done.stdout}{done.stderr}")
        return done.stdout

    def ended(self) -> dict[int, Ran]:
        """All jobs that have ended, by id."""
        found = {}
        for line in self.slurm("scontrol", "-o", "show", "job").splitlines():
            pairs = dict(word.partition("=")[::2] for word in line.split())
            if pairs.get("JobState", "PENDING") in ("PENDING", "RUNNING", "COMPLETING"):
                continue
            found[int(pairs["JobId"])] = Ran(
                pairs["JobState"], epoch_s(pairs["SubmitTime"]), epoch_s(pairs["StartTime"]),
                epoch_s(pairs["EndTime"]), int(pairs["Restarts"]),
            )  # fmt: skip
        return found

    def wait(self, jobs: Sequence[int], deadline_s: float) -> dict[int, Ran]:
        """Those of these jobs that have ended, once all have or the deadline is over."""
        end_by = time.monotonic() + deadline_s
        while True:
            found = {job: ran for job, ran in self.ended().items() if job in jobs}
            if len(found) == len(jobs) or time.monotonic() > end_by:
                return found
            time.sleep(POLL_S)


@contextmanager
def beds_of(
    rows: Sequence[Row], name: str, *, users: Sequence[str] = (), teacher: int = -1
) -> Iterator[list[Bed]]:
    """A running cluster for each contender, all gone afterwards. ``teacher`` has accounting."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        folder = tempfile.TemporaryDirectory(prefix=f"{name}-", dir="/tmp")
        root = Path(stack.enter_context(folder))
        root.chmod(0o755)
        beds = [
            Bed(row, root / f"c{i}", accounting=i == teacher, users=users)
            for i, row in enumerate(rows)
        ]
        for bed in beds:
            bed.up(stack)
        yield beds


def side_by_side(beds: Sequence[Bed], one: Callable[[Bed], None]) -> None:
    """On all clusters at the same time; the first failure is raised."""
    with ThreadPoolExecutor(len(beds)) as pool:
        list(pool.map(one, beds))


def epoch_s(text: str) -> int:
    """Slurm's local time."""
    return int(datetime.fromisoformat(text).timestamp())


@dataclass(frozen=True)
class Span:
    """What counts of a job: seconds since an epoch, and the GPUs it had."""

    submit_s: float
    start_s: float
    end_s: float
    gpus: int


def figures(spans: Sequence[Span]) -> dict[str, float]:
    """Of one pass; ``use``: of all GPUs, until the last job has started."""
    first, busy_until = min(s.submit_s for s in spans), max(s.start_s for s in spans)
    area = sum(s.gpus * max(0, min(s.end_s, busy_until) - s.start_s) for s in spans)
    jcts = [s.end_s - s.submit_s for s in spans]
    return {
        "jobs": len(spans),
        "wait_s": fmean(s.start_s - s.submit_s for s in spans),
        "jct_s": fmean(jcts),
        "jct_median_s": median(jcts),
        "jct_p95_s": sorted(jcts)[int(0.95 * (len(jcts) - 1))],
        "makespan_s": max(s.end_s for s in spans) - first,
        "use": area / (NODES * GPUS * max(1.0, busy_until - first)),
        "slowdown": fmean(
            max(1.0, jct / max(10, s.end_s - s.start_s)) for jct, s in zip(jcts, spans, strict=True)
        ),
    }
