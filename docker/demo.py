"""The demo: a mini-Slurm, a workload, the daemon in mode enforce, and the live view.

Where Slurm is not installed it says so and ends; nothing is simulated under the name of Slurm.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
LUA = HERE.parent / "slurm_ext" / "slurm" / "lua" / "job_submit.lua"
LAUNCHER: list[object] = [sys.executable, str(HERE / "minislurm")]

CONFIG = """\
mode = "enforce"
[policy]
name = "{policy}"
[cycle]
interval_s = 2
min_interval_s = 0.5
[levers]
lease_s = 60
[state]
dir = "{root}/state"
run_dir = "{root}/run"
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0, help="end by itself (0: Ctrl-C)")
    parser.add_argument("--policy", default="sjf")
    parser.add_argument("--jobs", type=int, default=60)
    args = parser.parse_args()
    # A terminal that is closed must not leave a cluster behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm_ext-demo-")))
        cluster = root / "cluster"
        stamp = root / "job_submit.lua"
        stamp.write_text(
            LUA.read_text(encoding="utf-8").replace("/run/slurm_ext/", f"{root}/run/"),
            encoding="utf-8",
        )
        up: list[object] = [*LAUNCHER, "up", "--dir", cluster, "--nodes", "4", "--gpus", "8"]
        up += ["--sched", "tuned", "--job-submit-lua", stamp]
        subprocess.run([str(a) for a in up], check=True, stdout=sys.stderr)
        down = [str(a) for a in [*LAUNCHER, "down", "--dir", cluster]]
        stack.callback(subprocess.run, down, stdout=sys.stderr)
        environment = {**os.environ, "SLURM_CONF": str(cluster / "etc" / "slurm.conf")}
        config = root / "slurm_ext.toml"
        config.write_text(CONFIG.format(policy=args.policy, root=root), encoding="utf-8")
        run(args, root, config, environment, stack)
    return 0


def run(
    args: argparse.Namespace,
    root: Path,
    config: Path,
    environment: dict[str, str],
    stack: ExitStack,
) -> None:
    """Daemon and workload in the background, the view in front."""
    ours = [sys.executable, "-m", "slurm_ext"]
    log = stack.enter_context((root / "daemon.log").open("wb"))
    background(stack, [*ours, "serve", "--config", config], environment, log)
    background(
        stack, [sys.executable, HERE / "workload.py", "--count", args.jobs], environment, log
    )
    ends_s = time.monotonic() + args.seconds if args.seconds else float("inf")
    view = [*ours, "top", "--config", config]
    try:
        if sys.stdout.isatty() and not args.seconds:
            subprocess.run([str(a) for a in view], env=environment, check=False)
        else:
            print_views([*view, "--once"], environment, ends_s)
    except KeyboardInterrupt:
        pass
    subprocess.run(
        [str(a) for a in [*ours, "status", "--config", config]], env=environment, check=False
    )


def print_views(view: list[object], environment: dict[str, str], ends_s: float) -> None:
    """Without a terminal: one view every few seconds until the queue is empty or time is up."""
    quiet = 0
    while time.monotonic() < ends_s and quiet < 3:
        time.sleep(5)
        subprocess.run([str(a) for a in view], env=environment, check=False)
        queue = subprocess.run(
            ["squeue", "-h"], env=environment, capture_output=True, text=True, check=False
        )
        quiet = 0 if queue.stdout.strip() else quiet + 1


def background(
    stack: ExitStack, command: list[object], environment: dict[str, str], log: object
) -> None:
    """Start a process that ends with the demo."""
    process = subprocess.Popen(
        [str(a) for a in command],
        env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,  # type: ignore[call-overload]
    )  # fmt: skip

    def end() -> None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(end)


if __name__ == "__main__":
    sys.exit(main())
