"""Tells the scheduler how a training gets on: one JSON line per report, in a plain file.

Standard library only; it may be copied beside a training script as a single file (Python 3.7 or
newer). Nothing in here ever raises into the training: a report that cannot be written is lost.

    from slurm_ext.report import Reporter
    reporter = Reporter()
    reporter.progress(step, samples_per_s=812.0, loss=0.31, batch_size=256)
    reporter.checkpoint(step)

From a shell: ``python3 -m slurm_ext.report --step 1200 --loss 0.31``, ``--checkpoint`` after one.

The file is ``JOBID.jsonl`` in the directory SLURM_EXT_SPOOL names, else in ``.slurm_ext`` of the
directory the job was submitted from. Format and reader: docs/annotations.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time

FORMAT = 1
MAX_FILE = 1 << 20
"""Bytes; a longer file is cut to its newer half."""
MAX_LINE = 512
"""Bytes of one line with its end; every line this module writes is shorter."""
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def default_directory() -> str:
    """Where this job's file goes."""
    spool = os.environ.get("SLURM_EXT_SPOOL", "")
    return spool or os.path.join(os.environ.get("SLURM_SUBMIT_DIR", "."), ".slurm_ext")


def allocated_gpus() -> int:
    """GPUs of the whole job as Slurm says it in the environment; 0 if it does not."""
    try:
        on_node = int(os.environ.get("SLURM_GPUS_ON_NODE", "0"))
        return on_node * int(os.environ.get("SLURM_JOB_NUM_NODES", "1"))
    except ValueError:
        return 0


class Reporter:
    """Appends reports to the job's file; does nothing outside of a job and in all ranks but 0.

    ``min_interval_s``: progress that follows sooner is dropped (checkpoints never are).
    """

    def __init__(self, directory: str = "", min_interval_s: float = 5.0) -> None:
        self.path = ""
        self._min_interval_s = min_interval_s
        self._last: float | None = None
        rank = next((os.environ[name] for name in _RANKS if name in os.environ), "0")
        job = os.environ.get("SLURM_JOB_ID", "")
        if rank == "0" and job.isdigit():
            self.path = os.path.join(directory or default_directory(), job + ".jsonl")

    def progress(
        self,
        step: float,
        samples_per_s: float | None = None,
        loss: float | None = None,
        batch_size: int | None = None,
        gpus: int | None = None,
    ) -> bool:
        """``step``: units of work done in all, as the annotation ``work`` counts them.

        ``batch_size``: samples per step of the whole job. ``gpus``: default as allocated.
        Whether it was written.
        """
        now = time.monotonic()
        if self._last is not None and now - self._last < self._min_interval_s:
            return False
        self._last = now
        return self._write("progress", step, samples_per_s, loss, batch_size, gpus)

    def checkpoint(self, step: float, gpus: int | None = None) -> bool:
        """The state at ``step`` is safe on disk: it is also the answer to the checkpoint signal."""
        return self._write("checkpoint", step, None, None, None, gpus)

    def _write(
        self,
        event: str,
        step: float,
        samples_per_s: float | None,
        loss: float | None,
        batch_size: int | None,
        gpus: int | None,
    ) -> bool:
        if not self.path:
            return False
        try:
            record = {
                "v": FORMAT,
                "t": round(time.time(), 3),
                "run": int(os.environ.get("SLURM_RESTART_COUNT", "0")),
                "event": event,
                "step": step,
                "gpus": allocated_gpus() if gpus is None else int(gpus),
                "samples_per_s": samples_per_s,
                "loss": loss,
                "batch_size": batch_size,
            }
            _append(self.path, {key: v for key, v in record.items() if _usable(v)})
        except Exception:
            return False
        return True


def _usable(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is not None


def _append(path: str, record: dict[str, object]) -> None:
    line = (json.dumps(record, separators=(",", ":"), default=float) + "\n").encode()
    if len(line) > MAX_LINE:
        raise ValueError("too long")
    os.makedirs(os.path.dirname(path) or ".", mode=0o755, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    try:
        if os.fstat(descriptor).st_size + len(line) > MAX_FILE:
            _halve(path)
            os.close(descriptor)
            descriptor = os.open(path, flags, 0o644)
        os.write(descriptor, line)  # one write in append mode: whole lines only
    finally:
        os.close(descriptor)


def _halve(path: str) -> None:
    """Only the newer half stays; a reader sees the old file or the new one."""
    with open(path, "rb") as file:
        file.seek(-(MAX_FILE // 2), os.SEEK_END)
        kept = file.read().partition(b"\n")[2]
    fresh = path + ".new"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
    try:
        os.write(descriptor, kept)
    finally:
        os.close(descriptor)
    os.replace(fresh, path)


def main() -> int:
    """One report from the command line; exit code 0 even if it could not be written."""
    parser = argparse.ArgumentParser(prog="python3 -m slurm_ext.report", description=main.__doc__)
    parser.add_argument("--step", type=float, required=True, help="units of work done in all")
    parser.add_argument("--checkpoint", action="store_true", help="the state is safe on disk")
    parser.add_argument("--samples-per-s", type=float)
    parser.add_argument("--loss", type=float)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--gpus", type=int, help="default: as Slurm allocated them")
    parser.add_argument("--directory", default="", help="default: see the module's description")
    args = parser.parse_args()
    reporter = Reporter(args.directory)
    if args.checkpoint:
        written = reporter.checkpoint(args.step, args.gpus)
    else:
        written = reporter.progress(
            args.step, args.samples_per_s, args.loss, args.batch_size, args.gpus
        )
    if not written:
        print("slurm_ext.report: not written (outside of a job, or no room)", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
