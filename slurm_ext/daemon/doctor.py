"""What may keep us from working well on this cluster, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterator

from slurm_ext.engine.parts.weighted import SLURM_WEIGHTS
from slurm_ext.model.decision import Mode
from slurm_ext.model.observation import Controller
from slurm_ext.policies import for_daemon

from .config import Config
from .context import wants_factors
from .estimates import HistoryState
from .findings import Facts, Finding, Level


def examine(facts: Facts, config: Config) -> list[Finding]:
    """All findings, most important first."""
    found = [
        *_version(facts.controller),
        *_ways(facts),
        *_privileges(facts, config),
        *_priority(facts.controller, config),
        *_factors(facts.controller, config),
        *_scheduler(facts.controller),
        *_locks(facts),
        *_gres(facts),
        *_limits(facts.controller, facts),
        *_clock(facts),
        *_parsing(facts),
        *_configuration(facts, config),
        *_history(facts.history, config),
    ]
    rank = {Level.ERROR: 0, Level.WARNING: 1, Level.NOTE: 2, Level.OK: 3}
    return sorted(found, key=lambda f: rank[f.level])


TRIED = {(22, 5), (24, 11), (25, 11), (26, 5)}
"""Slurm releases whose recorded answers the parsers are tested with."""


def _version(controller: Controller) -> Iterator[Finding]:
    version = controller.version
    text = controller.release or "unknown"
    if not version or version[:2] < (22, 5):
        yield Finding(
            Level.ERROR, "version", f"Slurm {text} is older than 22.05",
            "upgrade Slurm; older versions were never tried",
        )  # fmt: skip
        return
    known = version[:2] in TRIED
    yield Finding(
        Level.OK if known else Level.NOTE, "version", f"Slurm {text}",
        "" if known else "no recorded answers of this release; run observe mode for a while",
    )  # fmt: skip
    if (version[:2] == (23, 2) and 2 <= version[-1] <= 5) or version == (22, 5, 0):
        yield Finding(
            Level.WARNING, "gpu_selection_bugs",
            f"Slurm {text} has known faults in GPU selection: predictions will be off",
            "install the last patch level of this release",
        )  # fmt: skip


def _ways(facts: Facts) -> Iterator[Finding]:
    for way in facts.ways:
        if way.works is False:
            yield Finding(
                Level.WARNING, "backend", f"{way.name} {way.text}",
                "cure it, or choose another one: slurm.backend",
            )  # fmt: skip
        else:
            level = Level.OK if way.works else Level.NOTE
            note = f"; {way.note}" if way.note else ""
            yield Finding(level, "backend", f"{way.name}: {way.text}{note}")


def _privileges(facts: Facts, config: Config) -> Iterator[Finding]:
    level = facts.admin_level
    acting = config.mode is not Mode.OBSERVE or any(
        p.mode not in (None, Mode.OBSERVE) for p in config.partitions.values()
    )
    if level in ("SlurmUser", "Administrator"):
        yield Finding(Level.OK, "privileges", f"runs as {level}: undo notes are written")
    elif level == "Operator":
        yield Finding(
            Level.NOTE, "privileges", "runs as Operator: no undo notes in AdminComment",
            "fine with leases; for defer = \"hold\" run as SlurmUser, or keep the journal safe",
        )  # fmt: skip
    else:
        yield Finding(
            Level.ERROR if acting else Level.NOTE, "privileges",
            "this account may not steer other users' jobs",
            "sacctmgr modify user NAME set adminlevel=Operator, or run as SlurmUser; "
            "mode observe needs nothing",
        )  # fmt: skip
    if level == "Operator" and config.levers.defer == "hold":
        yield Finding(
            Level.ERROR, "hold_without_notes",
            'defer = "hold" without undo notes: a lost journal would leave jobs held',
            'use defer = "lease", or run as SlurmUser',
        )  # fmt: skip


def _priority(controller: Controller, config: Config) -> Iterator[Finding]:
    if controller.multifactor:
        yield Finding(Level.OK, "priority_type", "priority/multifactor: SiteFactor works")
    else:
        yield Finding(
            Level.WARNING, "priority_type",
            f"{controller.value('PriorityType') or 'no PriorityType'}: SiteFactor has no effect, "
            "mode order does nothing, and enforce must defer every waiting job",
            "set PriorityType=priority/multifactor in slurm.conf",
        )  # fmt: skip
    flags = controller.value("PriorityFlags").upper()
    if "limits" in controller.value("AccountingStorageEnforce").lower() and (
        "ACCRUE_ALWAYS" not in flags
    ):
        yield Finding(
            Level.WARNING, "accrue_always",
            "deferred jobs lose their age factor (limits are enforced, ACCRUE_ALWAYS is not set)",
            "add PriorityFlags=ACCRUE_ALWAYS to slurm.conf",
        )  # fmt: skip
    plugin = controller.value("PrioritySiteFactorPlugin")
    if plugin and plugin not in ("site_factor/none", "none"):
        yield Finding(
            Level.WARNING, "site_factor_plugin", f"{plugin} may overwrite our SiteFactor",
            "remove PrioritySiteFactorPlugin, or set levers.site_factor = false",
        )  # fmt: skip


def _factors(controller: Controller, config: Config) -> Iterator[Finding]:
    """Slurm's own factors that the policy weighs and Slurm does not work out."""
    if not wants_factors(config):
        return
    weights = for_daemon(config.policy.name, config.policy.parameters).parameters()
    missing = [
        key
        for name, key in SLURM_WEIGHTS.items()
        if weights.get(f"ordering.weight_{name}") and controller.value(key, "0") == "0"
    ]
    if not controller.multifactor:
        missing = ["PriorityType=priority/multifactor"]
    if missing:
        yield Finding(
            Level.WARNING, "slurm_factors",
            f"Slurm does not work out factors that the policy weighs: {', '.join(missing)}",
            "set these in slurm.conf (a weight of 1 is enough), or take the policy's weights away",
        )  # fmt: skip


