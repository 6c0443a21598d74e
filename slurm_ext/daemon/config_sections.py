"""The sections of the daemon's configuration, as frozen values.

They mirror ``config_schema.json``, the only source of keys, defaults, units and limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_ext.model.decision import Mode

Parameter = bool | int | float | str


@dataclass(frozen=True, slots=True)
class PartitionConfig:
    """Exception for one partition. ``mode`` None: the mode at the top counts."""

    mode: Mode | None
    managed: bool


@dataclass(frozen=True, slots=True)
class CycleConfig:
    """Section ``cycle``; all in seconds."""

    interval_s: float
    min_interval_s: float
    observe_timeout_s: float
    call_timeout_s: float
    backoff_max_s: float
    stale_s: float


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """Section ``policy``; parameters are not checked against the policy here."""

    name: str
    parameters: Mapping[str, Parameter]


@dataclass(frozen=True, slots=True)
class BackfillConfig:
    """Section ``backfill``."""

    kind: str
    fences: int
    depth: int
    durations: str
    max_slip_s: int
    slack_fraction: float
    default_limit_s: int


@dataclass(frozen=True, slots=True)
class LeverConfig:
    """Section ``levers``; ``renew_at`` is the fraction of a lease that is left."""

    defer: str
    lease_s: int
    renew_at: float
    pin: bool
    pin_ttl_s: int
    start_grace_s: int
    site_factor: bool
    ladder: int
    reserve_min_nodes: int
    frontier: str
    frontier_max_jobs: int
    write_tokens_per_s: float
    write_burst: int
    undo_notes: str


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """Section ``guard``; a count of 0 is no limit, for requeues none at all."""

    max_starts_per_cycle: int
    max_patches_per_cycle: int
    max_requeues_per_hour: int
    min_runtime_before_requeue_s: int
    max_deferral_s: int
    idle_waste_cycles: int
    idle_waste_gpus: int


@dataclass(frozen=True, slots=True)
class PreemptionConfig:
    """Section ``preemption``; ``min_gain`` is a ratio of GPU-seconds."""

    enabled: bool
    jobs: int
    max_victims: int
    min_gain: float
    max_restarts: int


@dataclass(frozen=True, slots=True)
class RestartConfig:
    """Section ``restart``."""

    enabled: bool
    max_at_once: int
    max_per_job_hour: int
    keep_room_s: int
    come_back_s: int
    retry_after_s: int


@dataclass(frozen=True, slots=True)
class ProgressConfig:
    """Section ``progress``; ``spool_dir`` empty: none."""

    spool_dir: str
    workdir: bool
    interval_s: int
    max_files: int


@dataclass(frozen=True, slots=True)
class TopologyConfig:
    """Section ``topology``; empty paths: not known. The tables are by host list and GPU type."""

    gres_conf: str
    topology_conf: str
    topology_name: str
    speeds: str
    node_gbps: float
    oversubscription: float
    block_gbps: float
    nvidia_smi: Mapping[str, str]
    presets: Mapping[str, str]
    gpu_speeds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class JobsConfig:
    """Section ``jobs``."""

    optout: str
    interactive: str


@dataclass(frozen=True, slots=True)
class HistoryConfig:
    """Section ``history``; ``artefact`` empty: in the state directory."""

    use: bool
    artefact: str
    max_age_days: int


@dataclass(frozen=True, slots=True)
class SlurmConfig:
    """Section ``slurm``; empty paths: Slurm's own. ``rest_*``: slurmrestd, if there is one.

    ``native_*``: pyslurm, if there is one.
    """

    backend: str
    bin_dir: str
    slurm_conf: str
    format: str
    native_python: str
    native_memory_mib: int
    rest_url: str
    rest_user: str
    rest_token_file: str
    rest_token_command: str
    rest_ca_file: str
    rest_max_jobs: int


@dataclass(frozen=True, slots=True)
class StateConfig:
    """Section ``state``, and where the files in its directories are."""

    dir: str
    run_dir: str
    keep_days: int
    heartbeat: str

    @property
    def journal_path(self) -> Path:
        return Path(self.dir, "journal.db")

    @property
    def lock_path(self) -> Path:
        return Path(self.dir, "daemon.lock")

    @property
    def heartbeat_path(self) -> Path:
        return Path(self.run_dir, self.heartbeat)


@dataclass(frozen=True, slots=True)
class StatusConfig:
    """Section ``status``; ``operators`` are user names separated by commas."""

    open_to: str
    others: str
    operators: str

    @property
    def operator_names(self) -> frozenset[str]:
        return frozenset(self.operators.split(",")) - {""}


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """Section ``metrics``; ``port`` 0: no TCP listener."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Section ``log``."""

    level: str
    format: str
