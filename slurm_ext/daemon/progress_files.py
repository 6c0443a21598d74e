"""Progress of the running annotated jobs, read beside the cycles: no file makes a cycle wait.

The directories are in users' hands and may hang (a file server that is gone). So a thread of its
own reads, the cycle takes what is there, and a thread that hangs is left behind with its job.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.progress import Progress

from .config_sections import ProgressConfig
from .progress import read_progress

log = logging.getLogger(__name__)

OWN_DIRECTORY = ".slurm_ext"
HANGS_S = 20.0
MOST_HANGING = 4
"""With so many threads that hang nothing more is read until one of them comes back."""

WAIT_S = 0.2
"""How long a cycle waits for what it has asked for."""


class _Wish(NamedTuple):
    key: JobKey
    uid: int
    directories: tuple[Path, ...]


@dataclass(slots=True)
class _Thread:
    """One reader and what it is busy with."""

    busy_with: JobKey | None = None
    since_s: float = 0.0
    left: bool = False


@dataclass(slots=True)
class ProgressFiles:
    """Remembers what each running job told last."""

    _known: dict[JobKey, Progress] = field(default_factory=dict)
    _asked_s: dict[JobKey, float] = field(default_factory=dict)
    _wishes: queue.SimpleQueue[_Wish] = field(default_factory=queue.SimpleQueue)
    _found: queue.SimpleQueue[tuple[JobKey, Progress]] = field(default_factory=queue.SimpleQueue)
    _thread: _Thread | None = None
    _hanging: list[_Thread] = field(default_factory=list)
    _open: set[JobKey] = field(default_factory=set)

    def read(
        self,
        jobs: Iterable[Job],
        workdirs: Mapping[int, str],
        config: ProgressConfig,
        urgent: Iterable[int] = (),
    ) -> Mapping[JobKey, Progress]:
        """What these running jobs have told so far; ``urgent`` job ids are read anew each time.

        At most ``config.max_files`` are asked for, those read longest ago first. Waits for
        0.2 s at most; what comes later is there the next time.
        """
        now_s, first = time.monotonic(), set(urgent)
        jobs = list(jobs)
        here = {job.key for job in jobs}
        self._known = {key: p for key, p in self._known.items() if key in here}
        self._asked_s = {key: s for key, s in self._asked_s.items() if key in here}
        due = [
            job for job in jobs
            if job.key not in self._open and (
                job.job_id in first
                or now_s - self._asked_s.get(job.key, -config.interval_s) >= config.interval_s
            )
        ]  # fmt: skip
        due.sort(key=lambda j: (j.job_id not in first, self._asked_s.get(j.key, 0.0), j.key))
        asked = 0
        reads = bool(due or self._open) and self._reader(now_s)
        for job in due[: config.max_files]:
            directories = _directories(config, workdirs.get(job.job_id, ""))
            if directories and reads:
                self._wishes.put(_Wish(job.key, job.uid, directories))
                self._open.add(job.key)
                self._asked_s[job.key] = now_s
                asked += 1
        self._collect(asked, here)
        return dict(self._known)

    def _collect(self, asked: int, here: set[JobKey]) -> None:
        """Take what has been read; wait a little for what was asked for now."""
        until_s = time.monotonic() + (WAIT_S if asked else 0.0)
        while self._open:
            try:
                key, found = self._found.get(timeout=max(0.0, until_s - time.monotonic()))
            except queue.Empty:
                break
            self._open.discard(key)
            if key in here:
                self._known[key] = found

    def _reader(self, now_s: float) -> bool:
        """Whether somebody reads; a thread that hangs is replaced by a new one."""
        self._hanging = [one for one in self._hanging if one.busy_with is not None]
        thread = self._thread
        if thread is not None and thread.busy_with is not None and (
            now_s - thread.since_s > HANGS_S
        ):  # fmt: skip
            log.warning("reading the progress of job %d hangs", thread.busy_with.job_id)
            thread.left = True
            self._hanging.append(thread)
            self._thread = thread = None
        if thread is None:
            if len(self._hanging) >= MOST_HANGING:
                return False
            self._thread = thread = _Thread()
            threading.Thread(
                target=self._work, args=(thread,), daemon=True, name="progress"
            ).start()
        return True

    def _work(self, me: _Thread) -> None:
        while not me.left:
            wish = self._wishes.get()
            me.since_s, me.busy_with = time.monotonic(), wish.key
            found = Progress()
            for directory in wish.directories:
                found = read_progress(directory, wish.key.job_id, wish.uid)
                if found.reports:
                    break
            self._found.put((wish.key, found))
            me.busy_with = None


def _directories(config: ProgressConfig, workdir: str) -> tuple[Path, ...]:
    found = [Path(config.spool_dir)] if config.spool_dir else []
    if config.workdir and os.path.isabs(workdir) and "\0" not in workdir:
        found.append(Path(workdir, OWN_DIRECTORY))
    return tuple(found)
