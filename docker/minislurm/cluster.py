# SPDX-License-Identifier: GPL-2.0-or-later
"""The cluster in one directory, as an object: what the command line and the tests use."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import bringup, daemons, nodes, programs, signals, teardown
from .errors import ConflictError, InterruptedBySignalError, MiniSlurmError, PortTakenError
from .layout import Layout
from .ports import Ports, pick_ports
from .record import NODE, Record, load, require
from .spec import Spec

TRIES = 4


def _silent(_: str) -> None:
    pass


class Cluster:
    """`Cluster(dir, spec).up()`; without a spec the one kept in the directory is used."""

    def __init__(
        self, root: str | Path, spec: Spec | None = None, say: Callable[[str], None] = _silent
    ) -> None:
        self.layout = Layout(root)
        self._spec = spec
        self._say = say

    @property
    def spec(self) -> Spec:
        return self._spec or require(self.layout).spec

    @property
    def env(self) -> dict[str, str]:
        """What a client needs to talk to this cluster."""
        return {"SLURM_CONF": str(self.layout.conf)}

    def up(self, timeout: float = 120.0) -> bool:
        """Starts the cluster; False if it ran already. After a failure nothing is left running."""
        if os.geteuid() != 0:
            raise MiniSlurmError("minislurm starts daemons that change user: run it as root")
        spec = self.spec
        self.layout.check_name(max(spec.nodes, key=len))
        if spec.users or spec.operator:
            self.layout.check_reachable()
        programs.require(spec.accounting, bool(spec.users or spec.operator), spec.rest)
        if spec.rest:
            programs.require_plugin("auth_jwt")
        if spec.job_submit_lua:
            programs.require_plugin("job_submit_lua")
        self.layout.create()
        with self.layout.locked():
            if self._runs_already(spec):
                return False
            with signals.as_errors():
                try:
                    self._start(spec, timeout)
                except InterruptedBySignalError:
                    # It may have cut the clean-up after another failure short; it comes only once.
                    self._clean_up()
                    raise
        return True

    def _runs_already(self, spec: Spec) -> bool:
        record = load(self.layout)
        if record is None or record.phase == "failed":
            return False  # a corrected wish may take the place of one that never ran
        root = self.layout.root
        if record.spec != spec:
            raise ConflictError(
                f"{root} holds a cluster with another configuration: "
                f"`down --purge --dir {root}` first, or take another --dir"
            )
        if not record.daemons:
            return False
        dead = record.dead
        if record.phase == "up" and not dead:
            return True
        if len(dead) == len(record.daemons):
            return False
        raise ConflictError(
            f"{root} runs only in part ({', '.join(dead[:3]) or record.phase}): "
            f"`restart` those, or `down --dir {root}`"
        )

    def _start(self, spec: Spec, timeout: float) -> None:
        began = time.monotonic()
        daemons.raise_limits()
        version = programs.slurm_version()
        for attempt in range(1, TRIES + 1):
            record = Record(spec, version, pick_ports(len(spec.nodes)))
            try:
                teardown.sweep(self.layout)  # leftovers of a crash
                record.save(self.layout)
                bringup.write_files(self.layout, record)
                bringup.start_all(self.layout, record, began + timeout, self._say)
            except PortTakenError as error:
                self._clean_up()
                if attempt == TRIES:
                    raise
                self._say(f"a port was taken, trying others ({str(error).splitlines()[0]})")
            except InterruptedBySignalError:
                raise
            except BaseException:
                self._clean_up()
                raise
            else:
                record.phase, record.seconds = "up", time.monotonic() - began
                record.save(self.layout)
                return

    def _clean_up(self) -> None:
        with signals.ignored():
            teardown.take_down(self.layout, grace=0.0)
            record = load(self.layout)
            if record is not None:
                record.phase = "failed"
                record.save(self.layout)

    def down(self, purge: bool = False, grace: float = 10.0) -> None:
        """Stops everything; fine if nothing runs. `purge` also deletes the directory."""
        if not self.layout.root.exists():
            return
        if not self.layout.is_ours:
            raise ConflictError(f"{self.layout.root} was not made by minislurm: left alone")
        with self.layout.locked():
            teardown.take_down(self.layout, grace)
            if purge:
                self.layout.purge()

    def restart(self, target: str, timeout: float = 60.0) -> None:
        """A daemon (`slurmctld`, `slurmrestd`, …) or a node; waits until it answers."""
        with self.layout.locked():
            record = require(self.layout)
            name = self._resolve(record, target)
            with signals.as_errors():
                daemons.raise_limits()
                bringup.restart(self.layout, record, name, time.monotonic() + timeout)

    def kill(self, target: str, signame: str = "KILL") -> None:
        record = require(self.layout)
        name = self._resolve(record, target)
        process = record.daemons[name]
        if not process.alive:
            raise MiniSlurmError(f"{name} is not running: `restart {name}` starts it")
        process.send(signals.number(signame))

    def _resolve(self, record: Record, target: str) -> str:
        for name in (target, NODE + target):
            if name in record.daemons:
                return name
        known = ", ".join(name for name in daemons.CORE if name in record.daemons)
        raise ConflictError(
            f"no {target!r} in this cluster; there are: {known or 'no daemons'} "
            f"and the nodes {', '.join(record.spec.nodes[:4])} …"
        )

    def status(self) -> dict[str, Any]:
        record = require(self.layout)
        live = {name: process.state for name, process in record.daemons.items()}
        reachable = all(live.get(name) not in (None, "", "T") for name in ("munged", "slurmctld"))
        return {
            "dir": str(self.layout.root),
            "name": record.spec.name,
            "phase": record.phase,
            "version": record.version,
            "seconds_to_start": record.seconds,
            "ports": _ports(record.ports, len(record.spec.nodes)),
            "daemons": [
                {
                    "name": name,
                    "pid": record.daemons[name].pid,
                    "alive": state != "",
                    "stopped": state == "T",
                }
                for name, state in live.items()
            ],
            "nodes": nodes.states(daemons.environment(self.layout), record.spec.nodes)
            if reachable
            else {},
            "env": self.env,
        }


def _ports(ports: Ports, count: int) -> dict[str, Any]:
    return {
        "slurmctld": ports.slurmctld,
        "slurmdbd": ports.slurmdbd,
        "slurmrestd": ports.slurmrestd,
        "nodes": [ports.first_node, ports.first_node + count - 1],
    }
