"""Changes through pyslurm where it can make them, through ``scontrol`` where it cannot.

The plan (which change, guarded how) is the one of :class:`slurm_ext.slurm.writer.Writer`; only
the sending differs. pyslurm silently drops empty values and zeros, and cannot name an array task.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.model.job import Job
from slurm_ext.slurm.actions import BENIGN, Command, Said, join
from slurm_ext.slurm.native_process import Child, unreachable
from slurm_ext.slurm.run import Runner, escape
from slurm_ext.slurm.times import moment_s
from slurm_ext.slurm.writer import Look, Writer

_NAMES = {
    "Partition": "partitions",
    "SiteFactor": "site_factor",
    "StartTime": "begin_time",
    "ReqNodeList": "required_nodes",
    "ExcNodeList": "excluded_nodes",
    "AdminComment": "admin_comment",
}
"""scontrol's keywords and what ``pyslurm.JobSubmitDescription`` calls them."""


def change_of(command: Command, now: float) -> dict[str, Any] | None:
    """The change a command means, for the child; None: pyslurm cannot make it.

    ``now`` in epoch seconds, for ``StartTime=now``.
    """
    verb, *words = command.words
    if verb in ("hold", "release") and len(words) == 1:
        return _change(words[0], verb, {})
    if verb != "update" or not words or not words[0].startswith("JobId="):
        return None
    values: dict[str, Any] = {}
    for word in words[1:]:
        keyword, _, value = word.partition("=")
        name = _NAMES.get(keyword)
        if name is None or value in ("", "0", "None"):
            return None  # dropped without a word
        values[name] = _begin(value, now) if name == "begin_time" else value
        if name == "site_factor":
            values[name] = int(value)
        if values[name] is None or "\0" in value:
            return None
    return _change(words[0].removeprefix("JobId="), "update", values)


def _change(address: str, do: str, values: dict[str, Any]) -> dict[str, Any] | None:
    if not address.isdecimal():
        return None  # one task of an array, or one part of a heterogeneous job
    return {"job": int(address), "do": do, "values": values}


def _begin(value: str, now: float) -> int | None:
    if value.startswith("now"):
        later = value.removeprefix("now").removeprefix("+") or "0"
        return int(now) + int(later) if later.isdecimal() else None
    found = moment_s(value)
    return found if isinstance(found, int) else None


class NativeWriter(Writer):
    """Writes through pyslurm. ``single`` tells whether an id is neither an array nor unknown."""

    def __init__(
        self,
        child: Child,
        runner: Runner,
        look: Look,
        siblings: Callable[[Sequence[int]], Sequence[Job]],
        single: Callable[[int], bool],
        *,
        batch: int = 200,
    ) -> None:
        super().__init__(runner, look, siblings, batch=batch)
        self._child = child
        self._single = single
        self._most = batch

    def _send(self, plans: Mapping[int, tuple[Command, ...]]) -> dict[int, Said]:
        """What pyslurm can do by pyslurm; all changes of one job go the same way, in order."""
        changes = {i: self._changes(commands) for i, commands in plans.items()}
        by_text = {_address(plans[i]) for i, some in changes.items() if some is None}
        native = {
            i: some
            for i, some in changes.items()
            if some is not None and _address(plans[i]) not in by_text
        }
        said = self._ask(native)
        rest = {i: commands for i, commands in plans.items() if i not in native}
        return said | (super()._send(rest) if rest else {})

    def _changes(self, commands: Sequence[Command]) -> list[dict[str, Any]] | None:
        now = time.time()
        found = [change_of(command, now) for command in commands]
        if any(one is None or not self._single(one["job"]) for one in found):
            return None
        return [one for one in found if one is not None]

    def _ask(self, plans: Mapping[int, list[dict[str, Any]]]) -> dict[int, Said]:
        flat = [(index, change) for index, some in plans.items() for change in some]
        said: dict[int, list[Said]] = {index: [] for index in plans}
        for start in range(0, len(flat), self._most):
            some = flat[start : start + self._most]
            answers = self._child.ask(
                "update", limit_s=self._runner.timeout_s, changes=[change for _, change in some]
            )
            if len(answers) != len(some):
                raise SlurmUnavailableError("pyslurm update: not one answer for each change")
            for (index, _), answer in zip(some, answers, strict=True):
                said[index].append(_judged(answer))
        return {index: join(some) for index, some in said.items()}


def _address(commands: Sequence[Command]) -> str:
    return commands[0].words[1].removeprefix("JobId=") if commands else ""


def _judged(answer: str) -> Said:
    number, text = json.loads(answer)
    if number == 0:
        return Said(True)
    if unreachable(number):
        raise SlurmUnavailableError(
            f"pyslurm update: {escape(str(text), 300)} ({number}); is slurmctld running? "
            "`scontrol ping`"
        )
    return Said(False, str(text).startswith(BENIGN), escape(str(text), 300))
