"""The workloads of Pollux (OSDI 2021): ``name,time,application,num_replicas,batch_size``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite

from slurm_ext.sim.csvtraces import Parsed, Row, seconds, table
from slurm_ext.sim.workload import TraceJob

from .tables import Application

NODE_GPUS = 4
"""GPUs of a node of the cluster that was measured."""


def parse(lines: Iterable[str], apps: dict[str, Application]) -> Iterator[Parsed]:
    """Jobs with the run time that their GPUs and batch would give without any interruption."""

    def job(row: Row, ordinal: int) -> TraceJob:
        name, gpus, batch = row["application"], int(row["num_replicas"]), int(row["batch_size"])
        if name not in apps:
            raise ValueError(f"no tables of application {name!r}; known: {', '.join(apps)}")
        app = apps[name]
        if not app.batch <= batch <= app.max_batch:
            raise ValueError(f"batch {batch}: measured from {app.batch} to {app.max_batch}")
        if gpus < 1:
            raise ValueError(f"{gpus} GPUs")
        run_s = app.run_s(batch, gpus, NODE_GPUS)
        if not isfinite(run_s):
            raise ValueError(f"{gpus} GPUs with batch {batch} are beyond what was measured")
        return TraceJob(
            job_id=ordinal, submit_s=seconds(row["time"]), run_s=max(1, round(run_s)), gpus=gpus,
            model=name, batch=batch, source_id=row["name"],
        )  # fmt: skip

    need = ("name", "time", "application", "num_replicas", "batch_size")
    return table(lines, need, job)
