"""The single place that starts processes: Slurm's own commands, never a shell.

Every command gets an environment of a few known variables only (users' ``SQUEUE_*``,
``SLURM_CLUSTERS`` and the like change defaults), its own process group, a time-out that kills
the group, and a bound on its output.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slurm_ext.errors import SlurmCommandError, SlurmUnavailableError

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
_CHUNK = 1 << 20
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

    ``timeout_s``: limit of one command unless the call gives its own.
    """

    def __init__(
        self, *, timeout_s: float = 20.0, environ: Mapping[str, str] | None = None
    ) -> None:
        self.timeout_s = timeout_s
        self._environ = environment(environ)

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
        limit = self.timeout_s if timeout_s is None else timeout_s
        environ = {**self._environ, **(env or {})}
        program = shutil.which(argv[0], path=environ["PATH"])
        if program is None:
            raise SlurmUnavailableError(
                f"{argv[0]}: not found in {environ['PATH']}; install the Slurm client commands "
                "on this host or put them into PATH"
            )
        begun = time.monotonic()
        try:
            process = subprocess.Popen(
                [program, *argv[1:]],
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if merge else subprocess.PIPE,
                env=environ,
                start_new_session=True,
            )
        except OSError as error:
            raise SlurmUnavailableError(f"{argv[0]}: cannot be started: {error}") from error
        with process:
            try:
                out, err = _converse(process, stdin, begun + limit, max_output)
            except _Overrun as overrun:
                _kill_group(process)
                shown = " ".join(argv)[:300]
                if overrun.late:
                    raise SlurmUnavailableError(
                        f"{shown}: no answer within {limit:g} s; slurmctld or munged is stopped "
                        "or overloaded: `scontrol ping`, `munge -n | unmunge`, `sdiag`"
                    ) from None
                raise SlurmCommandError(
                    f"{shown}: more than {max_output >> 20} MiB of output"
                ) from None
            except BaseException:
                _kill_group(process)
                raise
        seconds = time.monotonic() - begun
        return Answer(_decode(out), _decode(err), process.returncode, seconds)

    def ask(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """Standard output of a command that must succeed; raises what :func:`failure` says."""
        answer = self.run(argv, stdin=stdin, timeout_s=timeout_s, env=env)
        if answer.code != 0 or "error:" in answer.stderr:
            raise failure(argv, answer)
        return answer.stdout


class _Overrun(Exception):
    def __init__(self, late: bool) -> None:
        super().__init__()
        self.late = late


def _decode(data: bytearray) -> str:
    return data.decode("utf-8", "surrogateescape")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    # The child leads its group until it is reaped, so the id cannot have been reused.
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _converse(
    process: subprocess.Popen[bytes], stdin: str, deadline: float, max_output: int
) -> tuple[bytearray, bytearray]:
    """Feed and read all pipes until the process ends; raises _Overrun."""
    out, err = bytearray(), bytearray()
    pending = memoryview(stdin.encode("utf-8", "surrogateescape"))
    with selectors.DefaultSelector() as selector:
        for pipe, sink in ((process.stdout, out), (process.stderr, err)):
            if pipe is not None:
                _widen(pipe.fileno())
                selector.register(pipe, selectors.EVENT_READ, sink)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            left = deadline - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                raise _Overrun(late=True)
            for key, _ in ready:
                if key.data is None:
                    pending = _feed(process, selector, pending)
                    continue
                data = os.read(key.fd, _CHUNK)
                key.data.extend(data)
                if not data:
                    selector.unregister(key.fileobj)
                elif len(out) + len(err) > max_output:
                    raise _Overrun(late=False)
    try:
        process.wait(max(deadline - time.monotonic(), 0.05))
    except subprocess.TimeoutExpired:
        raise _Overrun(late=True) from None
    return out, err


def _widen(descriptor: int) -> None:
    """A wide pipe: answers of 10 MB and more otherwise come in 64 KiB pieces."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, 1 << 20)
    except OSError:  # the user's limit on pipe buffers is reached; slower, not wrong
        return


def _feed(
    process: subprocess.Popen[bytes], selector: selectors.BaseSelector, pending: memoryview
) -> memoryview:
    assert process.stdin is not None
    try:
        pending = pending[os.write(process.stdin.fileno(), pending[:_CHUNK]) :]
    except BrokenPipeError:
        pending = pending[:0]  # it has stopped reading; its answer says why
    if not pending:
        selector.unregister(process.stdin)
        process.stdin.close()
    return pending
