"""``slurm-ext sim run|compare|generate``: what a workload would look like under each policy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import Progress

from slurm_ext.engine.settings import LeverSettings
from slurm_ext.sim import plots, report, traces
from slurm_ext.sim.capes import capes
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.compare import Comparison, compare
from slurm_ext.sim.errors import TraceError
from slurm_ext.sim.generate import Shape, generate
from slurm_ext.sim.links import Links, parse_links, parse_speeds
from slurm_ext.sim.physics import StopCost
from slurm_ext.sim.scenario import (
    BACKFILLS,
    DRIVERS,
    PHYSICS,
    Scenario,
    without_impossible,
)
from slurm_ext.sim.scenario import run as run_scenario
from slurm_ext.sim.settings import PROMPT, SlurmSettings
from slurm_ext.sim.sitelinks import read_site
from slurm_ext.sim.workload import Workload
from slurm_ext.topology.fabric import Rates
from slurm_ext.topology.site import SiteTopology

from .common import parse_overrides
from .sim_options import (
    CLUSTER_HELP,
    DRIVER_HELP,
    number,
    scenario_options,
    shape_options,
    workload_options,
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register ``sim`` with its verbs."""
    parser = subparsers.add_parser(
        "sim", help="simulate workloads under policies",
        description="The decision core on simulated time: traces and made-up workloads under any "
        "policy, beside a simulated Slurm.",
        epilog="example: slurm-ext sim compare --trace demo --cluster 4x8 --policies sjf,stock",
    )  # fmt: skip
    verbs = parser.add_subparsers(dest="sim_verb", required=True, metavar="VERB")
    one = verbs.add_parser(
        "run", help="one policy on one workload",
        description="Waits, completion times, use and fragmentation of one policy.",
        epilog="example: slurm-ext sim run --policy sjf --trace demo --cluster 4x8",
    )  # fmt: skip
    workload_options(one)
    scenario_options(one)
    one.add_argument("--policy", default="fifo", help="as policy list names it (fifo)")
    one.add_argument("--backfill", choices=BACKFILLS, default="easy",
                     help="who may pass a blocked job (easy)")  # fmt: skip
    one.add_argument("--driver", choices=DRIVERS, default="ideal", help=DRIVER_HELP)
    one.add_argument("--jobs-csv", type=Path, metavar="FILE", help="one line a job")
    several = verbs.add_parser(
        "compare", help="several policies on the same workloads",
        description="A table with a line a policy; as a page with plots with --html.",
        epilog="example: slurm-ext sim compare --trace demo --cluster 4x8 --policies sjf,stock\n"
        "example: slurm-ext sim compare --cluster 8x8 --policies sjf,tiresias --seeds 1,2",
    )  # fmt: skip
    workload_options(several)
    scenario_options(several)
    several.add_argument(
        "--policies", required=True, metavar="A,B:BACKFILL,stock",
        help="policies, each with an optional backfill; 'stock' is Slurm alone",
    )  # fmt: skip
    several.add_argument("--drivers", default="ideal", metavar="D,E", help=DRIVER_HELP)
    made = verbs.add_parser(
        "generate", help="write a seeded synthetic workload",
        description="A workload as CSV, the same for the same seed.",
        epilog="example: slurm-ext sim generate --jobs 1000 --seed 7 -o workload.csv",
    )  # fmt: skip
    shape_options(made)
    made.add_argument("--cluster", default="32x8", help=CLUSTER_HELP)
    made.add_argument("--seed", type=int, default=1, help="another seed, other jobs (1)")
    made.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="CSV")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Entry point of the verb group.

    :raises SlurmExtError: anything the user can do something about.
    """
    verbs: dict[str, Callable[[argparse.Namespace], int]] = {
        "run": _run, "compare": _compare, "generate": _generate,
    }  # fmt: skip
    return verbs[args.sim_verb](args)


def _run(args: argparse.Namespace) -> int:
    spec = ClusterSpec.parse(args.cluster)
    scenario = replace(_base(args), driver=args.driver, policy=args.policy, backfill=args.backfill)
    workloads = _workloads(args, spec)
    if args.jobs_csv is not None and len(workloads) > 1:
        raise TraceError("--jobs-csv: for one workload only, not for several --seeds")
    _compare_and_show(args, [scenario], workloads, spec)
    if args.jobs_csv is not None:
        with args.jobs_csv.open("w", newline="", encoding="utf-8") as file:
            report.write_jobs(run_scenario(scenario, workloads[0], spec), file)
    return 0


def _compare(args: argparse.Namespace) -> int:
    spec = ClusterSpec.parse(args.cluster)
    base = _base(args)
    scenarios = []
    for name in _listed(args.policies):
        policy, _, backfill = name.partition(":")
        if policy == "stock":
            scenarios.append(replace(base, driver="stock"))
            continue
        for driver in _listed(args.drivers):
            scenario = replace(base, driver=driver, policy=policy, backfill=backfill or "easy")
            scenario.context()  # an unknown name is told before anything runs
            scenarios.append(scenario)
    _compare_and_show(args, scenarios, _workloads(args, spec), spec)
    return 0


def _compare_and_show(
    args: argparse.Namespace,
    scenarios: list[Scenario],
    workloads: list[Workload],
    spec: ClusterSpec,
) -> None:
    with _progress() as progress:
        found = compare(scenarios, workloads, spec, progress)
    to_stdout = Path("-") in (args.json, args.csv)
    if not to_stdout:
        for table in report.tables(found):
            Console().print(table)
    _draw(args, found)
    for path, write in ((args.json, report.write_json), (args.csv, report.write_csv)):
        if path is not None:
            with _open(path) as file:
                write(found, file)


def _draw(args: argparse.Namespace, found: list[Comparison]) -> None:
    """Plots, where asked for."""
    if args.plots is None and args.html is None:
        return
    figures = plots.draw_all({c.label: c.first for c in found})
    if args.plots is not None:
        plots.write_files(figures, args.plots)
    if args.html is not None:
        text = Console(width=100, record=True, file=StringIO())
        for table in report.tables(found):
            text.print(table)
        title = "Simulated: " + ", ".join(c.label for c in found)
        args.html.write_text(plots.page(title, figures, text.export_text()), encoding="utf-8")


def _generate(args: argparse.Namespace) -> int:
    workload = _made(args, ClusterSpec.parse(args.cluster), args.seed)
    traces.write(workload, args.output)
    print(f"{args.output}: {len(workload.jobs)} jobs")
    return 0


def _made(args: argparse.Namespace, spec: ClusterSpec, seed: int) -> Workload:
    if args.capes is not None:
        return capes(args.capes, seed, args.capes_gpus)
    return generate(Shape(jobs=args.jobs, load=args.load), spec, seed)


def _workloads(args: argparse.Namespace, spec: ClusterSpec) -> list[Workload]:
    if args.trace is None:
        found = [_made(args, spec, number("--seeds", s)) for s in _listed(args.seeds)]
    else:
        read = traces.read(
            args.trace, args.format, max_gpus=spec.gpus, on_bad=args.on_bad, training=args.training
        )
        read, impossible = without_impossible(read, spec)
        if impossible and args.on_bad == "stop":
            raise TraceError("\n".join(impossible[: traces.LISTED]))
        if read.bad:
            print(traces.describe_bad(read.name, read.bad), file=sys.stderr)
        for why in impossible[: traces.LISTED]:
            print(f"{read.name}: left out: {why}", file=sys.stderr)
        found = [read]
    if args.head is not None:
        found = [w.head(args.head) for w in found]
    return [w.with_limits(args.limits, args.default_limit_s) for w in found]


def _base(args: argparse.Namespace) -> Scenario:
    slurm = PROMPT if args.prompt else SlurmSettings()
    known = {f.name for f in fields(SlurmSettings)} - {"kill"}
    changes: dict[str, int] = {}
    for text in args.slurm:
        name, _, value = text.partition("=")
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"
            raise TraceError(f"--slurm {text}: unknown setting; {hint}")
        changes[name] = number(f"--slurm {name}", value)
        if not changes[name] and name in NOT_NOUGHT:
            raise TraceError(f"--slurm {text}: at least 1")
    slurm = replace(slurm, kill=not args.no_kill, **changes)
    levers = LeverSettings(interval_s=args.interval_s, lease_s=args.lease_s)
    return Scenario(
        round_s=args.round_s,
        round_start_s=args.round_start_s,
        stamp_rounds=args.stamp_rounds,
        fast=args.fast,
        physics=PHYSICS[args.physics],
        training=args.training,
        links=_links(args),
        topology=_topology(args),
        durations=args.durations,
        late=args.late,
        max_slip_s=args.max_slip_s,
        one_start=args.one_start,
        cost=StopCost(args.restart_s, args.lossless),
        parameters=parse_overrides(args.overrides),
        slurm=slurm,
        levers=levers,
    )


def _links(args: argparse.Namespace) -> Links | None:
    """What the place costs, where anything was said of it."""
    if args.links is None and not args.gpu_speeds and not args.comm:
        return None
    inside, uplink = parse_links(args.links) if args.links is not None else (1.0, 1.0)
    speeds = parse_speeds(args.gpu_speeds)
    return Links(inside, uplink, comm=args.comm, gpu_speeds=speeds)


def _topology(args: argparse.Namespace) -> SiteTopology | None:
    """Links and switches, where they were named."""
    if not args.preset and args.topology is None:
        return None
    uplink = parse_links(args.links)[1] if args.links is not None else Rates().node_gbps
    return read_site(args.preset, args.topology, uplink)


NOT_NOUGHT = ("sched_interval_s", "bf_interval_s", "bf_resolution_s", "default_limit_s")
"""Settings of the simulated Slurm that must be above 0."""


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    if path == Path("-"):
        yield sys.stdout
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            yield file


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on the terminal; nothing where errors do not go to one."""
    if not sys.stderr.isatty():
        yield None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        tasks = {}

        def update(label: str, done: int, total: int) -> None:
            if label not in tasks:
                tasks[label] = bar.add_task(label, total=total)
            bar.update(tasks[label], completed=done)

        yield update
