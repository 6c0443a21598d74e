"""Reads the progress files of jobs. Their content, type and place are in the users' hands.

A file counts only if it is a plain file of the job's own user; links are not followed, nothing
is waited for, and only the end of a long file is read.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_ext.model.progress import Progress, Report

MAX_READ = 256 << 10
MAX_LINE = 4096
MAX_REPORTS = 2000
FORMAT = 1
_LARGEST = 1e15


def read_progress(directory: Path, job_id: int, uid: int) -> Progress:
    """The newest reports of a job; never raises.

    ``uid``: owner of the job. At most the last 256 KiB and 2,000 reports.
    """
    try:
        data, whole = _read(directory, f"{job_id}.jsonl", uid)
    except FileNotFoundError:
        return Progress()
    except OSError as error:
        return Progress(problem=error.strerror or "cannot be read")
    lines = data.split(b"\n")[:-1]  # what follows the last line end is still being written
    if not whole:
        lines = lines[1:]
    found = [_report(line) for line in lines[-MAX_REPORTS:]]
    reports = tuple(report for report in found if report is not None)
    return Progress(reports, len(found) - len(reports))


def _read(directory: Path, name: str, uid: int) -> tuple[bytes, bool]:
    """The end of the file, and whether that is all of it.

    :raises OSError: missing, or not a plain file of that user.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        descriptor = os.open(name, flags, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(0, "not a plain file")
        if about.st_uid != uid:
            raise OSError(0, f"belongs to uid {about.st_uid}, the job to uid {uid}")
        start = max(0, about.st_size - MAX_READ)
        return os.pread(descriptor, MAX_READ, start), start == 0
    finally:
        os.close(descriptor)


def _report(line: bytes) -> Report | None:
    """One line, or None if it is not a report of this format."""
    if len(line) > MAX_LINE:
        return None
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("v") != FORMAT:
        return None
    at_s, step = _number(data, "t"), _number(data, "step")
    if at_s is None or step is None or data.get("event") not in ("progress", "checkpoint"):
        return None
    batch_size = _number(data, "batch_size")
    return Report(
        at_s=at_s,
        run=int(_number(data, "run") or 0),
        step=step,
        checkpoint=data["event"] == "checkpoint",
        gpus=int(_number(data, "gpus") or 0),
        samples_per_s=_number(data, "samples_per_s"),
        loss=_number(data, "loss", lowest=-_LARGEST),
        batch_size=None if batch_size is None else int(batch_size),
    )


def _number(data: Mapping[str, Any], key: str, lowest: float = 0.0) -> float | None:
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and abs(value) > _LARGEST:
        return None
    return float(value) if math.isfinite(value) and lowest <= value <= _LARGEST else None
