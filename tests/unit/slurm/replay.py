"""Replays one moment of a real 25.11: what pyslurm's process sent, and what the commands printed.

Recorded between two equal answers of pyslurm, so that both sides show the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_ext.slurm.native_process import Child, ChildOptions
from slurm_ext.slurm.run import Answer, Runner

from . import pythons
from .recorded import FIXTURES

PLACE = FIXTURES / "25.11" / "native"
_FIELD, _RECORD = "~F~", "~R~"
_CHILD = """
import json, struct, sys
from pathlib import Path
place = Path({place!r})
while head := sys.stdin.buffer.read(4):
    request = json.loads(sys.stdin.buffer.read(struct.unpack("!I", head)[0]))
    said, rows = {{"id": request["id"]}}, []
    if request["do"] == "start":
        said["version"] = "25.11.2"
    else:
        rows = (place / (request["do"] + ".txt")).read_text().splitlines()
        if "ids" in request:
            rows = [row for row in rows if int(row.split("\\t")[0]) in request["ids"]]
    answer = "\\n".join([json.dumps(said), *rows]).encode()
    sys.stdout.buffer.write(struct.pack("!I", len(answer)) + answer)
    sys.stdout.buffer.flush()
"""


class Commands(Runner):
    """squeue and scontrol as recorded; ``asked`` are the calls so far."""

    def __init__(self) -> None:
        super().__init__(environ={})
        self.asked: list[str] = []
        self.edit: dict[str, str] = {}

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        **_: Any,
    ) -> Answer:
        self.asked.append(" ".join([*argv, *stdin.splitlines()[::2]]))
        if argv[0] == "squeue":
            assert env
            return Answer(_squeue(argv, env["SQUEUE_FORMAT2"]), "", 0, 0.0)
        if not stdin:
            return Answer(self._shown(argv[2]), "", 0, 0.0)
        output = ""
        for line in stdin.splitlines():
            mark = line.removeprefix("show hostnames ")
            output += f"\n{mark}\n" if mark != line else self._shown(line.removeprefix("show "))
        return Answer(output, "", 0, 0.0)

    def _shown(self, what: str) -> str:
        kind, _, number = what.partition(" ")
        text = self.edit.get(kind) or (PLACE / f"scontrol-{kind}.txt").read_text()
        if number:
            blocks = re.split(r"(?m)^(?=JobId=)", text)
            return "".join(one for one in blocks if one.startswith(f"JobId={number} "))
        return text


def _squeue(argv: Sequence[str], form: str) -> str:
    words = form.split(",")
    field, record = words[0].partition(":")[2], words[-1].partition(":")[2]
    lines = (PLACE / "squeue.txt").read_text().split(f"{_RECORD}\n")[:-1]
    if "-j" in argv:
        ids = argv[argv.index("-j") + 1].split(",")
        lines = [line for line in lines if line.partition(_FIELD)[0] in ids]
    return "".join(f"{line.replace(_FIELD, field)}{record}\n" for line in lines)


def child(place: Path) -> Child:
    """pyslurm's process as recorded."""
    python = pythons.program(place, _CHILD.format(place=str(PLACE)))
    return Child(ChildOptions(python), {})
