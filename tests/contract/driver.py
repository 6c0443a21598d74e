"""A real mini-Slurm as its users see it: submit, wait, clean up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping

from slurm_ext.model.job import Job
from slurm_ext.model.observation import Observation
from slurm_ext.slurm.port import SlurmPort
from tests.live import wait_until


class Driver:
    """Users' commands against one cluster (environment variables ``env``)."""

    cluster = "contract"

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", **env}

    def run(self, *argv: str, check: bool = True) -> str:
        done = subprocess.run(
            argv, env=self.env, cwd="/tmp", capture_output=True, timeout=60, check=False
        )
        output = (done.stdout + done.stderr).decode("utf-8", "surrogateescape")
        assert not check or done.returncode == 0, f"{argv}: {done.returncode}: {output[:500]}"
        return done.stdout.decode("utf-8", "surrogateescape")

    def submit(self, *options: str, script: str = "exec sleep 600") -> int:
        """``sbatch``; one hour and 10 MiB unless told otherwise."""
        memory = [] if any(option.startswith("--mem") for option in options) else ["--mem=10"]
        argv = ["sbatch", "--parsable", "-o", "/dev/null", "-t", "60", *memory, *options]
        return int(self.run(*argv, "--wrap", script).split(";")[0])

    def fill(self) -> None:
        """Jobs that take every CPU of every node, so that whatever comes next waits."""
        count = self.run("sinfo", "-h", "-o", "%D").split()[0]
        filler = self.submit(f"-N{count}", "--exclusive", "-J", "filler")

        def state() -> str:
            return self.run("squeue", "-h", "-j", str(filler), "-o", "%T").strip()

        wait_until(state, lambda seen: seen == "RUNNING", 30, "the filler runs")

    def clean(self) -> None:
        """No jobs, no reservations, all nodes idle."""

        def left() -> str:
            self.run("scancel", "-u", "root", check=False)
            for line in self.run("scontrol", "-o", "show", "reservation").splitlines():
                if line.startswith("ReservationName="):
                    self.run("scontrol", "delete", line.split()[0], check=False)
            busy = self.run("squeue", "-h", "-a", "-o", "%A")
            states = set(self.run("sinfo", "-h", "-o", "%T").split())
            return busy + " ".join(states - {"idle"})

        wait_until(left, lambda rest: not rest.strip(), 60, "an empty cluster")


def job(port: SlurmPort, job_id: int) -> Job:
    """The record with this id (of an array: the one that keeps the array's number)."""
    return next(one for one in port.observe().jobs if one.job_id == job_id)


def wait_job(port: SlurmPort, job_id: int, good: Callable[[Job], bool], what: str) -> Job:
    return wait_until(lambda: job(port, job_id), good, 30, f"job {job_id} {what}")


def settled(port: SlurmPort) -> Observation:
    """A look without problems (two reads of a moment may differ by a job that just started)."""
    return wait_until(port.observe, lambda seen: not seen.problems, 10, "a look without problems")
