"""Events per second of the simulator, with peak memory: ``python bench/sim.py --help``.

A generated workload (seeded) under Slurm's own EASY backfill in FIFO order, or under the decision
core. An event is anything taken from the event queue: submits, ends, scheduler passes, cycles.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import sys
from dataclasses import replace
from time import process_time

from slurm_ext.engine.settings import LeverSettings
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.generate import Shape, generate
from slurm_ext.sim.metrics import measure
from slurm_ext.sim.scenario import DRIVERS, Scenario, run
from slurm_ext.sim.settings import PROMPT, SlurmSettings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--driver", choices=DRIVERS, default="stock")
    parser.add_argument("--policy", default="fifo")
    parser.add_argument("--real-slurm", action="store_true", help="delays and plans of slurm.conf")
    parser.add_argument("--interval", type=int, default=30, help="seconds between daemon cycles")
    parser.add_argument("--round", type=int, default=-1, help="ideal: decide that often, seconds")
    parser.add_argument("--whole", action="store_true", help="ideal: decide() at every change")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    spec = ClusterSpec.uniform(args.nodes)
    workload = generate(Shape(jobs=args.jobs, load=args.load), spec, args.seed)
    slurm = SlurmSettings() if args.real_slurm else PROMPT
    scenario = replace(
        Scenario(args.driver, args.policy, slurm=slurm),
        round_s=args.round,
        fast=not args.whole,
        levers=LeverSettings(interval_s=args.interval),
    )
    profiler = cProfile.Profile() if args.profile else None
    if profiler is not None:
        profiler.enable()
    began_s = process_time()
    result = run(scenario, workload, spec)
    cpu_s = process_time() - began_s
    if profiler is not None:
        profiler.disable()
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(25)
    found = measure(result)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{scenario.label}: {args.jobs} jobs, {args.nodes} nodes, load {args.load}")
    print(f"{result.wall_s:.1f} s, of one core {cpu_s:.1f} s; {result.events} events")
    print(f"{result.events / cpu_s:.0f} events per second of one core")
    print(f"peak memory {peak_mib:.0f} MiB")
    print(f"mean JCT {found.jct_mean_s:.0f} s, mean wait {found.wait_mean_s:.0f} s")
    print(f"makespan {found.makespan_s:.0f} s, utilisation {found.utilisation:.3f}")
    print(f"GPU use while jobs wait {1 - found.fragmentation:.3f}")
    for name, value in result.counters.items():
        print(f"{name}: {value:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
