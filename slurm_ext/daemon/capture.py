"""Snapshots: all that a decision rests on in one file, to be decided again anywhere."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from slurm_ext import __version__
from slurm_ext.engine.cycle import Step, decide
from slurm_ext.engine.settings import Context
from slurm_ext.engine.topology import UNKNOWN
from slurm_ext.errors import SlurmExtError
from slurm_ext.model.observation import Observation
from slurm_ext.model.plain import from_plain, to_plain
from slurm_ext.policies import get
from slurm_ext.topology.site import SiteTopology

from .anonymise import anonymise

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Capture:
    """An observation and the context it is decided in.

    ``recorded``: fingerprint of the plan when the snapshot was written, empty if not read from one.
    """

    observation: Observation
    context: Context
    recorded: str = ""

    def decide(self) -> Step:
        """The decision; the same on any machine."""
        return decide(self.observation, self.context)


def fingerprint(step: Step) -> str:
    """Hex digest of a whole plan: equal plans, equal digests."""
    text = json.dumps(to_plain(step.plan), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def save(capture: Capture, path: Path) -> None:
    """Write a snapshot, gzipped if the name ends so; mode 0600, since it names users and jobs.

    :raises SlurmExtError: the file cannot be written.
    """
    text = json.dumps(_document(capture), separators=(",", ":"))
    data = gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode()
    try:
        path.touch(mode=0o600)
        path.write_bytes(data)
    except OSError as error:
        raise SlurmExtError(f"{path}: cannot be written: {error.strerror}") from error


def load(path: Path) -> Capture:
    """Read a snapshot.

    :raises SlurmExtError: no snapshot, a damaged one, or one of another format.
    """
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        document = json.loads(data)
    except (OSError, ValueError, EOFError, RecursionError, zlib.error) as error:
        raise SlurmExtError(f"{path}: not a snapshot: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise SlurmExtError(
            f"{path}: not a snapshot of format {FORMAT}; make it with 'slurm-ext snapshot' of "
            "this version"
        )
    return _read(path, document)


def _document(capture: Capture) -> dict[str, Any]:
    policy = capture.context.policy
    topology = capture.context.topology
    context = to_plain(replace(capture.context, policy=get("fifo"), topology=UNKNOWN))
    del context["policy"], context["topology"]
    return {
        "format": FORMAT,
        "version": __version__,
        "policy": {"name": policy.name, "parameters": policy.parameters()},
        "context": context,
        "topology": to_plain(topology) if isinstance(topology, SiteTopology) else None,
        "observation": to_plain(capture.observation),
        "plan": fingerprint(capture.decide()),
    }


def _read(path: Path, document: dict[str, Any]) -> Capture:
    hints = get_type_hints(Context)
    names = [f.name for f in fields(Context) if f.name not in ("policy", "topology")]
    try:
        policy = get(document["policy"]["name"]).with_parameters(document["policy"]["parameters"])
        observation = from_plain(Observation, document["observation"])
        values = {n: from_plain(hints[n], document["context"][n]) for n in names}
        site = document["topology"]
        topology = UNKNOWN if site is None else from_plain(SiteTopology, site)
    except (KeyError, TypeError, AttributeError) as error:
        raise SlurmExtError(f"{path}: incomplete snapshot: {error}") from error
    except SlurmExtError as error:
        raise type(error)(f"{path}: damaged snapshot: {error}") from error
    context = Context(policy=policy, topology=topology, **values)
    return Capture(observation, context, str(document.get("plan", "")))


def anonymous(capture: Capture) -> Capture:
    """The same capture without names; its plan is the same up to the renaming."""
    observation, context, _ = anonymise(capture.observation, capture.context)
    return Capture(observation, context)
