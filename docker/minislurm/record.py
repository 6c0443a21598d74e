# SPDX-License-Identifier: GPL-2.0-or-later
"""What a cluster is and which processes make it up, kept in DIR/cluster.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from .errors import ConflictError
from .layout import Layout
from .ports import Ports
from .proc import Process
from .spec import Spec

NODE = "node:"
"""Prefix of the slurmd entries: a node may be called like a daemon."""


@dataclass
class Record:
    spec: Spec
    version: str
    ports: Ports
    phase: str = "starting"
    seconds: float = 0.0
    daemons: dict[str, Process] = field(default_factory=dict)

    def save(self, layout: Layout) -> None:
        data = {
            "spec": self.spec.to_json(),
            "version": self.version,
            "ports": asdict(self.ports),
            "phase": self.phase,
            "seconds": round(self.seconds, 2),
            "daemons": {name: asdict(process) for name, process in self.daemons.items()},
        }
        fresh = layout.record.with_suffix(".new")
        fresh.write_text(json.dumps(data, indent=1) + "\n")
        fresh.replace(layout.record)

    @property
    def dead(self) -> list[str]:
        return [name for name, process in self.daemons.items() if not process.alive]


def load(layout: Layout) -> Record | None:
    try:
        data: dict[str, Any] = json.loads(layout.record.read_text())
    except FileNotFoundError:
        return None
    return Record(
        spec=Spec.from_json(data["spec"]),
        version=data["version"],
        ports=Ports(**data["ports"]),
        phase=data["phase"],
        seconds=data["seconds"],
        daemons={name: Process(**value) for name, value in data["daemons"].items()},
    )


def require(layout: Layout) -> Record:
    record = load(layout)
    if record is None:
        raise ConflictError(f"no cluster in {layout.root}: run `up --dir {layout.root}` first")
    return record
