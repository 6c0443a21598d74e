"""decide() alone on a generated queue: CPU seconds and memory at growing sizes.

python3 bench/decide.py [--jobs N --nodes N] [--kind easy --depth 1] [--topology] [--profile]

Three candidate placements a job that starts, a promise for each of the first blocked jobs, and a
forecast for all. Garbage collection rests meanwhile, as in the daemon.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import random
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from slurm_ext.engine.cycle import decide
from slurm_ext.engine.settings import BackfillSettings
from slurm_ext.model.job import Request
from slurm_ext.model.observation import Observation
from slurm_ext.topology.fabric import Rates
from slurm_ext.topology.fabric_text import parse_topology
from slurm_ext.topology.presets import PRESETS
from slurm_ext.topology.site import ShapeGroup, SiteTopology
from tests.builders import NOW, context, job, node, observation

SIZES = tuple((jobs, nodes) for nodes in (300, 1_000, 5_000)
              for jobs in (1_000, 3_000, 10_000, 30_000))  # fmt: skip


def build(jobs: int, nodes: int, seed: int = 1) -> Observation:
    """A full cluster of 8-GPU nodes (a few GPUs free here and there) and a long mixed queue."""
    rng = random.Random(seed)
    machines, running = [], []
    for i in range(nodes):
        busy = rng.choice((8, 8, 8, 8, 7, 6, 4))
        name = f"n{i:05d}"
        machines.append(node(name, used=range(busy), cpus_used=busy * 4, mem_used=busy * 1000))
        running.append(
            job(1_000_000 + i, on={name: busy}, cpus=busy * 4, mem=busy * 1000,
                end=NOW + rng.randrange(60, 86_400))
        )  # fmt: skip
    requests: dict[Request, Request] = {}
    waiting = [
        job(i + 1, gpus=rng.choice((1, 1, 2, 4, 8)), nodes=rng.choice((1, 1, 1, 1, 2, 4, 16)),
            cpus=rng.choice((1, 4, 8, 16)), mem=rng.choice((1000, 4000, 16_000)),
            limit=rng.choice((600, 3600, 14_400, 86_400)), submit=NOW - rng.randrange(86_400),
            priority=rng.randrange(1, 10_000), user=f"u{rng.randrange(50)}")
        for i in range(jobs)
    ]  # fmt: skip
    # Jobs that ask the same share one object, as the readers make them.
    waiting = [replace(j, request=requests.setdefault(j.request, j.request)) for j in waiting]
    return observation(machines, [*running, *waiting])


def site(obs: Observation) -> SiteTopology:
    """PCIe servers with two sockets, half-speed leaves of 32 nodes under one spine."""
    names = [n.name for n in obs.nodes]
    leaves = [names[i : i + 32] for i in range(0, len(names), 32)]
    lines = [f"SwitchName=l{i} Nodes={','.join(leaf)}" for i, leaf in enumerate(leaves)]
    fabric = parse_topology("\n".join([*lines, f"SwitchName=top Switches=l[0-{len(leaves) - 1}]"]))
    shapes = (ShapeGroup(tuple(names), PRESETS["pcie-8"].shape),)
    return SiteTopology(shapes, fabric, Rates(25.0, (2.0,)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--kind", default="conservative")
    parser.add_argument("--depth", type=int, default=100, help="jobs that are promised a start")
    parser.add_argument("--policy", default="multifactor")
    parser.add_argument("--topology", action="store_true", help="links, and leaves of 32 nodes")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    sizes = ((args.jobs or 10_000, args.nodes or 1_000),) if args.jobs or args.nodes else SIZES
    print(f"{'jobs':>8} {'nodes':>7} {'best s':>8} {'median s':>9} {'RSS MiB':>8}")
    plain = context(
        args.policy, backfill=BackfillSettings(kind=args.kind, fences=args.depth, depth=args.depth)
    )
    for jobs, nodes in sizes:
        obs = build(jobs, nodes)
        ctx = replace(plain, topology=site(obs)) if args.topology else plain
        seconds = []
        gc.collect()
        gc.disable()
        for _ in range(args.repeat):
            begun = time.process_time()  # one thread: CPU time, so that neighbours do not count
            decide(obs, ctx)
            seconds.append(time.process_time() - begun)
        gc.enable()
        seconds.sort()
        rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"{jobs:>8} {nodes:>7} {seconds[0]:>8.3f} {seconds[len(seconds) // 2]:>9.3f} "
            f"{rss_mib:>8}",
            flush=True,
        )
        if args.profile:
            profile = cProfile.Profile()
            profile.runcall(decide, obs, ctx)
            pstats.Stats(profile).sort_stats("cumulative").print_stats(25)
    return 0


if __name__ == "__main__":
    sys.exit(main())