def _scheduler(controller: Controller) -> Iterator[Finding]:
    kind = controller.value("SchedulerType")
    if kind and kind != "sched/backfill":
        yield Finding(
            Level.WARNING, "scheduler_type", f"{kind}: jobs we pass over a blocked one start late",
            "set SchedulerType=sched/backfill",
        )  # fmt: skip
    select = controller.value("SelectType")
    if select != "select/cons_tres":
        yield Finding(
            Level.ERROR, "select_type", f"{select or 'no SelectType'}: GPUs are not scheduled",
            "set SelectType=select/cons_tres",
        )  # fmt: skip
    parameters = controller.value("SchedulerParameters").lower()
    if "bf_topopt_enable" in parameters:
        yield Finding(
            Level.WARNING, "bf_topopt", "bf_topopt_enable delays jobs for topology by itself",
            "remove it, or leave those partitions in mode observe",
        )  # fmt: skip
    if "bf_interval" not in parameters:
        yield Finding(
            Level.NOTE, "bf_interval", "bf_interval is at its default of 30 s",
            "with jobs of minutes, bf_interval=5,bf_continue let gaps be filled sooner",
        )  # fmt: skip


LONG_QUEUE = 1000
"""Waiting jobs from which on one pass of slurmctld's backfill takes longer than its yield."""


def _locks(facts: Facts) -> Iterator[Finding]:
    waiting = sum(job.state.pending for job in facts.observation.jobs)
    parameters = facts.controller.value("SchedulerParameters").lower()
    if waiting >= LONG_QUEUE and "bf_yield_interval" not in parameters:
        yield Finding(
            Level.NOTE, "bf_yield_interval",
            f"{waiting} jobs wait, and slurmctld's backfill keeps its locks for up to 2 s at a "
            "time: a look at Slurm waits as long",
            "add bf_yield_interval=200000 to SchedulerParameters",
        )  # fmt: skip


def _gres(facts: Facts) -> Iterator[Finding]:
    nodes = [n for n in facts.observation.nodes if n.gpu_count]
    if not nodes:
        yield Finding(
            Level.WARNING, "no_gpus", "no node has GPUs (GresTypes=gpu, Gres= and gres.conf)",
            "without GPUs only CPUs and memory are planned",
        )  # fmt: skip
        return
    blind = [n.name for n in nodes if n.gpu_used_count > n.gpu_used.bit_count()]
    if blind:
        yield Finding(
            Level.WARNING, "gres_without_index",
            f"{len(blind)} nodes show used GPUs without an index, such as {blind[0]}",
            "give every GPU a File= in gres.conf; shared GPUs are planned by count only",
        )  # fmt: skip
    tracked = facts.controller.value("AccountingStorageTRES").lower()
    if "gres/gpu" not in tracked:
        yield Finding(
            Level.WARNING, "tres", "AccountingStorageTRES does not name gres/gpu: the GPUs of jobs "
            "that ask with --gpus are not shown, and history learns nothing of GPUs",
            "add AccountingStorageTRES=gres/gpu to slurm.conf",
        )  # fmt: skip
    down = [n for n in nodes if not n.usable]
    if down:
        yield Finding(
            Level.NOTE, "nodes_down",
            f"{len(down)} of {len(nodes)} GPU nodes are down, drained or not usable",
            "sinfo -R shows why",
        )  # fmt: skip


