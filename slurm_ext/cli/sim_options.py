"""The options of ``slurm-ext sim``, and numbers that are checked before anything runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from slurm_ext.sim import traces
from slurm_ext.sim.capes import ARRIVALS
from slurm_ext.sim.errors import TraceError
from slurm_ext.sim.scenario import DURATIONS, PHYSICS

CLUSTER_HELP = "NODESxGPUS[:TYPE][/CPUS[/GIB]],... or pool:GPUS (count only, no placement)"
DRIVER_HELP = (
    "stock: Slurm alone; observe, order, enforce: Slurm with the daemon; "
    "ideal: the decision core alone, decisions take effect at once"
)


def workload_options(parser: argparse.ArgumentParser) -> None:
    """The workload: a trace, or what is generated."""
    group = parser.add_argument_group("workload")
    group.add_argument("--trace", type=Path, metavar="FILE", help="or demo; else one is generated")
    group.add_argument("--format", default="", choices=["", *traces.KINDS], metavar="NAME",
                       help=f"{', '.join(traces.KINDS)}; guessed if empty")  # fmt: skip
    group.add_argument("--on-bad", choices=["skip", "stop"], default="skip",
                       help="what to do with a record that cannot be used (skip)")  # fmt: skip
    group.add_argument("--head", type=at_least(1), metavar="N", help="the first N jobs only")
    group.add_argument("--limits", choices=["requested", "exact"], default="requested",
                       help="exact: limits equal run times, as with an oracle")  # fmt: skip
    group.add_argument("--default-limit-s", type=at_least(1), default=7 * 86_400, metavar="S",
                       help="for jobs without a limit")  # fmt: skip
    group.add_argument("--seeds", default="1", metavar="1,2,3", help="of generated workloads")
    shape_options(group)


def shape_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """What is generated."""
    parser.add_argument("--jobs", type=at_least(1), default=1000, help="jobs to generate")
    parser.add_argument("--load", type=float, default=0.9, help="GPU time asked for / there is")
    parser.add_argument("--capes", choices=list(ARRIVALS), metavar="CONTENTION",
                        help="jobs of Capes et al., 64 GPUs: extreme, moderate, none")  # fmt: skip
    parser.add_argument("--capes-gpus", type=at_least(1), default=8, metavar="N",
                        help="with --capes: what each job asks for")  # fmt: skip


def scenario_options(parser: argparse.ArgumentParser) -> None:
    """The cluster, the scheduler, and where figures go."""
    group = parser.add_argument_group("cluster and scheduler")
    group.add_argument("--cluster", default="32x8", help=CLUSTER_HELP)
    group.add_argument("--round-s", type=at_least(-1), default=-1, metavar="S",
                       help="driver ideal: decide that often; 0: at every change")  # fmt: skip
    group.add_argument("--round-start-s", type=at_least(0), default=0, metavar="S",
                       help="when the first round begins")  # fmt: skip
    group.add_argument("--fast", action="store_true", help="no whole decision while all jobs fit")
    group.add_argument("--stamp-rounds", action="store_true",
                       help="ends count, and free GPUs, at the end of their round")  # fmt: skip
    group.add_argument("--physics", choices=sorted(PHYSICS), default="declared",
                       help="how fast jobs run")  # fmt: skip
    group.add_argument("--links", metavar="INSIDE/UPLINK",
                       help="GB/s in a node and out of it: several nodes are slower")  # fmt: skip
    group.add_argument("--preset", default="", metavar="NAME",
                       help="links in all nodes: dgx-a100, hgx-a100-4, pcie-8, ...")  # fmt: skip
    group.add_argument("--topology", type=Path, metavar="FILE",
                       help="switches or blocks of the nodes (topology.conf, .yaml)")  # fmt: skip
    group.add_argument("--gpu-speeds", default="", metavar="TYPE=SPEED,...",
                       help="relative; run times are those on the fastest")  # fmt: skip
    group.add_argument("--comm", type=share, default=0.0, metavar="SHARE",
                       help="of run time for bringing GPUs together")  # fmt: skip
    group.add_argument("--durations", choices=DURATIONS, default="limit",
                       help="driver ideal: what jobs are expected to run")  # fmt: skip
    group.add_argument("--late", choices=["steps", "limit"], default="steps",
                       help="how long a job runs on that outlives what was expected")  # fmt: skip
    group.add_argument("--max-slip-s", type=at_least(0), default=3600, metavar="S",
                       help="how far a job may put off a promise by its limit")  # fmt: skip
    group.add_argument("--one-start", action="store_true",
                       help="driver ideal: decide anew after each start")  # fmt: skip
    group.add_argument("--training", type=Path, metavar="DIR",
                       help="measured tables by which training jobs run")  # fmt: skip
    group.add_argument("--lossless", action="store_true",
                       help="a job that is stopped saves its work first")  # fmt: skip
    group.add_argument("--restart-s", type=at_least(0), metavar="S",
                       help="cost of a restart for all jobs; else the trace's")  # fmt: skip
    group.add_argument("--set", action="append", default=[], dest="overrides",
                       metavar="PARAMETER=VALUE", help="a parameter of the policy")  # fmt: skip
    group.add_argument(
        "--interval-s", type=at_least(1), default=30, help="between cycles of the daemon"
    )
    group.add_argument("--lease-s", type=at_least(1), default=300, help="length of a deferral")
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


def at_least(least: int) -> Callable[[str], int]:
    """A whole number of at least this, for argparse."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if not least <= value < 1 << 62:
            raise argparse.ArgumentTypeError(f"{text} is not a number of at least {least}")
        return value

    return parse


def share(text: str) -> float:
    """A share from 0 to below 1, for argparse."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to below 1")
    return value


def number(option: str, text: str) -> int:
    """A whole number from 0 on.

    :raises TraceError: anything else, with the option.
    """
    try:
        value = int(text)
    except ValueError:
        raise TraceError(f"{option}: {text!r} is not a whole number") from None
    if not 0 <= value < 1 << 62:
        raise TraceError(f"{option}: {text} is below 0 or absurdly large")
    return value
