"""``annotate check``, ``annotate explain`` and ``annotate schema``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from rich.table import Table

from slurm_ext.annotate.check import understand
from slurm_ext.annotate.meaning import Meaning, meanings
from slurm_ext.annotate.problem import Problem
from slurm_ext.annotate.schema import SCHEMA_TEXT
from slurm_ext.annotate.script import Script, read_script
from slurm_ext.daemon.text import printable
from slurm_ext.errors import SlurmExtError
from slurm_ext.model.job import Job
from slurm_ext.slurm import sbatch

from .common import add_config_options, connect, console, print_json, read_config, safe

UNREADABLE = Problem("unreadable", "cannot be read", "name a batch script")


def add_parser(verbs: Any) -> None:
    """Register the verbs."""
    parser = verbs.add_parser("annotate", help="check and explain annotations of jobs",
        description="What annotations of jobs say, and whether they are right.",
        epilog="example: slurm-ext annotate check train.sbatch",
    )  # fmt: skip
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser(
        "check", help="check the annotations of batch scripts",
        description="Check ##SLURM_EXT lines and annotations in #SBATCH --comment; every problem "
        "with line, column and suggestion.",
        epilog="exit codes: 0 all fine (warnings allowed), 1 an error, 2 a file cannot be read\n"
        "example: slurm-ext annotate check jobs/*.sbatch\n"
        "example: slurm-ext annotate check - < train.sbatch",
    )  # fmt: skip
    check.add_argument("files", nargs="+", type=Path, metavar="FILE", help="- is standard input")
    check.set_defaults(run=run_check)
    explain = actions.add_parser(
        "explain", help="what is understood of a job's annotation",
        description="Every key with what holds for this job, defaults filled in, and why it "
        "matters. Exit code 1 if the annotation cannot be used.",
        epilog="example: slurm-ext annotate explain 4711",
    )  # fmt: skip
    explain.add_argument("job", help="job id or ARRAY_TASK")
    explain.add_argument("--given", action="store_true", help="only the keys that were given")
    explain.set_defaults(run=run_explain)
    add_config_options(explain)
    for action in (check, explain):
        action.add_argument("--json", action="store_true", help="machine-readable output")
    schema = actions.add_parser(
        "schema", help="print the JSON Schema of annotations",
        description="The JSON Schema that annotations are checked against.",
        epilog="example: slurm-ext annotate schema > annotation.json",
    )  # fmt: skip
    schema.set_defaults(run=run_schema)


def line_of(name: str, problem: Problem) -> str:
    """A finding as compilers write it: file:line:column: error: text; remedy."""
    place = f":{problem.line}:{problem.column}" if problem.line else ""
    kind = "error" if problem.error else "warning"
    return f"{printable(name, 200)}{place}: {kind}: {printable(str(problem), 1000)}"


def run_check(args: argparse.Namespace) -> int:
    code = 0
    findings: list[dict[str, Any]] = []
    for path in args.files:
        problems: tuple[Problem, ...] = (UNREADABLE,)
        text = _text(path)
        if text is not None:
            found: Script = read_script(text)
            problems = found.problems
            code = max(code, 1 if found.errors else 0)
        else:
            code = 2
        for problem in problems:
            findings.append(_finding(str(path), problem))
            if not args.json:
                print(line_of(str(path), problem))
    if args.json:
        print_json({"files": len(args.files), "findings": findings})
    return code


def _text(path: Path) -> str | None:
    if str(path) == "-":
        return sys.stdin.buffer.read(sbatch.MAX_SCRIPT).decode("utf-8", "surrogateescape")
    return sbatch.read_script(str(path), search=False)


def _finding(name: str, problem: Problem) -> dict[str, Any]:
    return {
        "file": name,
        "line": problem.line,
        "column": problem.column,
        "severity": "error" if problem.error else "warning",
        "code": problem.code,
        "key": problem.key,
        "text": problem.text,
        "remedy": problem.remedy,
    }


def run_explain(args: argparse.Namespace) -> int:
    job = _find(connect(read_config(args)).observe().jobs, args.job)
    found = understand(job.comment)
    rows = meanings(found) if found.annotation is not None else []
    if args.given:
        rows = [row for row in rows if row.given]
    if args.json:
        print_json({
            "id": job.address,
            "comment": job.comment,
            "used": found.annotation is not None,
            "opted_out": found.off,
            "problems": [_finding("", p) for p in found.problems],
            "keys": {row.key: {"value": row.value, "given": row.given} for row in rows},
        })  # fmt: skip
    else:
        _show(job, found.off, rows, found.problems)
    return 1 if found.errors else 0


def _find(jobs: tuple[Job, ...], name: str) -> Job:
    for job in jobs:
        if name in (job.address, str(job.job_id)):
            return job
    raise SlurmExtError(f"job {name[:40]} is not in the queue")


def _show(job: Job, off: bool, rows: list[Meaning], problems: tuple[Problem, ...]) -> None:
    out = console()
    if off:
        out.print(safe(f"job {job.address} has opted out (slurm_ext:off)", 200))
    elif not rows and not problems:
        out.print(safe(f"job {job.address} has no annotation: it is a plain job", 200))
    for problem in problems:
        out.print(safe(line_of(f"job {job.address}", problem), 400))
    if not rows:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("KEY", "VALUE", "", "WHY"):
        table.add_column(name, no_wrap=name == "KEY")
    for row in rows:
        table.add_row(row.key, safe(row.value, 80), "" if row.given else "default", row.why)
    out.print(table)


def run_schema(args: argparse.Namespace) -> int:
    sys.stdout.write(SCHEMA_TEXT)
    return 0
