"""A dump of sacct as a workload: what a site's own last month would have looked like.

``TZ=UTC sacct -P -X -D -a -S … -E now --format=JobIDRaw,User,State,Submit,Start,End,ElapsedRaw,
TimelimitRaw,AllocTRES`` and more columns in any order, with the head line. Each attempt is a job of
its own that runs as long as it ran, however it ended; jobs without GPUs are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slurm_ext.accounting.record import Attempt
from slurm_ext.accounting.rows import RowReader

from .workload import TraceJob


def parse(lines: Iterable[str]) -> Iterator[tuple[int, TraceJob | str]]:
    """(line number, job or what is wrong with the row); times count from the first submit on."""
    rows = enumerate(lines, 1)
    _, head = next(rows, (0, ""))
    header = head.rstrip("\n").split("|")
    reader = RowReader(header)
    if reader.missing:
        yield 1, f"no column {', '.join(reader.missing)}"
        return
    found: list[tuple[int, Attempt]] = []
    for number, line in rows:
        fields = line.rstrip("\n").split("|")
        if len(fields) != len(header):
            yield number, f"{len(fields)} fields, expected {len(header)}"
            continue
        attempt = reader(fields)
        if isinstance(attempt, str):
            yield number, attempt
        else:
            found.append((number, attempt))
    first_s = min((a.submit_s for _, a in found), default=0)
    for ordinal, (number, attempt) in enumerate(found, 1):
        yield number, _job(attempt, ordinal, first_s)


def _job(attempt: Attempt, ordinal: int, first_s: int) -> TraceJob:
    gpus = attempt.gpus_alloc or attempt.gpus_req
    return TraceJob(
        job_id=ordinal,
        submit_s=attempt.submit_s - first_s,
        run_s=attempt.run_s,
        gpus=gpus,
        limit_s=attempt.limit_s or None,
        nodes=attempt.nodes if 0 < attempt.nodes <= gpus else 0,
        cpus=attempt.cpus_alloc or attempt.cpus_req,
        mem_mib=attempt.mem_req_mib,
        gpu_type=attempt.gpu_type,
        user=attempt.user,
        model=attempt.name,
        state=attempt.state,
        source_id=str(attempt.job_id),
    )
