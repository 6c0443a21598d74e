"""What a job shows before it runs, folded so that repeated work is recognised."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from slurm_ext.accounting.record import ANNOTATION_MARK, Attempt
from slurm_ext.annotate.check import understand
from slurm_ext.model.job import Job

_FOLDS = (
    # Longest first: a date or hash must not be eaten digit by digit.
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "#"),
    (re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"), "#"),
    (re.compile(r"(?<=[_\W])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}(?=[_\W]|$)"), "#"),
    (re.compile(r"\d+(?:[.:t-]\d+)*"), "#"),
)
_LONGEST = 120
KEY_BITS = 52
"""Hashes stay exact in the float64 columns of the samples."""


class Features(NamedTuple):
    """One request: what two jobs are compared by. ``gpus`` 0 for a job without GPUs.

    ``family``, ``work`` (steps or epochs, 0: not known) as the annotation declares them.
    """

    user: str
    account: str = ""
    partition: str = ""
    qos: str = ""
    stem: str = ""
    gpus: int = 0
    cpus: int = 0
    gpu_type: str = ""
    limit_s: int | None = None
    family: str = ""
    work: float = 0.0

    @property
    def kind(self) -> str:
        """What work it is: the name stem, and the model family where one is declared."""
        return f"{self.stem}\n{self.family}" if self.family else self.stem

    @property
    def size(self) -> float:
        """GPUs, or CPUs as a negative number for a job without."""
        return float(self.gpus) if self.gpus else -float(self.cpus)

    @property
    def place(self) -> str:
        """Where it may run: speed differs there."""
        return f"{self.partition}\n{self.qos}\n{self.gpu_type}"


@lru_cache(maxsize=65536)
def stem(name: str) -> str:
    """A job name with its numbers, dates and hashes folded: ``bert-lr0.1_0421`` -> ``bert-lr#_#``.

    Case is kept out of it; names of digits only fold to ``#``.
    """
    folded = name[:_LONGEST].lower()
    for pattern, mark in _FOLDS:
        folded = pattern.sub(mark, folded)
    return folded


def of_attempt(attempt: Attempt) -> Features:
    """The request of an attempt of the past."""
    return Features(
        attempt.user, attempt.account, attempt.partition, attempt.qos, stem(attempt.name),
        attempt.gpus_req, attempt.cpus_req, attempt.gpu_type, attempt.limit_s,
        *_declared(attempt.annotation),
    )  # fmt: skip


def of_job(job: Job) -> Features:
    """The request of a job in the queue (several partitions: the first, as it will be recorded)."""
    return Features(
        job.user, job.account, job.partitions[0] if job.partitions else "", job.qos,
        stem(job.name), job.request.gpus, job.request.cpus, job.request.gpu_type, job.limit_s,
        *_declared(job.comment),
    )  # fmt: skip


def _declared(comment: str) -> tuple[str, float]:
    return _understood(comment) if ANNOTATION_MARK in comment else ("", 0.0)


@lru_cache(maxsize=8192)
def _understood(comment: str) -> tuple[str, float]:
    found = understand(comment).annotation
    return ("", 0.0) if found is None else (found.family, found.work)


@lru_cache(maxsize=65536)
def key(text: str) -> float:
    """A number for a text, the same in every process; 0 for the empty text."""
    if not text:
        return 0.0
    digest = blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return float(int.from_bytes(digest) >> (64 - KEY_BITS))
