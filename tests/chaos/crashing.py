"""``slurm-ext`` with one fault built in: dies, or dawdles, at one call of one function.

usage: python crashing.py NAME:HOW:WHICH ARGS…  HOW is ``before`` or ``after`` (dies with exit
code 9) or ``wait`` (makes the file $CHAOS_MARK and waits before the call until somebody takes it
away). WHICH is the number of the call, or a text: the first call that has it in its arguments.
``cut:before:TEXT``, ``cut:after:TEXT``, ``cut:half:N``: of the scontrol commands sent together or
one by one, dies before or after the first that has the text, or halfway through the N-th batch.
With $CHAOS_RESIZE_TO every running elastic job is wanted on that many GPUs, once.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slurm_ext.cli.main import main
from slurm_ext.daemon import runner
from slurm_ext.daemon.journal import Journal
from slurm_ext.slurm import writer
from slurm_ext.slurm.cli import CliSlurm

sys.path.append(str(Path(__file__).parents[2]))
from tests.integration.forcing import forcing

OWNERS: dict[str, Any] = {
    "observe": CliSlurm,
    "patch": CliSlurm,
    "reserve": CliSlurm,
    "signal": CliSlurm,
    "requeue": CliSlurm,
    "send": writer.Writer,
    "entries": Journal,
    "commit_intents": Journal,
    "record_outcomes": Journal,
    "forget": Journal,
    "save_restarts": Journal,
    "record_starts": Journal,
    "record_changes": Journal,
    "record_cycle": Journal,
}


def _die() -> None:
    os._exit(9)


def _wait() -> None:
    """A test that forgets us is no reason to stay for ever."""
    mark, end = Path(os.environ["CHAOS_MARK"]), time.monotonic() + 120
    mark.touch()
    while mark.exists():
        if time.monotonic() > end:
            os._exit(8)
        time.sleep(0.02)


def _wrapped(real: Callable[..., Any], how: str, which: str) -> Callable[..., Any]:
    calls = 0

    def call(*args: Any, **named: Any) -> Any:
        nonlocal calls
        met = which.isdigit() or (calls == 0 and which in repr(args[1:]))
        calls += met
        due = met and calls == (int(which) if which.isdigit() else 1)
        if due and how == "before":
            _die()
        if due and how == "wait":
            _wait()
        result = real(*args, **named)
        if due and how == "after":
            _die()
        return result

    return call


def _cut(real: Callable[..., Any], how: str, which: str) -> Callable[..., Any]:
    batches = 0

    def call(runner: Any, commands: list[str], **named: Any) -> Any:
        nonlocal batches
        batches += len(commands) > 1
        end = -1
        if how == "half":
            end = len(commands) // 2 if batches == int(which) else -1
        elif any(which in command for command in commands):
            first = next(i for i, command in enumerate(commands) if which in command)
            end = first + (how == "after")
        if end < 0:
            return real(runner, commands, **named)
        if end:
            real(runner, commands[:end], **named)
        return _die()

    return call


def _cut_alone(real: Callable[..., Any], how: str, which: str) -> Callable[..., Any]:
    def call(self: Any, words: list[str]) -> Any:
        met = how != "half" and which in " ".join(words)
        if met and how == "before":
            _die()
        result = real(self, words)
        return _die() if met else result

    return call


def arm(point: str) -> None:
    """Put the fault in place."""
    name, how, which = point.split(":", 2)
    if name == "cut":
        writer.run_batch = _cut(writer.run_batch, how, which)
        writer.Writer._run = _cut_alone(writer.Writer._run, how, which)  # type: ignore[method-assign]
        return
    owner = OWNERS[name]
    name = "_send" if name == "send" else name
    setattr(owner, name, _wrapped(getattr(owner, name), how, which))


if __name__ == "__main__":
    arm(sys.argv[1])
    if gpus := int(os.environ.get("CHAOS_RESIZE_TO", "0")):
        runner.decide = lambda obs, ctx: forcing(gpus, obs, ctx)  # type: ignore[assignment]
    sys.exit(main(sys.argv[2:]))
