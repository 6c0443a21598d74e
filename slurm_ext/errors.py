"""The errors this package raises on purpose.

Every message names what was wrong, where, and what to do about it.
"""


class SlurmExtError(Exception):
    """Base of all deliberate errors; ``exit_code`` is what the command line returns."""

    exit_code = 1


class ConfigError(SlurmExtError):
    """The configuration cannot be used; carries every problem found, not only the first."""

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SlurmUnavailableError(SlurmExtError):
    """Slurm did not answer, or not in time: no decision may be based on this cycle."""

    exit_code = 3


class StillReadingError(SlurmUnavailableError):
    """A way to Slurm works but needs more looks before it can show a long queue whole."""


class SlurmCommandError(SlurmExtError):
    """A Slurm command ended with an error of its own."""

    exit_code = 4


class LockedError(SlurmExtError):
    """Another daemon already acts for this cluster."""

    exit_code = 5


class JournalError(SlurmExtError):
    """The ledger cannot be read or written: no lever may be pulled without it."""

    exit_code = 6


class PolicyError(SlurmExtError):
    """Unknown policy, or one whose needs are not met."""

    exit_code = 7
