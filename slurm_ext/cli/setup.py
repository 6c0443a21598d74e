"""``setup``: user, configuration, account in Slurm and systemd units, and the way back."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from slurm_ext.daemon import config as configuration
from slurm_ext.daemon.install import Installer, Layout, may_install, units
from slurm_ext.errors import SlurmCommandError, SlurmExtError, SlurmUnavailableError
from slurm_ext.slurm.accounts import add_operator, remove_operator
from slurm_ext.slurm.choose import open_runner
from slurm_ext.slurm.run import Runner

from .common import console, safe

OPERATOR = "operator:"


def add_parser(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "setup", help="put the daemon on this host, or take it off again",
        description="Makes a system user, /etc/slurm_ext/slurm_ext.toml (mode observe), an account "
        "with AdminLevel=Operator in Slurm and systemd units; starts nothing. What it has made is "
        "noted in /etc/slurm_ext/setup.json, and --undo removes exactly that. Can be repeated.",
        epilog="example: slurm-ext setup --dry-run",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, do nothing")
    parser.add_argument("--undo", action="store_true", help="take back what setup has made")
    parser.add_argument("--user", default="slurm_ext", help="the daemon's user (slurm_ext)")
    parser.add_argument("--no-account", action="store_true",
                        help="leave Slurm's accounting alone")  # fmt: skip
    parser.add_argument("--root", type=directory, default=Path("/"), metavar="DIR",
                        help="put files below DIR, for an image; no user, no account")  # fmt: skip
    parser.add_argument("--program", help="path of slurm-ext for the units (found by itself)")
    parser.set_defaults(run=run)


def directory(text: str) -> Path:
    """A directory that was named; an empty word is a variable that was not set."""
    if not text:
        raise argparse.ArgumentTypeError("empty; name a directory, / for this host")
    return Path(text)


def run(args: argparse.Namespace) -> int:
    layout = Layout(args.root.resolve(), args.user, args.program or _program())
    if not args.dry_run:
        may_install(layout)
    installer = Installer(layout, lambda text: console().print(safe(text, 300)),
                          dry_run=args.dry_run)  # fmt: skip
    return _undo(installer) if args.undo else _make(installer, args)


def _make(installer: Installer, args: argparse.Namespace) -> int:
    layout = installer.layout
    here = layout.root == Path("/")
    if here:
        installer.user()
    default = configuration.render(configuration.load(Path("/dev/null")))
    installer.file(layout.config, default)
    for name, text in units(layout).items():
        installer.file(layout.units / name, text)
    if here and not args.no_account:
        _account(installer)
    if here and Path("/run/systemd/system").is_dir():
        installer.run(["systemctl", "daemon-reload"])
    out = console()
    out.print(
        "next: slurm-ext doctor; then systemctl enable --now slurm-ext slurm-ext-janitor.timer"
        " slurm-ext-history.timer"
    )
    out.print(f"mode is observe: see and change {layout.config}")
    return 0


def _account(installer: Installer) -> None:
    user = installer.layout.user
    console().print(f"Slurm account: user {user}, AdminLevel=Operator")
    if installer.dry_run:
        return
    try:
        if add_operator(_runner(), user):
            installer.noted(f"{OPERATOR}{user}")
    except (SlurmCommandError, SlurmUnavailableError) as error:
        # Without slurmdbd there are no operators: then the daemon runs as SlurmUser or root.
        console().print(safe(f"  did not work: {error}", 400), style="yellow")
        console().print(
            "  without an operator's account, run the daemon as SlurmUser: set User= in "
            "slurm-ext.service and slurm-ext-janitor.service"
        )


def _undo(installer: Installer) -> int:
    def others(key: str) -> bool:
        if not key.startswith(OPERATOR):
            return False
        console().print(safe(f"Slurm account of {key.removeprefix(OPERATOR)}: removed", 200))
        if installer.dry_run:
            return True
        try:
            remove_operator(_runner(), key.removeprefix(OPERATOR))
        except SlurmExtError as error:
            console().print(safe(f"  did not work: {error}", 400), style="yellow")
            return False
        return True

    if not installer.made:
        console().print(f"nothing to undo: no {installer.layout.manifest}")
        return 0
    if installer.layout.root == Path("/") and Path("/run/systemd/system").is_dir():
        names = [n for n in units(installer.layout) if n.endswith((".service", ".timer"))]
        installer.run(["systemctl", "disable", "--now", *names], needed=False)
    done = installer.undo(others)
    console().print(
        "the journal and histories in /var/lib/slurm_ext stay; remove them by hand" if done
        else "not everything is gone, see above; --undo can be repeated"
    )  # fmt: skip
    return 0 if done else 1


def _runner() -> Runner:
    return open_runner(bin_dir="", slurm_conf="", call_timeout_s=30)


def _program() -> str:
    beside = Path(sys.argv[0]).resolve()
    if beside.name == "slurm-ext":
        return str(beside)
    found = shutil.which("slurm-ext")
    if found is None:
        raise SlurmExtError("setup: no slurm-ext in PATH; name it with --program")
    return found
