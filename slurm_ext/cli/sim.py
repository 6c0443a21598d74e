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
from slurm_ext.sim.capes import ARRIVALS, capes
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.compare import Comparison, compare
from slurm_ext.sim.errors import TraceError
from slurm_ext.sim.generate import Shape, generate
from slurm_ext.sim.physics import StopCost
from slurm_ext.sim.scenario import (
    BACKFILLS,
    DRIVERS,
    DURATIONS,
    PHYSICS,
    Scenario,
    without_impossible,
)
from slurm_ext.sim.scenario import run as run_scenario
from slurm_ext.sim.settings import PROMPT, SlurmSettings
from slurm_ext.sim.workload import Workload

from .common import parse_overrides


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register ``sim`` with its verbs."""
    parser = subparsers.add_parser("sim", help="simulate workloads under policies")
    verbs = parser.add_subparsers(dest="sim_verb", required=True, metavar="VERB")
    one = verbs.add_parser("run", help="one policy on one workload")
    _workload_options(one)
    _scenario_options(one)
    one.add_argument("--policy", default="fifo")
    one.add_argument("--backfill", choices=BACKFILLS, default="easy")
    one.add_argument("--driver", choices=DRIVERS, default="ideal", help=_DRIVER_HELP)
    one.add_argument("--jobs-csv", type=Path, metavar="FILE", help="one line a job")
    several = verbs.add_parser("compare", help="several policies on the same workloads")
    _workload_options(several)
    _scenario_options(several)
    several.add_argument(
        "--policies", required=True, metavar="A,B:BACKFILL,stock",
        help="policies, each with an optional backfill; 'stock' is Slurm alone",
    )  # fmt: skip
    several.add_argument("--drivers", default="ideal", metavar="D,E", help=_DRIVER_HELP)
    made = verbs.add_parser("generate", help="write a seeded synthetic workload")
    _shape_options(made)
    made.add_argument("--cluster", default="32x8", help=_CLUSTER_HELP)
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    parser.set_defaults(run=run)


_CLUSTER_HELP = "NODESxGPUS[:TYPE][/CPUS[/GIB]],... or pool:GPUS (count only, no placement)"
_DRIVER_HELP = (
    "stock: Slurm alone; observe, order, enforce: Slurm with the daemon; "
    "ideal: the decision core alone, decisions take effect at once"
)


def _workload_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("workload")
    group.add_argument("--trace", type=Path, metavar="FILE", help="or demo; else one is generated")
    group.add_argument("--format", default="", choices=["", *traces.KINDS], help="guessed if empty")
    group.add_argument("--on-bad", choices=["skip", "stop"], default="skip")
    group.add_argument("--head", type=int, metavar="N", help="the first N jobs only")
    group.add_argument("--limits", choices=["requested", "exact"], default="requested",
                       help="exact: limits equal run times, as with an oracle")  # fmt: skip
    group.add_argument("--default-limit-s", type=int, default=7 * 86_400, metavar="S",
                       help="for jobs without a limit")  # fmt: skip
    group.add_argument("--seeds", default="1", metavar="1,2,3", help="of generated workloads")
    _shape_options(group)


def _shape_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument("--jobs", type=int, default=1000, help="jobs to generate")
    parser.add_argument("--load", type=float, default=0.9, help="GPU time asked for / there is")
    parser.add_argument("--capes", choices=list(ARRIVALS), metavar="CONTENTION",
                        help="jobs of Capes et al., 64 GPUs: extreme, moderate, none")  # fmt: skip
    parser.add_argument("--capes-gpus", type=int, default=8, metavar="N",
                        help="with --capes: what each job asks for")  # fmt: skip


def _scenario_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cluster and scheduler")
    group.add_argument("--cluster", default="32x8", help=_CLUSTER_HELP)
    group.add_argument("--round-s", type=int, default=-1, metavar="S",
                       help="driver ideal: decide that often; 0: at every change")  # fmt: skip
    group.add_argument("--round-start-s", type=int, default=0, metavar="S",
                       help="when the first round begins")  # fmt: skip
    group.add_argument("--fast", action="store_true", help="no whole decision while all jobs fit")
    group.add_argument("--stamp-rounds", action="store_true",
                       help="ends count, and free GPUs, at the end of their round")  # fmt: skip
    group.add_argument("--physics", choices=sorted(PHYSICS), default="declared",
                       help="how fast jobs run")  # fmt: skip
    group.add_argument("--durations", choices=DURATIONS, default="limit",
                       help="driver ideal: what jobs are expected to run")  # fmt: skip
    group.add_argument("--late", choices=["steps", "limit"], default="steps",
                       help="how long a job runs on that outlives what was expected")  # fmt: skip
    group.add_argument("--max-slip-s", type=int, default=3600, metavar="S",
                       help="how far a job may put off a promise by its limit")  # fmt: skip
    group.add_argument("--one-start", action="store_true",
                       help="driver ideal: decide anew after each start")  # fmt: skip
    group.add_argument("--training", type=Path, metavar="DIR",
                       help="measured tables by which training jobs run")  # fmt: skip
    group.add_argument("--lossless", action="store_true",
                       help="a job that is stopped saves its work first")  # fmt: skip
    group.add_argument("--restart-s", type=int, metavar="S",
                       help="cost of a restart for all jobs; else the trace's")  # fmt: skip
    group.add_argument("--set", action="append", default=[], dest="overrides",
                       metavar="PARAMETER=VALUE", help="a parameter of the policy")  # fmt: skip
    group.add_argument("--interval-s", type=int, default=30, help="between cycles of the daemon")
    group.add_argument("--lease-s", type=int, default=300, help="length of a deferral")
    group.add_argument("--no-kill", action="store_true", help="time limits are not enforced")
    group.add_argument("--prompt", action="store_true",
                       help="a Slurm without delays, and with EASY backfill")  # fmt: skip
    group.add_argument("--slurm", action="append", default=[], metavar="KEY=N",
                       help="a setting of the simulated Slurm: bf_interval_s=2")  # fmt: skip
    group.add_argument("--json", type=Path, metavar="FILE", help="'-' for standard output")
    group.add_argument("--plots", type=Path, metavar="DIR", help="PNG and SVG of the first seed")
    group.add_argument("--html", type=Path, metavar="FILE",
                       help="one page with tables and plots, nothing beside it")  # fmt: skip
    group.add_argument("--csv", type=Path, metavar="FILE", help="'-' for standard output")


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
        found = [_made(args, spec, _number("--seeds", s)) for s in _listed(args.seeds)]
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
        changes[name] = _number(f"--slurm {name}", value)
    slurm = replace(slurm, kill=not args.no_kill, **changes)
    levers = LeverSettings(interval_s=args.interval_s, lease_s=args.lease_s)
    return Scenario(
        round_s=args.round_s,
        round_start_s=args.round_start_s,
        stamp_rounds=args.stamp_rounds,
        fast=args.fast,
        physics=PHYSICS[args.physics],
        training=args.training,
        durations=args.durations,
        late=args.late,
        max_slip_s=args.max_slip_s,
        one_start=args.one_start,
        cost=StopCost(args.restart_s, args.lossless),
        parameters=parse_overrides(args.overrides),
        slurm=slurm,
        levers=levers,
    )


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _number(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise TraceError(f"{option}: {text!r} is not a whole number") from None


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
