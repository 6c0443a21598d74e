"""The daemon: lock, recovery, the loop, signals, the status socket, an orderly end."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from slurm_ext.errors import (
    ConfigError,
    JournalError,
    SlurmCommandError,
    SlurmExtError,
    SlurmUnavailableError,
)
from slurm_ext.model.decision import Mode
from slurm_ext.policies import for_daemon
from slurm_ext.slurm.port import SlurmPort

from .admin_socket import Admin
from .config import Config
from .directory import make_directory
from .journal import Journal
from .lock import DaemonLock, Heartbeat
from .logs import configure
from .metrics import Metrics, available
from .metrics_port import TcpMetrics
from .publish import Publisher
from .recover import fail_open
from .runner import CycleResult, Runner
from .snapshot import snapshot, summary
from .systemd import notify

log = logging.getLogger(__name__)

WATCHDOG_S = 30.0
"""A sign of life to systemd at least so often while nothing is to be done."""

_FIXED: dict[str, Callable[[Config], object]] = {
    "section state": lambda c: c.state,
    "section status": lambda c: c.status,
    "section metrics": lambda c: c.metrics,
    "section slurm": lambda c: c.slurm,
    "cycle.call_timeout_s": lambda c: c.cycle.call_timeout_s,
    "cycle.observe_timeout_s": lambda c: c.cycle.observe_timeout_s,
}
"""What files and commands were opened with at the start."""


@dataclass(slots=True)
class Service:
    """Everything around the cycles. ``reload`` reads the configuration again (SIGHUP)."""

    config: Config
    port: SlurmPort
    can_note: bool
    reload: Callable[[], Config]
    on_cycle: Callable[[CycleResult], None] | None = None
    max_cycles: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _wake: threading.Event = field(default_factory=threading.Event)
    _reload_wanted: bool = False
    _give_back: bool = False
    _failures: int = 0
    _metrics: Metrics | None = field(default_factory=available)

    def serve(self) -> int:
        """Run until a signal ends it; returns the exit code.

        :raises LockedError: another daemon works on this state directory.
        :raises JournalError: the ledger cannot be used at all.
        :raises SlurmUnavailableError: never for long: the loop backs off and tries again.
        """
        state = self.config.state
        for directory in (state.dir, state.run_dir):
            make_directory(Path(directory))
        with (
            DaemonLock(state.lock_path, cluster="", now_s=int(time.time())),
            Journal(state.journal_path) as journal,
        ):
            for problem in journal.problems:
                log.warning("%s", problem)
            runner = Runner(self.config, self.port, journal, self.can_note)
            with self._sockets() as publisher:
                self._catch_signals()
                notify("READY=1")
                self._loop(runner, journal, publisher)
            self._end(journal)
        return 0

    @contextmanager
    def _sockets(self) -> Iterator[Publisher]:
        """Status, admin and, where a port is configured, metrics; all gone at the end."""
        run_dir, status, metrics = (
            Path(self.config.state.run_dir), self.config.status, self.config.metrics,
        )  # fmt: skip
        admin = Admin(
            self.config.state.journal_path, self._checked, self._ask_reload, self._wake.set
        )
        publisher = Publisher(
            run_dir, open_to_all=status.open_to == "all", others=status.others,
            operators=status.operator_names, metrics=self._metrics_text,
        )  # fmt: skip
        with ExitStack() as stack:
            stack.enter_context(admin.server(run_dir))
            if metrics.port:
                stack.enter_context(TcpMetrics(metrics.address, metrics.port, self._metrics_text))
            yield stack.enter_context(publisher)

    def _metrics_text(self) -> bytes | None:
        return self._metrics.text() if self._metrics is not None else None

    # -- loop ------------------------------------------------------------------------------

    def _loop(self, runner: Runner, journal: Journal, publisher: Publisher) -> None:
        heartbeat = Heartbeat(self.config.state.heartbeat_path)
        pruned_day = 0
        while not self._stop.is_set():
            if self._reload_wanted:
                self._reload(runner)
            started = time.monotonic()
            result = self._cycle(runner, journal, publisher)
            if result is not None:
                self._beat(heartbeat, result)
                if self.on_cycle is not None:
                    self.on_cycle(result)
                pruned_day = self._prune(journal, pruned_day)
            notify("WATCHDOG=1")
            if self.max_cycles and runner.cycle >= self.max_cycles:
                break
            self._sleep(self._pause_s(result, time.monotonic() - started))
        heartbeat.stop()

    def _cycle(self, runner: Runner, journal: Journal, publisher: Publisher) -> CycleResult | None:
        try:
            result = runner.run()
        except (SlurmUnavailableError, SlurmCommandError) as error:
            self._failed(runner, publisher, error)
            return None
        except JournalError as error:
            self._failed(runner, publisher, error)
            if self._failures > 1:
                self._release_holds(journal)
            return None
        except Exception as error:
            # A fault of ours must neither end the daemon nor leave a job held meanwhile.
            log.exception("cycle %d", runner.cycle)
            self._failed(runner, publisher, SlurmExtError(f"internal error: {error!r}"))
            self._release_holds(journal)
            return None
        self._failures = 0
        config = self.config
        publisher.publish(lambda: snapshot(result, config), result.cycle, summary(result))
        if self._metrics is not None:
            self._metrics.cycle(result)
        return result

    def _failed(self, runner: Runner, publisher: Publisher, error: SlurmExtError) -> None:
        self._failures += 1
        log.error("cycle %d: %s", runner.cycle, error)
        runner.note_failure(error, int(time.time()))
        if self._metrics is not None:
            self._metrics.failed()
        publisher.failed(str(error), int(time.time()))

    def _pause_s(self, result: CycleResult | None, spent_s: float) -> float:
        """Seconds until the next cycle: the interval, an early wake, or the back-off."""
        cycle = self.config.cycle
        if result is None:
            delay: float = cycle.interval_s * 2 ** min(self._failures - 1, 10)
            return min(delay, cycle.backoff_max_s)
        pause_s = cycle.interval_s - spent_s
        wake_at_s = result.wake_at_s
        if wake_at_s is not None:
            pause_s = min(pause_s, wake_at_s - time.time())
        return max(pause_s, cycle.min_interval_s)

    def _sleep(self, seconds: float) -> None:
        """Wait for the next cycle; systemd's watchdog looks more often than a long back-off."""
        until = time.monotonic() + seconds
        while (left_s := until - time.monotonic()) > 0:
            if self._wake.wait(min(left_s, WATCHDOG_S)):
                break
            notify("WATCHDOG=1")
        self._wake.clear()

    def _beat(self, heartbeat: Heartbeat, result: CycleResult) -> None:
        """A sign of life for job_submit.lua, but only while we would plan what it defers."""
        try:
            modes = result.plan.modes
            if enforced := sorted(name for name in modes if modes[name] is Mode.ENFORCE):
                heartbeat.beat(int(time.time()), self.config.cycle.interval_s, enforced)
            else:
                heartbeat.stop()
        except OSError as error:
            log.warning("heartbeat %s: %s", heartbeat.path, error)

    def _prune(self, journal: Journal, last_day: int) -> int:
        """Once a day the records past ``state.keep_days`` go."""
        today = int(time.time()) // 86400
        if today != last_day:
            try:
                journal.prune(
                    (today - self.config.state.keep_days) * 86400,
                    routine_before_s=(today - 1) * 86400,
                )
            except JournalError as error:
                log.warning("%s", error)
        return today

    # -- signals -----------------------------------------------------------------------------

    def _catch_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # in tests: the caller stops us through request_stop()
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, self._on_int)
        signal.signal(signal.SIGHUP, self._on_hup)
        signal.signal(signal.SIGUSR1, self._on_usr1)

    def _on_term(self, number: int, frame: FrameType | None) -> None:
        self.request_stop()

    def _on_int(self, number: int, frame: FrameType | None) -> None:
        # By hand: nobody will restart us, so what is deferred goes back at once.
        self.request_stop(give_back=True)

    def _on_hup(self, number: int, frame: FrameType | None) -> None:
        self._ask_reload()

    def _on_usr1(self, number: int, frame: FrameType | None) -> None:
        self._wake.set()

    def request_stop(self, *, give_back: bool = False) -> None:
        """End after the current cycle; ``give_back``: undo every lease, hold and pin first."""
        self._give_back = self._give_back or give_back
        self._stop.set()
        self._wake.set()

    def _ask_reload(self) -> None:
        self._reload_wanted = True
        self._wake.set()

    def _checked(self) -> Config:
        """The configuration read anew.

        :raises SlurmExtError: it cannot be used, or not without a restart.
        """
        fresh = self.reload()
        for_daemon(fresh.policy.name, fresh.policy.parameters)
        fixed = [name for name, part in _FIXED.items() if part(fresh) != part(self.config)]
        if fixed:
            raise ConfigError(
                [f"{name} cannot change at run time; restart the daemon" for name in fixed]
            )
        return fresh

    def _reload(self, runner: Runner) -> None:
        self._reload_wanted = False
        try:
            fresh = self._checked()
            runner.reconfigure(fresh)
        except SlurmExtError as error:
            log.error("reload refused, the old configuration stays:\n%s", error)
            return
        configure(fresh.log.level, fresh.log.format)
        self.config = fresh
        log.info("configuration reloaded (%s)", fresh.digest)

    def _end(self, journal: Journal) -> None:
        """Holds never outlive us; leases lapse by themselves unless told to give back now."""
        notify("STOPPING=1")
        if self._give_back:
            self._fail_open(journal)
        else:
            self._release_holds(journal)

    def _release_holds(self, journal: Journal) -> None:
        """Leases lapse by themselves; holds do not, so nothing may keep us from lifting them.

        What counts is what stands: the configuration may have changed since.
        """
        try:
            standing = any(entry.held for entry in journal.entries().values())
        except JournalError:
            standing = True
        if standing or self.config.levers.defer == "hold":
            self._fail_open(journal)

    def _fail_open(self, journal: Journal) -> None:
        try:
            notes = self.can_note and self.config.levers.undo_notes == "auto"
            done = fail_open(self.port, journal, can_note=self.can_note, notes=notes)
            if done.given_back:
                log.info("gave back %d jobs", len(done.given_back))
            for left in done.left:
                log.error("not given back: %s", left)
        except (SlurmUnavailableError, SlurmCommandError) as error:
            log.error("could not give back: %s; run 'slurm-ext recover --fail-open'", error)
