"""``pause``, ``resume``, ``recover``, ``requeue``: what an operator does by hand."""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from slurm_ext.daemon import requeue
from slurm_ext.daemon.client import listens, tell
from slurm_ext.daemon.config import Config
from slurm_ext.daemon.directory import make_directory
from slurm_ext.daemon.journal import Journal
from slurm_ext.daemon.lock import DaemonLock, read_heartbeat
from slurm_ext.daemon.recover import fail_open
from slurm_ext.engine.restart import COOL_S
from slurm_ext.errors import JournalError, LockedError, SlurmExtError
from slurm_ext.model.job import Job, JobKey
from slurm_ext.slurm.port import SlurmPort

from .common import (
    add_config_options,
    can_write_notes,
    connect,
    console,
    has_journal,
    read_config,
    safe,
    user_name,
)


def add_parser(verbs: Any) -> None:
    """Register the verbs."""
    pause = verbs.add_parser(
        "pause", help="make the daemon give all jobs back and touch nothing",
        description="From the next cycle on the daemon undoes its marks and only observes, across "
        "restarts, until 'resume'.",
        epilog="example: slurm-ext pause --hours 2 --why maintenance",
    )  # fmt: skip
    pause.add_argument("--hours", type=hours, help="resume by itself after so many hours")
    pause.add_argument("--why", default="", help="shown in status")
    pause.set_defaults(run=run_pause)
    resume = verbs.add_parser(
        "resume", help="end a pause",
        description="End a pause: from the next cycle on the configured modes are in force.",
        epilog="example: slurm-ext resume",
    )  # fmt: skip
    resume.set_defaults(run=run_resume)
    again = verbs.add_parser(
        "reload", help="make the daemon read its configuration again",
        description="The daemon checks the files it was started with and takes them before its "
        "next cycle; what is wrong is said here, and then the old configuration stays. Sections "
        "state, slurm, status and metrics need a restart.",
        epilog="example: slurm-ext reload",
    )  # fmt: skip
    again.set_defaults(run=run_reload)
    add_config_options(again)
    recover = verbs.add_parser(
        "recover", help="undo what a dead daemon left behind",
        description="Give every job we deferred, held or pinned back to Slurm and delete our "
        "reservations, from the journal and from the notes in the jobs. Refuses while a daemon "
        "runs. Without --fail-open it only acts if the daemon's heartbeat is gone (janitor).",
        epilog="example: slurm-ext recover --fail-open",
    )  # fmt: skip
    recover.add_argument(
        "--fail-open", action="store_true", help="act at once, also shortly after a daemon's death"
    )
    recover.set_defaults(run=run_recover)
    again = verbs.add_parser(
        "requeue", help="put running jobs back into the queue, within the guard's limits",
        description="scontrol requeue Incomplete, after the checks of section guard, noted in the "
        "journal; then takes off Slurm's two-minute delay. Jobs get SIGTERM at once and SIGKILL "
        "after KillWait; interactive jobs and --no-requeue jobs are refused.",
        epilog="example: slurm-ext requeue 4711 4712_3",
    )  # fmt: skip
    again.add_argument("jobs", nargs="+", metavar="JOB", help="job ids, or ARRAY_TASK")
    again.add_argument("--wait", type=float, default=60.0, metavar="S",
                         help="for the jobs to be queued again, at most so long (60)")  # fmt: skip
    again.set_defaults(run=run_requeue)
    for parser in (pause, resume, recover, again):
        add_config_options(parser)


def hours(text: str) -> float:
    """A number of hours between a second and a year."""
    value = float(text)
    if not 1 / 3600 <= value <= 8760:
        raise argparse.ArgumentTypeError(f"{text} is no number of hours between 0.001 and 8760")
    return value


def run_pause(args: argparse.Namespace) -> int:
    config = read_config(args)
    run_dir = Path(config.state.run_dir)
    if listens(run_dir):
        tell(run_dir, "pause", {"hours": args.hours, "why": args.why})
    else:
        now_s = int(time.time())
        until_s = None if args.hours is None else now_s + int(args.hours * 3600)
        with _journal(config) as journal:
            journal.pause(user_name(), now_s, until_s, args.why)
    until = "" if args.hours is None else f" for {args.hours:g} hours"
    console().print(
        f"paused{until}: the next cycle gives all jobs back; 'slurm-ext resume' ends it"
    )
    return 0


