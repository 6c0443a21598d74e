"""What is wrong with an annotation, where, and what to write instead."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding.

    ``at``: offset in the text that was read (characters, from 0). ``line`` and ``column`` count
    from 1 and are 0 where the text is not part of a file. ``error`` False: a warning, the
    annotation is used. ``key`` is empty if no single key is at fault. ``code`` is stable.
    """

    code: str
    text: str
    remedy: str = ""
    key: str = ""
    at: int = 0
    line: int = 0
    column: int = 0
    error: bool = True

    def __str__(self) -> str:
        return f"{self.text}; {self.remedy}" if self.remedy else self.text

    def placed(self, line: int, column: int) -> Problem:
        """The same finding at a place of a file."""
        return replace(self, line=line, column=column)


def shown(value: object) -> str:
    """A value in a message: short, plain ASCII, control characters escaped."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 48 else text[:47] + "~"
