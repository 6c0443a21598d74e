"""The single place that starts processes: Slurm's own commands, never a shell.

Every command gets an environment of a few known variables only (users' ``SQUEUE_*``,
``SLURM_CLUSTERS`` and the like change defaults), its own process group, a time-out that kills
the group, and a bound on its output.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from slurm_ext.errors import SlurmCommandError, SlurmUnavailableError
from slurm_ext.slurm.deadline import Deadline

from .tally import TALLY, kind_of

_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LD_LIBRARY_PATH", "SLURM_CONF", "SLURM_JWT")
_FIXED = {
    "LC_ALL": "C",
    "TZ": "UTC",
    "SLURM_TIME_FORMAT": "standard",
    "SLURM_BITSTR_LEN": "0",
    # scontrol reads its batches with readline: no colours, no key bindings, no line wrapping.
    "TERM": "dumb",
    "COLUMNS": "30000",
    "INPUTRC": "/dev/null",
}
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_TICK_S = 0.2
MAX_OUTPUT = 512 << 20
"""More than any sane answer (10,000 jobs as JSON are 85 MB); what is beyond is not read."""

_REMEDIES = (
    ("unable to contact slurm controller", "is slurmctld running and reachable? `scontrol ping`"),
    ("connection refused", "is slurmctld running and reachable? `scontrol ping`"),
    ("connection timed out", "is slurmctld reachable? `scontrol ping`"),
    ("socket timed out", "slurmctld is overloaded or stopped; see `sdiag`"),
    ("zero bytes were transmitted", "slurmctld dropped the connection; see its log"),
    ("in standby mode", "the backup controller has not taken over yet"),
    ("munge", "is munged running on this host? `munge -n | unmunge`"),
    ("authentication", "is munged running on this host, with the cluster's key?"),
    ("configuration source", "set SLURM_CONF or install slurm.conf on this host"),
    ("failed to fetch config", "set SLURM_CONF or install slurm.conf on this host"),
    ("unable to process configuration", "check slurm.conf on this host"),
    ("slurm_load_ctl_conf", "is slurmctld running and reachable? `scontrol ping`"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed (bytes that are no UTF-8 as surrogates) and its exit code."""

    stdout: str
    stderr: str
    code: int
    seconds: float


def escape(text: str, limit: int = 600) -> str:
    """Foreign text made safe for messages and terminals."""
    shown = text.strip().encode("unicode_escape", "backslashreplace").decode("ascii")
    shown = shown.replace("\\n", " | ")
    return shown if len(shown) <= limit else shown[:limit] + "…"


def environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of every Slurm command."""
    source = os.environ if base is None else base
    kept = {name: source[name] for name in _KEPT if name in source}
    kept.setdefault("PATH", _PATH)
    return {**kept, **_FIXED}


def failure(argv: Sequence[str], answer: Answer) -> SlurmUnavailableError | SlurmCommandError:
    """The error for a bad answer: unavailable if Slurm cannot be asked, else the command's."""
    said = f"{answer.stderr}\n{answer.stdout[:2000] if not answer.stderr.strip() else ''}"
    for sign, remedy in _REMEDIES:
        if sign in said.lower():
            return SlurmUnavailableError(f"{' '.join(argv)}: {escape(said)}; {remedy}")
    return SlurmCommandError(f"{' '.join(argv)}: exit status {answer.code}: {escape(said)}")


