"""The daemon's account in Slurm's accounting database (sacctmgr(1))."""

from __future__ import annotations

from slurm_ext.errors import SlurmCommandError

from .run import Runner, escape, failure

ACCOUNT = "slurm_ext"
_UNCHANGED = ("nothing new added", "already has", "nothing modified")


def add_operator(runner: Runner, user: str) -> bool:
    """Give ``user`` AdminLevel=Operator; whether something was changed.

    A user needs an account: one of its own, without limits or shares in others.

    :raises SlurmCommandError: sacctmgr refuses.
    :raises SlurmUnavailableError: no slurmdbd.
    """
    shown = runner.ask(["sacctmgr", "-n", "-P", "show", "user", f"name={user}",
                        "format=User,AdminLevel"])  # fmt: skip
    known = dict(line.split("|", 1) for line in shown.splitlines() if "|" in line)
    if known.get(user) in ("Operator", "Administrator"):
        return False
    if user in known:
        _manage(runner, "modify", "user", "where", f"name={user}", "set", "AdminLevel=Operator")
        return True
    _manage(runner, "add", "account", ACCOUNT, "Description=slurm_ext", "Organization=slurm_ext")
    _manage(runner, "add", "user", user, f"Account={ACCOUNT}", "AdminLevel=Operator")
    return True


def remove_operator(runner: Runner, user: str) -> None:
    """Take back :func:`add_operator` for a user it has added.

    :raises SlurmCommandError: sacctmgr refuses.
    """
    _manage(runner, "delete", "user", f"name={user}", f"account={ACCOUNT}")
    _manage(runner, "delete", "account", f"name={ACCOUNT}")


def _manage(runner: Runner, *words: str) -> None:
    argv = ["sacctmgr", "-i", *words]
    answer = runner.run(argv, merge=True)
    said = answer.stdout.lower()
    if answer.code == 0 or any(sign in said for sign in _UNCHANGED):
        return
    error = failure(argv, answer)
    if isinstance(error, SlurmCommandError):
        error = SlurmCommandError(f"{' '.join(argv)}: {escape(answer.stdout)}")
    raise error
