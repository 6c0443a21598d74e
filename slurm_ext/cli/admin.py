"""``pause``, ``resume``, ``recover``: the emergency brakes."""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from slurm_ext.daemon.config import Config
from slurm_ext.daemon.journal import Journal
from slurm_ext.daemon.lock import DaemonLock, read_heartbeat
from slurm_ext.daemon.recover import fail_open
from slurm_ext.daemon.service import make_directory
from slurm_ext.errors import JournalError, LockedError, SlurmExtError

from .common import (
    add_config_options,
    can_write_notes,
    connect,
    console,
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
    pause.add_argument("--hours", type=float, help="resume by itself after so many hours")
    pause.add_argument("--why", default="", help="shown in status")
    pause.set_defaults(run=run_pause)
    resume = verbs.add_parser("resume", help="end a pause", description="End a pause.")
    resume.set_defaults(run=run_resume)
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
    for parser in (pause, resume, recover):
        add_config_options(parser)


def run_pause(args: argparse.Namespace) -> int:
    config = read_config(args)
    now_s = int(time.time())
    until_s = None if args.hours is None else now_s + int(args.hours * 3600)
    with _journal(config) as journal:
        journal.pause(user_name(), now_s, until_s, args.why)
    until = "" if until_s is None else f" for {args.hours:g} hours"
    console().print(
        f"paused{until}: the next cycle gives all jobs back; 'slurm-ext resume' ends it"
    )
    return 0


def run_resume(args: argparse.Namespace) -> int:
    config = read_config(args)
    with _journal(config) as journal:
        journal.resume(user_name(), int(time.time()))
    console().print("resumed: from the next cycle on the configured modes are in force")
    return 0


def _journal(config: Config) -> Journal:
    if not config.state.journal_path.exists():
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
    done = fail_open(port, journal, can_note=can_write_notes(port))
    gone = f", {len(done.reservations)} reservations deleted" if done.reservations else ""
    console().print(f"{len(done.given_back)} jobs given back to Slurm{gone}")
    for left in done.left:
        _say(f"not given back: {left}")
    return 1 if done.left else 0


def _say(text: str) -> None:
    console(stderr=True).print(safe(text, 400), style="red")