class Runner:
    """Starts Slurm commands; safe to use from several threads at once.

    ``timeout_s``: limit of one command unless the call gives its own. ``deadline``: of all.
    """

    def __init__(
        self,
        *,
        timeout_s: float = 20.0,
        environ: Mapping[str, str] | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        self.timeout_s = timeout_s
        self._deadline = deadline or Deadline()
        self._environ = environment(environ)
        # A command must not outlive us: a hold sent after a recovery would stand for ever.
        setpriv = shutil.which("setpriv", path=self._environ["PATH"])
        self._with_us = [setpriv, "--pdeathsig", "KILL"] if setpriv else []

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        merge: bool = False,
        max_output: int = MAX_OUTPUT,
    ) -> Answer:
        """Run one command to its end and return what it printed, whatever its exit code.

        ``merge``: stderr in order within stdout. ``env``: additions to the environment.
        Raises SlurmUnavailableError for a missing program or a time-out, SlurmCommandError for
        too much output.
        """
        limit = self._deadline.left(self.timeout_s if timeout_s is None else timeout_s)
        begun, outcome = time.monotonic(), "unavailable"
        try:
            answer = self._run(argv, stdin, limit, env, merge=merge, max_output=max_output)
            outcome = "ok" if answer.code == 0 else _outcome(argv, answer)
            return answer
        finally:
            TALLY.note(kind_of(argv), outcome, time.monotonic() - begun)

    def _run(
        self,
        argv: Sequence[str],
        stdin: str,
        limit: float,
        env: Mapping[str, str] | None,
        *,
        merge: bool,
        max_output: int,
    ) -> Answer:
        environ = {**self._environ, **(env or {})}
        program = shutil.which(argv[0], path=environ["PATH"])
        if program is None:
            raise SlurmUnavailableError(
                f"{argv[0]}: not found in {environ['PATH']}; install the Slurm client commands "
                "on this host or put them into PATH"
            )
        begun = time.monotonic()
        with _Memory(stdin) as given, _Memory() as out, _Memory() as err:
            alive, inherited = os.pipe()
            try:
                process = subprocess.Popen(
                    [*self._with_us, program, *argv[1:]],
                    stdin=given.fd if stdin else subprocess.DEVNULL,
                    stdout=out.fd,
                    stderr=subprocess.STDOUT if merge else err.fd,
                    env=environ,
                    start_new_session=True,
                    pass_fds=(inherited,),
                )
            except OSError as error:
                os.close(alive)
                raise SlurmUnavailableError(f"{argv[0]}: cannot be started: {error}") from error
            finally:
                os.close(inherited)
            shown = " ".join(argv)[:300]
            try:
                fate = _await(process, alive, begun + limit, lambda: out.size > max_output)
            finally:
                _kill_group(process)
                os.close(alive)
            if fate is _Fate.LATE:
                raise SlurmUnavailableError(
                    f"{shown}: no answer within {limit:.3g} s; slurmctld or munged is stopped or "
                    "overloaded: `scontrol ping`, `munge -n | unmunge`, `sdiag`"
                )
            if fate is _Fate.TALKATIVE:
                raise SlurmCommandError(f"{shown}: more than {max_output >> 20} MiB of output")
            seconds = time.monotonic() - begun
            return Answer(out.text(), err.text(), process.returncode, seconds)

    def ask(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """Standard output of a command that must succeed; raises what :func:`failure` says.

        Only the exit status counts: a line "error: …" about a deprecated key in slurm.conf
        must not end every look.
        """
        answer = self.run(argv, stdin=stdin, timeout_s=timeout_s, env=env)
        if answer.code != 0:
            raise failure(argv, answer)
        return answer.stdout


def _outcome(argv: Sequence[str], answer: Answer) -> str:
    unavailable = isinstance(failure(argv, answer), SlurmUnavailableError)
    return "unavailable" if unavailable else "refused"


class _Memory:
    """A file in memory for what goes into and comes out of a command.

    Slurm's commands write in pieces of 4 KiB: through a pipe, 12 MB are thousands of wake-ups of
    this process while the command waits for it.
    """

    def __init__(self, content: str = "") -> None:
        self.fd = os.memfd_create("slurm_ext")
        if content:
            data = memoryview(content.encode("utf-8", "surrogateescape"))
            while data:
                data = data[os.write(self.fd, data) :]
            os.lseek(self.fd, 0, os.SEEK_SET)

    def __enter__(self) -> _Memory:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    @property
    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def text(self) -> str:
        with open(self.fd, "rb", buffering=0, closefd=False) as file:
            file.seek(0)
            return file.readall().decode("utf-8", "surrogateescape")


class _Fate(Enum):
    ENDED = "ended"
    LATE = "late"
    TALKATIVE = "talkative"


def _await(
    process: subprocess.Popen[bytes], alive: int, deadline: float, too_much: Callable[[], bool]
) -> _Fate:
    """Wait until the process has ended; ``alive`` reports the end of all that inherited it."""
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return _Fate.LATE
        _closed(alive, min(left, _TICK_S))
        try:
            # The pipe closes a moment before the process can be reaped.
            process.wait(min(max(left, 0), _TICK_S) if _closed(alive, 0) else 0)
            return _Fate.TALKATIVE if too_much() else _Fate.ENDED
        except subprocess.TimeoutExpired:
            if too_much():
                return _Fate.TALKATIVE


def _closed(alive: int, wait_s: float) -> bool:
    poller = select.poll()
    poller.register(alive, select.POLLIN | select.POLLHUP)
    return bool(poller.poll(wait_s * 1000))


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the command, and reap it."""
    # The child leads its group until it is reaped, so the id cannot have been reused.
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
