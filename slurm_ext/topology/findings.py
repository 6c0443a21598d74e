"""What is wrong or doubtful in a topology, and the one error the readers raise."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slurm_ext.errors import SlurmExtError


class Severity(StrEnum):
    """NOTE: worth knowing; WARNING: placement will be worse or wrong until it is mended."""

    NOTE = "note"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation: a stable code, what it is about, what was seen, what to do.

    ``line`` is the line of the text it comes from, 0 if it concerns the whole.
    """

    code: str
    severity: Severity
    subject: str
    detail: str
    remedy: str = ""
    line: int = 0

    def __str__(self) -> str:
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{self.severity}: {self.code}: {self.subject}: {self.detail}{remedy}"


def note(code: str, subject: str, detail: str, remedy: str = "", line: int = 0) -> Finding:
    return Finding(code, Severity.NOTE, subject, detail, remedy, line)


def warning(code: str, subject: str, detail: str, remedy: str = "", line: int = 0) -> Finding:
    return Finding(code, Severity.WARNING, subject, detail, remedy, line)


class TopologyError(SlurmExtError):
    """A text cannot be read: which one, where, what is wrong and what to do about it.

    The only exception the readers of this package raise on arbitrary text. ``line`` counts
    from 1; 0 means the text as a whole.
    """

    exit_code = 2

    def __init__(self, source: str, line: int, problem: str, remedy: str) -> None:
        place = f"{source}:{line}" if line else source
        super().__init__(f"{place}: {problem}; {remedy}")
        self.source = source
        self.line = line
        self.problem = problem
        self.remedy = remedy

    def in_file(self, name: str) -> TopologyError:
        """The same error with the name of the file that was read."""
        return TopologyError(name, self.line, self.problem, self.remedy)
