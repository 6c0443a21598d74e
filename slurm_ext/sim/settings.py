"""How the simulated Slurm and the simulated daemon behave; defaults as in slurm.conf(5), 22.05."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """Timing and depth of Slurm's two schedulers, and how jobs come and go. Seconds, counts.

    ``sched_interval_s``: whole-queue pass of the main scheduler; ``queue_depth`` jobs at most in
    the passes after events. ``submit_delay_s``: batch_sched_delay. ``update_delay_s``: after a job
    was changed by ``scontrol`` (1-3 s measured). ``plans``: planned starts a backfill pass makes
    (0: for every job it tests, as Slurm does; 1: EASY); a plan reserves whole nodes.
    ``end_window_s``: how far apart ends of running jobs count as one when a plan is made, doubled
    each time (30 in select/cons_tres; 0: each counts). ``start_latency_s``: from allocation to the
    first work. ``term_s``: how long a process takes to end on SIGTERM, ``kill_wait_s`` at most.
    ``epilog_s``: nodes are unclean that long after an end. ``kill``: time limits are enforced.
    ``submit_lease_s``: begin time stamped by job_submit.lua.
    ``requeue_delay_s``: credential lifetime, which a requeued job waits out, and one second more.
    ``size_weight``: PriorityWeightJobSize, larger jobs first; without it jobs go by submission.
    """

    sched_interval_s: int = 60
    queue_depth: int = 100
    submit_delay_s: int = 3
    end_delay_s: int = 0
    update_delay_s: int = 1
    bf_interval_s: int = 30
    bf_window_s: int = 86_400
    bf_resolution_s: int = 60
    bf_max_job_test: int = 500
    plans: int = 0
    end_window_s: int = 30
    start_latency_s: int = 1
    term_s: int = 1
    kill_wait_s: int = 30
    epilog_s: int = 0
    kill: bool = True
    submit_lease_s: int = 0
    requeue_delay_s: int = 120
    size_weight: int = 0
    default_limit_s: int = 7 * 86_400


PROMPT = SlurmSettings(
    submit_delay_s=0,
    update_delay_s=0,
    start_latency_s=0,
    term_s=0,
    plans=1,
    end_window_s=0,
    bf_window_s=1 << 40,
    bf_resolution_s=1,
)
"""A Slurm without delays and with EASY backfill, for comparison with the literature."""
