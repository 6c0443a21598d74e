"""``forecast``: when waiting jobs will probably start."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from rich.table import Table

from slurm_ext.daemon.apply import Applied
from slurm_ext.daemon.client import ask
from slurm_ext.daemon.runner import CycleResult
from slurm_ext.daemon.snapshot import snapshot
from slurm_ext.errors import SlurmExtError

from .common import add_config_options, console, print_json, read_config, safe
from .tables import duration
from .why import capture

Plain = dict[str, Any]

FIELDS = ("id", "user", "name", "gpus", "tasks", "rank", "verdict", "forecast", "promised_s")


def add_parser(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "forecast", help="when waiting jobs will probably start",
        description="Probable start of each waiting job: with even odds (P50), nine times in ten "
        "(P90), and the start it is promised. From the running daemon's last cycle; without a "
        "daemon, decided now. Rests on learned run times where there are any, else on limits.",
        epilog="example: slurm-ext forecast 4711",
    )  # fmt: skip
    parser.add_argument("job", nargs="?", help="job id or ARRAY_TASK; all waiting jobs if left out")
    parser.add_argument("--from", type=Path, metavar="FILE", dest="source",
                        help="a snapshot instead of the cluster")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    add_config_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    data = _last_cycle(args)
    jobs = [{f: j[f] for f in FIELDS} for j in data["jobs"] if _asked(j, args.job)]
    if args.job is not None and not jobs:
        raise SlurmExtError(
            f"job {args.job[:40]} is not in the queue; 'sacct -j {args.job[:20]}' knows ended jobs"
        )
    if args.json:
        print_json({"at_s": data["at_s"], "policy": data["policy"], "jobs": jobs})
    else:
        _show(jobs, data["at_s"])
    return 0


def _last_cycle(args: argparse.Namespace) -> Plain:
    """The running daemon's last cycle, or what would be decided now."""
    if args.source is None:
        config = read_config(args)
        try:
            data: Plain = ask(Path(config.state.run_dir), "/v1/status")
            if data.get("jobs") is not None:
                return data
        except SlurmExtError:
            pass  # no daemon, or not ours to ask: decide here
    config, found = capture(args)
    result = CycleResult(
        0, found.observation, found.context, found.decide(), Applied((), (), 0), {}
    )
    return snapshot(result, config)


def _asked(job: Plain, wanted: str | None) -> bool:
    if wanted is None:
        return bool(job["rank"] >= 0)
    return wanted in (job["id"], str(job["job_id"]))


def _show(jobs: list[Plain], now_s: int) -> None:
    if not jobs:
        console().print("no job waits for a decision")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("RANK", "JOB", "USER", "NAME", "GPUS", "P50 IN", "P90 IN", "P90 AT", "PROMISED"):
        table.add_column(name, no_wrap=True)
    for job in jobs:
        table.add_row(
            str(job["rank"]) if job["rank"] >= 0 else "",
            job["id"],
            safe(job["user"], 10),
            safe(job["name"], 16),
            str(job["gpus"]) + (f" x{job['tasks']}" if job["tasks"] > 1 else ""),
            *_times(job, now_s),
        )
    console().print(table)


def _times(job: Plain, now_s: int) -> tuple[str, str, str, str]:
    found = job["forecast"]
    if found is None:
        return job["verdict"], "", "", ""
    promised = job["promised_s"]
    return (
        duration(max(0, found["p50_s"] - now_s)),
        duration(max(0, found["p90_s"] - now_s)),
        time.strftime("%a %d %b %H:%M", time.localtime(found["p90_s"])),
        duration(max(0, promised - now_s)) if promised is not None else "",
    )
