"""The fitted form of what was learnt: one ``.npz`` file, numpy arrays and a JSON head.

Written to a temporary file and renamed, so that a reader sees the old or the new one, whole.
Loading never unpickles. A file that is damaged, of another form, of another cluster, stale or from
the future is refused with a reason: then the daemon plans on limits.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slurm_ext.accounting.features import Features
from slurm_ext.accounting.predict import COLUMNS, Samples, Settings, estimate
from slurm_ext.accounting.weighted import Floats
from slurm_ext.errors import SlurmExtError
from slurm_ext.files import read_up_to
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.units import EpochS
from slurm_ext.slurm.run import escape

FORM = "slurm_ext durations"
VERSION = 2
CUT_SHORT = ("job_id", "submit_s", "run_s", "gpu_s", "user")
"""Columns of attempts that were requeued or preempted; ``user`` as :func:`features.key`."""
MAX_AGE_S = 14 * 86400
MAX_BYTES = 1 << 30
FILE_MODE = 0o640
_DAMAGE = (
    OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error,
    NotImplementedError, RuntimeError, MemoryError,
)  # fmt: skip
"""What reading a damaged archive raises: bad headers, sizes, compression, encryption flags."""
_NONE_CUT: Floats = np.empty((0, len(CUT_SHORT)))


class ArtefactError(SlurmExtError):
    """The artefact must not be used; the message says why."""

    exit_code = 8


@dataclass(frozen=True, slots=True)
class Head:
    """What a fit was made of; times in epoch seconds.

    ``coverage`` of the last week before the fit: share of run times within p10 to p90 as predicted
    at their submit (.8 is right), None with fewer than 20 jobs; ``judged`` their number;
    ``ea`` likewise.
    """

    cluster: str
    fitted_s: EpochS
    last_end_s: EpochS
    attempts: int
    coverage: float | None
    ea: float | None
    judged: int
    settings: Settings


class Durations:
    """A loaded artefact; immutable, safe to share between threads.

    ``cut_short``: attempts that were cut short and may go on, columns as in :data:`CUT_SHORT`.
    """

    def __init__(self, head: Head, arrays: Mapping[str, Floats], names: Mapping[str, Any]) -> None:
        self.head, self.cut_short = head, arrays["cut_short"]
        self._rows = {kind: arrays[f"{kind}_rows"] for kind in ("user", "account", "site")}
        self._spans = {
            kind: {
                name: (int(begin), int(end))
                for name, begin, end in zip(names[kind], bounds[:-1], bounds[1:], strict=True)
            }
            for kind, bounds in (
                (kind, arrays[f"{kind}_bounds"].astype(np.int64)) for kind in ("user", "account")
            )
        }

    def estimate(self, job: Features, elapsed_s: float = 0.0) -> Estimate | None:
        """Run time in all (seconds) of a job that has run for ``elapsed_s``; None: nothing known.

        0.1 to 0.5 ms: equal requests with an equal time run may share it.
        """
        return estimate(
            self.head.settings, job, elapsed_s,
            self._of("user", job.user), self._of("account", job.account), self._rows["site"],
        )  # fmt: skip

    def _of(self, kind: str, name: str) -> Floats:
        begin, end = self._spans[kind].get(name, (0, 0))
        return self._rows[kind][begin:end]


def save(path: Path, samples: Samples, head: Head, cut_short: Floats = _NONE_CUT) -> None:
    """Write atomically; the old file stays if anything goes wrong.

    :raises ArtefactError: the directory cannot be written.
    """
    arrays, names = _flat(samples)
    arrays["cut_short"] = cut_short
    meta = {
        "form": FORM, "version": VERSION, "names": names, "sha256": _digest(arrays),
        "head": asdict(head),
    }  # fmt: skip
    data = io.BytesIO()
    encoded = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    np.savez_compressed(data, allow_pickle=False, meta=encoded, **arrays)
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, FILE_MODE)
            file.write(data.getbuffer())
            file.flush()
            os.fsync(handle)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            with suppress(OSError):
                os.unlink(temporary)
        raise ArtefactError(f"{escape(str(path))}: cannot be written: {error}") from error


def load(path: Path, now_s: EpochS, *, cluster: str = "", max_age_s: int = MAX_AGE_S) -> Durations:
    """:func:`read` and :func:`check` in one."""
    made = read(path)
    check(path, made.head, now_s, cluster=cluster, max_age_s=max_age_s)
    return made


def read(path: Path) -> Durations:
    """Load what :func:`save` wrote, however old.

    :raises ArtefactError: missing, damaged, unknown form or version.
    """
    shown = escape(str(path))
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ArtefactError(f"{shown}: larger than {MAX_BYTES >> 20} MiB")
        # From memory: numpy leaves the file open when the archive is broken.
        with np.load(io.BytesIO(read_up_to(path, MAX_BYTES)), allow_pickle=False) as stored:
            meta = json.loads(bytes(stored["meta"]))
            if not isinstance(meta, dict) or meta.get("form") != FORM:
                raise ArtefactError(f"{shown}: is not a fit of durations")
            if meta["version"] != VERSION:
                raise ArtefactError(
                    f"{shown}: has form version {meta['version']}, this program knows {VERSION}; "
                    "run `slurm-ext history fit`"
                )
            arrays = {name: stored[name] for name in stored.files if name != "meta"}
        if meta["sha256"] != _digest(arrays):
            raise ArtefactError(f"{shown}: is damaged (checksum)")
        _check_shapes(arrays, meta["names"])
        head = Head(**{**meta["head"], "settings": Settings(**meta["head"]["settings"])})
        made = Durations(head, arrays, meta["names"])
    except FileNotFoundError as error:
        raise ArtefactError(f"{shown}: missing; run `slurm-ext history fit`") from error
    except _DAMAGE as error:
        raise ArtefactError(f"{shown}: cannot be used: {escape(str(error))}") from error
    return made


def check(
    path: Path, head: Head, now_s: EpochS, *, cluster: str = "", max_age_s: int = MAX_AGE_S
) -> None:
    """Refuse what must not be used now.

    :raises ArtefactError: stale, from the future, or of another cluster (``cluster`` empty: any).
    """
    shown = escape(str(path))
    age_s = now_s - head.fitted_s
    if age_s > max_age_s:
        raise ArtefactError(
            f"{shown}: was fitted {age_s // 86400} days ago, at most {max_age_s // 86400} are "
            "allowed; run `slurm-ext history sync` and `history fit`"
        )
    if age_s < -3600:
        raise ArtefactError(f"{shown}: was fitted {-age_s} s in the future; check the clock")
    if cluster and head.cluster and head.cluster != cluster:
        raise ArtefactError(
            f"{shown}: is of cluster {escape(head.cluster)}, this is {escape(cluster)}; "
            "fit it from this cluster's accounting"
        )


def _check_shapes(arrays: Mapping[str, Floats], names: Mapping[str, Any]) -> None:
    cut = arrays["cut_short"]
    if cut.ndim != 2 or cut.shape[1] != len(CUT_SHORT) or not np.isfinite(cut).all():
        raise ValueError("attempts cut short of the wrong shape")
    for kind in ("user", "account", "site"):
        rows = arrays[f"{kind}_rows"]
        if rows.ndim != 2 or rows.shape[1] != COLUMNS or not np.isfinite(rows).all():
            raise ValueError(f"{kind} samples of the wrong shape")
        if len(rows) and rows[:, 0].min() <= 0:
            raise ValueError(f"{kind} samples without run time")
        if kind == "site":
            continue
        bounds = arrays[f"{kind}_bounds"]
        if len(bounds) != len(names[kind]) + 1 or bounds[-1] != len(rows) or bounds[0] != 0:
            raise ValueError(f"{kind} bounds do not match")
        if (np.diff(bounds) < 0).any():
            raise ValueError(f"{kind} bounds do not ascend")


def _flat(samples: Samples) -> tuple[dict[str, Floats], dict[str, list[str]]]:
    arrays: dict[str, Floats] = {"site_rows": samples.site.newest().copy()}
    names: dict[str, list[str]] = {}
    for kind, rings in (("user", samples.users), ("account", samples.accounts)):
        names[kind] = list(rings)
        parts = [ring.newest() for ring in rings.values()]
        arrays[f"{kind}_rows"] = np.concatenate([np.empty((0, COLUMNS)), *parts])
        arrays[f"{kind}_bounds"] = np.cumsum([0, *map(len, parts)]).astype(np.float64)
    return arrays, names


def _digest(arrays: Mapping[str, Floats]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name}{arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name], dtype="<f8").tobytes())
    return digest.hexdigest()
