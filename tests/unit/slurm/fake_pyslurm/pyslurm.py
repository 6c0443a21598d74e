"""Stands in for pyslurm 25.11: the same names, and the ways in which it goes wrong.

slurm.conf is a JSON object here: ``jobs`` (attributes of each), and what a call does by its name
(``jobs``, ``update`` …): ``hang``, ``die``, ``segfault``, ``exit``, ``memory``, ``refused``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from types import SimpleNamespace
from typing import Any

__version__ = "25.11.2"
_world: dict[str, Any] = {}


class RPCError(Exception):
    def __init__(self, errno: int, msg: str) -> None:
        super().__init__(msg)
        self.errno, self.msg = errno, msg


def slurm_init(conf: str | None = None) -> None:
    assert os.environ["PYSLURM_DISABLE_AUTO_INIT"]
    assert conf
    try:
        with open(conf, encoding="ascii") as file:
            _world.update(json.load(file))
    except (OSError, ValueError):
        print("fatal: Unable to process configuration file", file=sys.stderr, flush=True)
        os._exit(1)
    globals()["__version__"] = _world.get("version", __version__)
    print("libslurm prints to standard output")


def _act(call: str) -> None:
    what = _world.get(call)
    if what == "hang":
        time.sleep(600)
    elif what == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif what == "exit":
        print("error: something odd", file=sys.stderr, flush=True)
        os._exit(3)
    elif what == "memory":
        _world["kept"] = bytearray(8 << 30)
    elif what == "refused":
        raise RPCError(1800, "Unable to contact slurm controller (connect failure)")


class Job:
    def __init__(self, job_id: int) -> None:
        self.id = job_id

    def __getattr__(self, name: str) -> Any:
        for one in _world["jobs"]:
            if one["id"] == self.id:
                if one.get(name) == "raises":
                    raise ValueError("bad gres")
                return one.get(name)
        raise AttributeError(name)

    @staticmethod
    def load(job_id: int) -> Job:
        _act("load")
        if all(one["id"] != job_id for one in _world["jobs"]):
            raise RPCError(2017, "Invalid job id specified")
        return Job(job_id)

    def get_resource_layout_per_node(self) -> dict[str, Any]:
        return dict(self.layout or {})

    def modify(self, changes: JobSubmitDescription) -> None:
        _act("update")
        self._done("modify", **changes.values)

    def hold(self, mode: str | None = None) -> None:
        if mode == "user":
            os.kill(os.getpid(), signal.SIGSEGV)
        self._done("hold")

    def release(self) -> None:
        self._done("release")

    def _done(self, what: str, **values: Any) -> None:
        if all(one["id"] != self.id for one in _world["jobs"]):
            raise RPCError(2017, "Invalid job id specified")
        with open(_world["log"], "a", encoding="ascii") as file:
            file.write(json.dumps([self.id, what, values]) + "\n")


class JobSubmitDescription:
    def __init__(self, **values: Any) -> None:
        self.values = values


class Jobs:
    @staticmethod
    def load() -> dict[int, Job]:
        _act("jobs")
        return {one["id"]: Job(one["id"]) for one in _world["jobs"]}


class Partitions:
    @staticmethod
    def load() -> dict[str, Any]:
        _act("partitions")
        return {}


class _Statistics:
    @staticmethod
    def load() -> Any:
        _act("statistics")
        return SimpleNamespace(rpcs_by_type={"REQUEST_JOB_INFO": SimpleNamespace(count=7)})


slurmctld = SimpleNamespace(Statistics=_Statistics)