def _limits(controller: Controller, facts: Facts) -> Iterator[Finding]:
    if "rl_enable" in controller.value("SlurmctldParameters") and facts.admin_level != "SlurmUser":
        yield Finding(
            Level.WARNING, "rate_limit",
            "slurmctld limits requests per user, and we are not exempt",
            "keep levers.write_tokens_per_s below rl_refill_rate, or run as SlurmUser",
        )  # fmt: skip
    preempt = controller.value("PreemptType")
    if preempt and preempt not in ("preempt/none", "none"):
        yield Finding(
            Level.NOTE, "preemption", f"{preempt}: Slurm preempts jobs by itself",
            "our fences do not foresee its preemptions",
        )  # fmt: skip
    if controller.value("JobRequeue") == "0":
        yield Finding(
            Level.NOTE, "job_requeue", "JobRequeue=0: only jobs with --requeue can be requeued"
        )


def _clock(facts: Facts) -> Iterator[Finding]:
    if facts.skew_s is None:
        return
    if abs(facts.skew_s) > 2:
        yield Finding(
            Level.ERROR if abs(facts.skew_s) > 30 else Level.WARNING, "clock_skew",
            f"the controller's clock is {facts.skew_s:+.0f} s from ours: leases end at other times",
            "run a time service on both hosts",
        )  # fmt: skip
    else:
        yield Finding(Level.OK, "clock", "controller clock and ours agree")


def _parsing(facts: Facts) -> Iterator[Finding]:
    problems = facts.observation.problems
    if problems:
        first = problems[0]
        yield Finding(
            Level.WARNING, "unreadable",
            f"{len(problems)} records could not be read in full, such as {first.kind} "
            f"{first.subject}: {first.detail}",
            "they are carried as occupied and left to Slurm; please report them",
        )  # fmt: skip
    if facts.differences is None:
        return
    if facts.differences:
        yield Finding(
            Level.WARNING, "text_json",
            f"text and JSON output disagree in {len(facts.differences)} fields, such as "
            f"{facts.differences[0]}",
            "please report it; slurm.format = \"json\" uses the other one",
        )  # fmt: skip
    else:
        yield Finding(Level.OK, "text_json", "text and JSON output agree")


def _configuration(facts: Facts, config: Config) -> Iterator[Finding]:
    for problem in config.unknown_partitions({p.name for p in facts.observation.partitions}):
        yield Finding(Level.WARNING, "partition", problem, "correct or remove the table")
    if config.mode is Mode.OBSERVE and not any(p.mode for p in config.partitions.values()):
        yield Finding(
            Level.NOTE, "mode", "mode observe: decisions are recorded, nothing is touched",
            "set mode = \"order\" or \"enforce\", at first for one partition",
        )  # fmt: skip


LEAST_COVERAGE = 0.6
"""Of p10 to p90, which should hold 80 of 100 run times: below it, work has changed (drift)."""


def _history(history: HistoryState | None, config: Config) -> Iterator[Finding]:
    if history is None or not config.history.use:
        return
    if history.problem:
        # Never fitted is how everybody begins; a file that is refused was meant to be used.
        missing = not config.artefact_path.exists()
        yield Finding(
            Level.NOTE if missing else Level.WARNING, "history",
            f"jobs are planned with their time limits: {history.problem}",
            "slurm-ext history sync && slurm-ext history fit, or systemctl enable --now "
            "slurm-ext-history.timer; or set history.use = false",
        )  # fmt: skip
    elif history.coverage is not None and history.coverage < LEAST_COVERAGE:
        yield Finding(
            Level.WARNING, "history_drift",
            f"only {history.coverage:.0%} of last week's run times were within the range expected",
            "work has changed: fit again; if it stays so, see slurm-ext history eval",
        )  # fmt: skip
    else:
        yield Finding(Level.OK, "history", f"run times are learnt from {history.attempts} attempts")
