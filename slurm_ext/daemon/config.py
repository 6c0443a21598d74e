"""Configuration of the daemon: TOML files, checked in full, as frozen values.

``config_schema.json`` is the only source of keys, defaults, units and limits; the classes mirror
it (a test compares them). Every number is in the unit its key ends in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from slurm_ext.errors import ConfigError
from slurm_ext.model.decision import Mode

from . import config_render
from .config_check import check
from .config_hints import SCHEMA, near_name
from .config_read import (
    OVERRIDE,
    Fault,
    KeyPath,
    Table,
    is_there,
    list_dropins,
    merge,
    nest,
    read_toml,
)
from .config_rules import cross_check
from .config_sections import (
    BackfillConfig,
    CycleConfig,
    GuardConfig,
    HistoryConfig,
    JobsConfig,
    LeverConfig,
    LogConfig,
    MetricsConfig,
    PartitionConfig,
    PolicyConfig,
    PreemptionConfig,
    ProgressConfig,
    RestartConfig,
    SlurmConfig,
    StateConfig,
    StatusConfig,
    TopologyConfig,
)

DEFAULT_PATH = Path("/etc/slurm_ext/slurm_ext.toml")
"""Read when no file is named; it may be missing."""


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration. ``files`` were read, in this order.

    ``origins``: dotted key path (as a tuple) -> file, for every value that is no default.
    """

    mode: Mode
    partitions: Mapping[str, PartitionConfig]
    cycle: CycleConfig
    policy: PolicyConfig
    backfill: BackfillConfig
    levers: LeverConfig
    guard: GuardConfig
    preemption: PreemptionConfig
    restart: RestartConfig
    progress: ProgressConfig
    topology: TopologyConfig
    jobs: JobsConfig
    history: HistoryConfig
    slurm: SlurmConfig
    state: StateConfig
    status: StatusConfig
    metrics: MetricsConfig
    log: LogConfig
    files: tuple[str, ...] = field(default=(), compare=False)
    origins: Mapping[KeyPath, str] = field(default_factory=dict, compare=False)

    @property
    def artefact_path(self) -> Path:
        """Where learnt run times are."""
        return Path(self.history.artefact or Path(self.state.dir, "durations.npz"))

    @property
    def digest(self) -> str:
        """Sixteen hex digits that change when any effective value does."""
        text = json.dumps(plain(self), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def mode_of(self, partition: str) -> Mode:
        """The mode configured for a partition."""
        found = self.partitions.get(partition)
        return self.mode if found is None or found.mode is None else found.mode

    def manages(self, partition: str) -> bool:
        """False for partitions that are left to Slurm."""
        return partition not in self.partitions or self.partitions[partition].managed

    def unknown_partitions(self, existing: Collection[str]) -> list[str]:
        """A problem for each [partitions.NAME] that the cluster does not have."""
        faults = []
        for name in self.partitions:
            if name not in existing:
                keys = ("mode", "managed")
                paths = [("partitions", name, key) for key in keys]
                file = next((self.origins[p] for p in paths if p in self.origins), "")
                remedy = near_name(name, existing) or "remove the table"
                faults.append(
                    Fault(file, ("partitions", name), "the cluster has no such partition", remedy)
                )
        return [str(fault) for fault in faults]


_SECTIONS: Mapping[str, type] = {
    "cycle": CycleConfig,
    "policy": PolicyConfig,
    "backfill": BackfillConfig,
    "levers": LeverConfig,
    "guard": GuardConfig,
    "preemption": PreemptionConfig,
    "restart": RestartConfig,
    "progress": ProgressConfig,
    "topology": TopologyConfig,
    "jobs": JobsConfig,
    "history": HistoryConfig,
    "slurm": SlurmConfig,
    "state": StateConfig,
    "status": StatusConfig,
    "metrics": MetricsConfig,
    "log": LogConfig,
}


def load(
    path: Path | None = None, overrides: Mapping[str, object] = MappingProxyType({})
) -> Config:
    """Read ``path`` (or the default one), then ``conf.d/*.toml`` beside it, then ``overrides``.

    Later files win key by key. ``overrides`` maps dotted keys (``cycle.interval_s``) to values.
    Only a file that was not named may be missing.

    :raises ConfigError: with every problem of every file.
    """
    documents, faults = _read_all(path)
    table, override_faults = nest(overrides)
    merged: Table = {}
    origins: dict[KeyPath, str] = {}
    for file, document in [*documents, *([(OVERRIDE, table)] if overrides else [])]:
        sound, found = check(document, file)
        faults += found
        merge(merged, sound, origins, file)
    faults += override_faults
    effective = _with_defaults(merged, SCHEMA)
    broken = {fault.path for fault in faults}
    faults += cross_check(effective, origins, broken)
    if faults:
        raise ConfigError([str(fault) for fault in faults])
    return _build(effective, tuple(file for file, _ in documents), origins)


def render(config: Config) -> str:
    """The effective configuration as TOML that loads to the same values, with comments."""
    return config_render.render(plain(config), config.origins)


def plain(value: Any) -> Any:
    """A configuration (or a part of one) as tables and plain values, as TOML would hold it."""
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((f.name, getattr(value, f.name)) for f in fields(value) if f.compare)
        return {name: plain(v) for name, v in pairs if v is not None}
    if isinstance(value, Mapping):
        return {name: plain(v) for name, v in value.items()}
    return str(value) if isinstance(value, Mode) else value


def _read_all(path: Path | None) -> tuple[list[tuple[str, Table]], list[Fault]]:
    main = DEFAULT_PATH if path is None else path
    files, faults = list_dropins(main.parent / "conf.d")
    if path is not None or is_there(main):
        files.insert(0, main)
    documents = []
    for file in files:
        document, found = read_toml(file, regular_only=file is not main)
        documents.append((str(file), document))
        faults += found
    return documents, faults


def _with_defaults(table: Mapping[str, Any], schema: Mapping[str, Any]) -> Table:
    out = dict(table)
    for name, part in schema["properties"].items():
        if part["type"] == "object" and "properties" in part:
            out[name] = _with_defaults(table.get(name, {}), part)
        elif name == "partitions":
            one = part["additionalProperties"]
            out[name] = {n: _with_defaults(v, one) for n, v in table.get(name, {}).items()}
        elif name not in out and "default" in part:
            out[name] = part["default"]
        if part["type"] in ("integer", "number"):
            # 30 and 30.0 are the same setting and must give the same digest.
            out[name] = int(out[name]) if part["type"] == "integer" else float(out[name])
    return out


def _build(table: Table, files: tuple[str, ...], origins: Mapping[KeyPath, str]) -> Config:
    partitions = {
        name: PartitionConfig(Mode(v["mode"]) if "mode" in v else None, v["managed"])
        for name, v in sorted(table["partitions"].items())
    }
    sections: dict[str, Any] = {name: cls(**table[name]) for name, cls in _SECTIONS.items()}
    return Config(
        mode=Mode(table["mode"]), partitions=partitions, files=files, origins=origins, **sections
    )
