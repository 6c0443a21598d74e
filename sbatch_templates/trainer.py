"""A small stand-in for a training program: takes GPUs and CPUs, no framework, no real GPU.

It counts units of work at a speed that follows the ring model (Capes et al. 2018) and the CPUs:

    seconds per unit = t0/w + t1(w-1) + t2(w-1)/w + t3      w: GPUs of the job
    speed            = 1 / that * min(1, CPUs per GPU / CPUs per GPU wanted)

What is real: it writes its state on a signal and at intervals (atomically), it goes on from that
state after a restart, on any number of GPUs, and it reports its progress as slurm_ext reads it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

TICK_S = 0.2
RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def find_reporter() -> object | None:
    """``Reporter`` of slurm_ext, installed, from this file's tree, or copied beside this file."""
    for parent in list(Path(__file__).resolve().parents)[1:3]:
        if (parent / "slurm_ext" / "report.py").exists():
            sys.path.append(str(parent))
    try:
        from slurm_ext.report import Reporter
    except ImportError:
        try:
            from report import Reporter  # type: ignore[import-not-found,no-redef,unused-ignore]
        except ImportError:
            return None
    return Reporter(min_interval_s=1.0)


def number(*names: str) -> int:
    """The first of these environment variables that is a number; 0 if none is."""
    return next((int(os.environ[n]) for n in names if os.environ.get(n, "").isdigit()), 0)


def options() -> argparse.Namespace:
    nodes = number("SLURM_JOB_NUM_NODES") or 1
    gpus = number("SLURM_GPUS_ON_NODE") * nodes
    cpus = number("SLURM_CPUS_ON_NODE") * nodes
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=float, default=100, help="units of work in all")
    parser.add_argument("--state", type=Path, required=True, help="file of the checkpoint")
    parser.add_argument("--gpus", type=int, default=gpus or 1, help="default: as allocated")
    parser.add_argument("--cpus", type=int, default=cpus or 1, help="default: as allocated")
    parser.add_argument("--theta", type=float, nargs=4, default=[0.1, 0, 0.002, 0.003],
                        metavar="S", help="t0 t1 t2 t3, in seconds")  # fmt: skip
    parser.add_argument("--cpus-per-gpu", type=float, default=1, help="wanted for full speed")
    parser.add_argument("--checkpoint-every", type=float, default=30, metavar="S")
    parser.add_argument("--checkpoint-takes", type=float, default=0, metavar="S")
    parser.add_argument("--start-takes", type=float, default=0, metavar="S")
    return parser.parse_args()


def speed(args: argparse.Namespace) -> float:
    """Units of work per second."""
    w = max(1, args.gpus)
    t0, t1, t2, t3 = args.theta
    fed = min(1.0, args.cpus / w / args.cpus_per_gpu) if args.cpus_per_gpu > 0 else 1.0
    rate: float = fed / (t0 / w + t1 * (w - 1) + t2 * (w - 1) / w + t3)
    return rate


class Training:
    """The state, and the flags that signals set."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.done = 0.0
        self.asked = self.ending = False
        self.reporter = find_reporter()
        signal.signal(signal.SIGUSR1, self.on_checkpoint)
        signal.signal(signal.SIGTERM, self.on_end)

    def on_checkpoint(self, *_: object) -> None:
        self.asked = True

    def on_end(self, *_: object) -> None:
        self.asked = self.ending = True

    def load(self) -> None:
        """Go on from the checkpoint, whatever number of GPUs wrote it."""
        try:
            state = json.loads(self.args.state.read_text())
            self.done = float(state["done"])
            print(f"resumed at {self.done:.1f} from {state['gpus']} GPUs", flush=True)
        except FileNotFoundError:
            print("starting from the beginning", flush=True)

    def save(self) -> None:
        """Write the state whole or not at all, then say so."""
        time.sleep(self.args.checkpoint_takes)
        self.args.state.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.args.state.with_suffix(".new")
        with fresh.open("w") as file:
            json.dump({"done": self.done, "gpus": self.args.gpus}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.args.state)
        if self.reporter is not None:
            self.reporter.checkpoint(self.done, self.args.gpus)  # type: ignore[attr-defined]
        print(f"checkpoint at {self.done:.1f} of {self.args.work:g}", flush=True)

    def run(self) -> int:
        """Work until it is done; 143 when told to end before."""
        args = self.args
        time.sleep(args.start_takes)
        self.load()
        rate = speed(args)
        print(f"{args.gpus} GPUs, {args.cpus} CPUs: {rate:.2f} units/s", flush=True)
        last = saved = time.monotonic()
        while self.done < args.work:
            time.sleep(min(TICK_S, (args.work - self.done) / rate))
            now = time.monotonic()
            self.done = min(args.work, self.done + (now - last) * rate)
            last = now
            if self.reporter is not None:
                self.reporter.progress(  # type: ignore[attr-defined]
                    self.done, samples_per_s=rate * 32, loss=1 / (1 + self.done),
                    batch_size=32, gpus=args.gpus,
                )  # fmt: skip
            if self.asked or now - saved >= args.checkpoint_every:
                self.asked = False
                self.save()
                last = saved = time.monotonic()
            if self.ending and not self.asked:
                return 143
        self.save()
        print("done", flush=True)
        return 0


def main() -> int:
    """Rank 0 stands for all; the others end at once."""
    args = options()
    rank = next((os.environ[name] for name in RANKS if name in os.environ), "0")
    return Training(args).run() if rank == "0" else 0


if __name__ == "__main__":
    sys.exit(main())