def run_resume(args: argparse.Namespace) -> int:
    config = read_config(args)
    run_dir = Path(config.state.run_dir)
    if listens(run_dir):
        tell(run_dir, "resume")
    else:
        with _journal(config) as journal:
            journal.resume(user_name(), int(time.time()))
    console().print("resumed: from the next cycle on the configured modes are in force")
    return 0


def run_reload(args: argparse.Namespace) -> int:
    config = read_config(args)
    console().print(safe(tell(Path(config.state.run_dir), "reload"), 200))
    return 0


def _journal(config: Config) -> Journal:
    if not has_journal(config):
        raise JournalError(
            f"{config.state.journal_path}: no journal; name the daemon's configuration "
            "with --config, or its state directory with --set state.dir=DIR"
        )
    return Journal.open_beside(config.state.journal_path)


def run_recover(args: argparse.Namespace) -> int:
    config = read_config(args)
    with ExitStack() as stack:
        _lock(config, stack)
        beat = read_heartbeat(config.state.heartbeat_path)
        if not args.fail_open and beat is not None and beat.fresh(int(time.time())):
            console().print("the daemon was alive a moment ago; nothing done (see --fail-open)")
            return 0
        return _give_back(config, _any_journal(config, stack))


def _lock(config: Config, stack: ExitStack) -> None:
    """The daemon's lock; a disk that cannot be written must not keep jobs from going back.

    :raises LockedError: a daemon runs.
    """
    path = config.state.lock_path
    try:
        make_directory(Path(config.state.dir))
        stack.enter_context(DaemonLock(path, cluster="", now_s=int(time.time())))
    except LockedError:
        raise
    except SlurmExtError as error:
        _say(f"{error}; going on without writing there")
        lock = DaemonLock.without_writing(path)
        if lock is not None:
            stack.enter_context(lock)


def _any_journal(config: Config, stack: ExitStack) -> Journal | None:
    """The journal to write, else to read, else none: then the notes in the jobs must do."""
    path = config.state.journal_path
    for opener in (Journal, Journal.open_readonly):
        try:
            return stack.enter_context(opener(path))
        except JournalError as error:
            _say(str(error))
    _say("going on with the notes in the jobs")
    return None


def _give_back(config: Config, journal: Journal | None) -> int:
    port = connect(config)
    can_note = can_write_notes(port)
    notes = can_note and config.levers.undo_notes == "auto"
    done = fail_open(port, journal, can_note=can_note, notes=notes)
    gone = f", {len(done.reservations)} reservations deleted" if done.reservations else ""
    console().print(f"{len(done.given_back)} jobs given back to Slurm{gone}")
    for left in done.left:
        _say(f"not given back: {left}")
    return 1 if done.left else 0


def run_requeue(args: argparse.Namespace) -> int:
    config = read_config(args)
    port = connect(config)
    obs = port.observe()
    known = {j.address: j for j in obs.jobs} | {str(j.job_id): j for j in obs.jobs}
    unknown = [name for name in args.jobs if name not in known]
    for name in unknown:
        _say(f"{name}: no such job in the queue")
    with _journal(config) as journal:
        chosen = [known[name] for name in args.jobs if name in known]
        results = requeue.requeue(port, journal, chosen, config.guard, obs.now_s)
    for result in results:
        if result.done:
            console().print(f"{result.address}: requeued")
        else:
            _say(f"{result.address}: {result.why}")
    done = [r.key for r in results if r.done]
    late = _expedite(port, done, args.wait)
    for key in late:
        _say(f"{key.job_id}: not waiting yet after {args.wait:g} s; Slurm's delay stays")
    return 1 if unknown or late or len(done) < len(results) else 0


def _expedite(port: SlurmPort, keys: list[JobKey], wait_s: float) -> list[JobKey]:
    """Take Slurm's delay off each job once it waits again; the keys that did not in time."""
    ends_s = time.monotonic() + wait_s
    left = list(keys)
    while left and time.monotonic() < ends_s:
        obs = port.observe()
        patches = requeue.delayed(obs.jobs, left, obs.now_s)
        if patches:
            port.patch(patches)
        waiting = {j.job_id for j in obs.jobs if j.state.pending and not _delayed(j, obs.now_s)}
        gone = {k.job_id for k in left} - {j.job_id for j in obs.jobs}
        left = [k for k in left if k.job_id not in waiting | gone]
        if left:
            time.sleep(0.5)
    return left


def _delayed(job: Job, now_s: int) -> bool:
    return job.begin_s is not None and job.begin_s - now_s > COOL_S


def _say(text: str) -> None:
    console(stderr=True).print(safe(text, 400), style="red")
