"""A real mini-Slurm as its users see it, and a real daemon beside it."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from minislurm import Cluster, Spec

from slurm_ext.daemon.client import ask
from slurm_ext.errors import SlurmExtError
from slurm_ext.slurm.text import parse_rpc_counts
from tests.live import booted, script_of, wait_for

REPOSITORY = Path(__file__).resolve().parents[2]
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"}
Row = dict[str, Any]


@contextmanager
def running(spec: Spec) -> Iterator[Slurm]:
    """A cluster of its own for a test, a module or a session."""
    with booted(spec) as cluster:
        yield Slurm(cluster)


class Slurm:
    """Client commands against one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        path = os.environ.get("PATH", "/usr/bin:/bin")
        self.env = {"PATH": path, "LC_ALL": "C", **cluster.env}

    def run(
        self, *argv: str, user: str = "", check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            as_user(argv, user),
            env=self.env,
            cwd="/tmp",
            text=True,
            errors="surrogateescape",
            capture_output=True,
            timeout=60,
            input=stdin,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{argv}: {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def popen(self, *argv: str) -> subprocess.Popen[bytes]:
        """A command that goes on beside the test; its output is lost."""
        null = subprocess.DEVNULL
        return subprocess.Popen(argv, env=self.env, cwd="/tmp", stdout=null, stderr=null)

    def submit(
        self, *options: str, run_s: float = 1, until: Path | None = None, user: str = "",
        script: str = "",
    ) -> int:  # fmt: skip
        """``sbatch``; returns the job id. One task, a minute's limit unless told otherwise.

        It runs ``run_s``, or until the file ``until`` appears, or does what ``script`` says.
        """
        argv = ["sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp", "--time=1", *options]
        if script:
            return int(self.run(*argv, user=user, stdin=script).stdout)
        return int(self.run(*argv, f"--wrap={script_of(run_s, until)}", user=user).stdout)

    def update(self, job: int | str, **values: object) -> None:
        words = [f"{key}={value}" for key, value in values.items()]
        self.run("scontrol", "update", f"JobId={job}", *words)

    def show(self, job: int | str, *keys: str) -> dict[str, str]:
        """Fields of ``scontrol show job``; for an array, of the record it prints first."""
        text = self.run("scontrol", "-d", "show", "job", str(job)).stdout.split("\n\n")[0]
        wanted = keys or (
            "JobState", "Reason", "Priority", "EligibleTime", "StartTime", "ReqNodeList",
            "ExcNodeList", "NodeList", "AdminComment", "Comment",
        )  # fmt: skip
        return {key: field(text, key) for key in wanted}

    def queue(self, jobs: Sequence[int] = ()) -> dict[str, Row]:
        """Address (``7`` or ``7_2``) -> state, reason, start, nodes; of all jobs ever kept."""
        argv = ["squeue", "-h", "-r", "-a", "-t", "all", "-o", "%i|%F|%T|%r|%S|%N|%p|%C"]
        found = {}
        for line in self.run(*argv).stdout.splitlines():
            address, job, state, reason, start, nodes, priority, cpus = line.split("|")
            if jobs and not {job, address.split("+")[0]} & set(map(str, jobs)):
                continue
            found[address] = {
                "state": state, "reason": reason, "start": start, "nodes": nodes,
                "priority": float(priority), "cpus": int(cpus),
            }  # fmt: skip
        return found

    def states(self, jobs: Sequence[int] = ()) -> dict[str, str]:
        return {address: row["state"] for address, row in self.queue(jobs).items()}

    def wait_state(self, jobs: Sequence[int], states: set[str], deadline_s: float) -> None:
        def reached() -> bool:
            seen = self.states(jobs)
            return bool(seen) and all(state in states for state in seen.values())

        wait_for(reached, deadline_s, f"{jobs} in {states}", lambda: self.describe(jobs))

    def wait_ended(self, jobs: Sequence[int], deadline_s: float) -> dict[str, str]:
        self.wait_state(jobs, ENDED, deadline_s)
        return self.states(jobs)

    def wait_completed(self, jobs: Sequence[int], deadline_s: float) -> None:
        states = self.wait_ended(jobs, deadline_s)
        assert set(states.values()) == {"COMPLETED"}, states

    def held(self) -> list[str]:
        """Addresses of pending jobs with priority 0 or a hold reason."""
        return [
            address
            for address, row in self.queue().items()
            if row["state"] == "PENDING" and (row["priority"] == 0 or "Held" in row["reason"])
        ]

    def marked(self) -> list[int]:
        """Jobs that have not ended and carry our undo note (a lease, a hold or a pin stands)."""
        argv = ("squeue", "-h", "-r", "-a", "-O", "jobid:12,admin_comment:300")
        lines = self.run(*argv).stdout.splitlines()
        return [int(line[:12]) for line in lines if "[slurm_ext" in line]

    def describe(self, jobs: Sequence[int] = ()) -> str:
        lines = [self.run("sinfo", "-N", "-h", "-o", "%N %T %C %G").stdout]
        show = ("scontrol", "-d", "show", "job")
        lines += [self.run(*show, str(job), check=False).stdout for job in jobs]
        return "\n".join(lines)[:12000]

    def node_states(self) -> dict[str, str]:
        lines = self.run("sinfo", "-N", "-h", "-o", "%N %T").stdout.splitlines()
        return dict(line.split() for line in lines)

    def rpc_counts(self) -> Mapping[str, int]:
        return parse_rpc_counts(self.run("sdiag").stdout)

    def clean(self, deadline_s: float = 60.0) -> None:
        """No jobs, no reservations, all nodes idle."""
        for line in self.run("scontrol", "-o", "show", "reservation").stdout.splitlines():
            name = field(line, "ReservationName")
            if name:
                # A reservation in use cannot go: its jobs first.
                self._cancel_all()
                wait_for(
                    lambda n=name: not self.run(
                        "scontrol", "delete", f"ReservationName={n}", check=False
                    ).returncode,
                    deadline_s, f"reservation {name} deleted",
                )  # fmt: skip

        def clean() -> bool:
            ids = self._cancel_all()
            nodes = self.node_states()
            for name, state in nodes.items():
                if state.rstrip("*") not in ("idle", "completing", "allocated", "mixed"):
                    self.run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)
            return not ids and set(nodes.values()) == {"idle"}

        wait_for(clean, deadline_s, "the cluster is clean", self.describe)

    def _cancel_all(self) -> list[str]:
        ids = self.run("squeue", "-h", "-a", "-o", "%A").stdout.split()
        if ids:
            self.run("scancel", *sorted(set(ids)), check=False)
        return ids


def field(text: str, key: str) -> str:
    found = re.search(rf"(?:^|\s){re.escape(key)}=(\S*)", text)
    return found.group(1) if found else ""


def slurm_ext(user: str) -> list[str]:
    """How ``user`` starts our command line; skips the test if no Python is open to that account."""
    if not user:
        return [str(Path(sys.executable).with_name("slurm-ext"))]
    site = ":".join([str(REPOSITORY), *(p for p in sys.path if p.endswith("site-packages"))])
    for python in (sys.executable, "/usr/bin/python3"):
        argv = ["env", f"PYTHONPATH={site}", python, "-m", "slurm_ext.cli.main"]
        done = subprocess.run(
            as_user([*argv, "--version"], user), capture_output=True, cwd="/tmp", check=False
        )
        if done.returncode == 0:
            return argv
    pytest.skip(f"the account {user} cannot execute this Python ({sys.executable})")


def as_user(argv: Sequence[str], user: str) -> list[str]:
    return [*(("runuser", "-u", user, "--") if user else ()), *argv]


class Daemon:
    """``slurm-ext serve`` with a configuration and state of its own."""

    def __init__(self, slurm: Slurm, directory: Path, user: str = "", **settings: object) -> None:
        """``settings``: ``mode="order"``, ``policy__name="sjf"`` for ``[policy] name``."""
        self.slurm, self.directory, self.user = slurm, directory, user
        self.program = slurm_ext(user)
        self.config_path = directory / "slurm_ext.toml"
        self.run_dir = directory / "run"
        self.journal_path = directory / "state" / "journal.db"
        self.log_path = directory / "daemon.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.settings: dict[str, object] = {
            "mode": "enforce",
            "cycle__interval_s": 1,
            "cycle__min_interval_s": 0.2,
            "levers__lease_s": 30,
            "state__dir": str(directory / "state"),
            "state__run_dir": str(self.run_dir),
            "log__level": "info",
        } | settings
        directory.mkdir(parents=True, exist_ok=True)
        self.write_config()

    def write_config(self, **changes: object) -> None:
        self.settings |= changes
        top, sections = [], {}
        for dotted, value in self.settings.items():
            *section, key = dotted.split("__")  # a.b.key as a__b__key
            line = f"{key} = {json.dumps(value)}"
            if section:
                sections.setdefault(".".join(section), []).append(line)
            else:
                top.append(line)
        lines = top
        for name, body in sections.items():
            lines += [f"[{name}]", *body]
        self.config_path.write_text("\n".join(lines) + "\n")

    def command(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Another ``slurm-ext`` verb with the same configuration."""
        done = subprocess.run(
            as_user([*self.program, *argv, "--config", str(self.config_path)], self.user),
            env=self.slurm.env, cwd="/tmp", text=True, errors="surrogateescape",
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        if check and done.returncode:
            raise AssertionError(f"{argv}: {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def start(self) -> Daemon:
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                as_user(
                    [*self.program, "serve", "--config", str(self.config_path)], self.user
                ),
                env=self.slurm.env, cwd="/tmp", stdout=log, stderr=log,
            )  # fmt: skip
        before = self.cycle()
        wait_for(
            lambda: self.healthy() and self.cycle() > before, 20, "a first good cycle", self.log
        )
        return self

    def __enter__(self) -> Daemon:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()

    def stop(self, signum: int = signal.SIGTERM) -> int:
        """End it; the exit code."""
        assert self.process is not None
        self.signal(signum)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"did not end on signal {signum}\n{self.log()}") from None

    def signal(self, signum: int) -> None:
        assert self.process is not None
        pid = self.process.pid
        if self.user:  # runuser passes signals on only partly: name its child
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            pid = int(children[0]) if children else pid
        os.kill(pid, signum)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")[-6000:] if self.log_path.exists() else ""

    def healthy(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            raise AssertionError(f"daemon ended: {self.process.returncode}\n{self.log()}")
        try:
            return bool(ask(self.run_dir, "/healthz").get("failure", 1) is None)
        except SlurmExtError:
            return False

    def status(self) -> Row:
        return dict(ask(self.run_dir, "/v1/status"))

    def decisions(self) -> dict[str, Row]:
        return {job["id"]: job for job in self.status().get("jobs", [])}

    def cycle(self) -> int:
        rows = self.rows("SELECT coalesce(max(cycle), 0) AS n FROM cycle WHERE error = ''")
        return int(rows[0]["n"]) if rows else 0

    def wait_cycles(self, count: int, deadline_s: float = 30) -> None:
        before = self.cycle()
        wait_for(lambda: self.cycle() >= before + count, deadline_s, f"{count} cycles", self.log)

    def wait_seen(self, jobs: Sequence[int], deadline_s: float = 20) -> None:
        """Until a cycle has decided on all these jobs."""
        wanted = set(jobs)
        wait_for(
            lambda: wanted <= {row["job_id"] for row in self.rows("SELECT job_id FROM history")},
            deadline_s, f"decisions on {jobs}", self.log,
        )  # fmt: skip

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """Rows of the journal, read beside the daemon."""
        if not self.journal_path.exists():
            return []
        db = sqlite3.connect(f"file:{self.journal_path}?mode=ro", uri=True, timeout=10)
        db.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in db.execute(sql, values)]
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):  # being created
                return []
            raise
        finally:
            db.close()

    def actions(self, *jobs: int) -> list[Row]:
        rows = self.rows("SELECT * FROM action ORDER BY id")
        for row in rows:
            row["patch"] = json.loads(row["patch"])
        return [row for row in rows if not jobs or row["job_id"] in jobs]

    def starts(self, *jobs: int) -> list[Row]:
        rows = self.rows("SELECT * FROM start ORDER BY id")
        return [row for row in rows if not jobs or row["job_id"] in jobs]

    def errors(self) -> list[Row]:
        return [row for row in self.actions() if row["state"] in ("error", "lost")]


def share_line(starts: Sequence[Row]) -> str:
    """One line for the report: how many starts were on the planned nodes, the others by reason."""
    same = sum(row["same_nodes"] for row in starts)
    why: dict[str, int] = {}
    for row in starts:
        if not row["same_nodes"]:
            why[row["why"]] = why.get(row["why"], 0) + 1
    return f"{same}/{len(starts)} on the planned nodes; others: {why or 'none'}"
