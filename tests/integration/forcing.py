"""``slurm-ext`` that wants every running elastic job on another number of GPUs, once.

usage: python forcing.py GPUS ARGS…
"""

from __future__ import annotations

import sys
from dataclasses import replace

from slurm_ext.cli.main import main
from slurm_ext.daemon import runner
from slurm_ext.engine.cycle import Step, decide
from slurm_ext.engine.settings import Context
from slurm_ext.model.decision import Reason, Resize, Stage
from slurm_ext.model.observation import Observation
from slurm_ext.model.reshape import shape_of


def forcing(gpus: int, obs: Observation, ctx: Context) -> Step:
    """The decision, with the resizes that are wanted here."""
    step = decide(obs, ctx)
    wanted = [
        Resize(j.key, j.address, sum(s.gpus for s in j.alloc),
               shape_of(j.request)._replace(gpus_per_node=gpus), 1e6, 1.0,
               Reason("forced", Stage.PREEMPT))
        for j in obs.jobs
        if j.state.running and not j.restarts and j.key in ctx.annotations
        and ctx.annotations[j.key].scaling.kind == "elastic"
    ]  # fmt: skip
    return replace(step, plan=replace(step.plan, resizes=tuple(wanted)))


if __name__ == "__main__":
    count = int(sys.argv[1])
    runner.decide = lambda obs, ctx: forcing(count, obs, ctx)  # type: ignore[assignment]
    sys.exit(main(sys.argv[2:]))
