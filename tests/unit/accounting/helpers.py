"""A sacct that answers from a list of rows, and attempts by a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from slurm_ext.accounting.record import Attempt
from slurm_ext.accounting.sacct import FIELDS
from slurm_ext.accounting.steps import FIELDS as STEP_FIELDS
from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.slurm.times import moment_s

T0 = 1_796_000_000
DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "traces"
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "slurm"

PLAIN = {
    "JobIDRaw": "1", "JobID": "1", "Cluster": "mini", "User": "ann", "Account": "lab",
    "Partition": "gpu", "QOS": "normal", "State": "COMPLETED", "Submit": str(T0),
    "Eligible": str(T0), "Start": str(T0 + 10), "End": str(T0 + 70), "ElapsedRaw": "60",
    "TimelimitRaw": "5", "AllocNodes": "1", "ReqCPUS": "4",
    "ReqTRES": "billing=4,cpu=4,gres/gpu=2,mem=8G,node=1",
    "AllocTRES": "billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=8G,node=1",
    "Comment": "", "JobName": "train",
}  # fmt: skip


def row(**values: object) -> dict[str, str]:
    """A row of sacct: a completed job of a minute, with these columns changed."""
    changed = {name: str(value) for name, value in values.items()}
    changed.setdefault("JobID", changed.get("JobIDRaw", "1"))
    return PLAIN | changed


def ran(job_id: int, start_s: int, run_s: int, **values: object) -> dict[str, str]:
    """A completed job by its times."""
    times = {"Submit": start_s, "Start": start_s, "End": start_s + run_s, "ElapsedRaw": run_s}
    return row(**({"JobIDRaw": job_id} | times | values))


def answer(rows: Sequence[Mapping[str, str]], token: str) -> str:
    """What sacct prints with this delimiter."""
    return "".join(token.join([*(r[f] for f in FIELDS), r["JobIDRaw"]]) + "\n" for r in rows)


def attempt(**values: object) -> Attempt:
    """An attempt by its fields; a completed job of a minute otherwise."""
    base = Attempt(
        "mini", 1, T0, 0, -1, "ann", "lab", "gpu", "normal", "train", "COMPLETED", "ended", -1,
        T0, T0 + 10, T0 + 70, 60, 300, "", 2, 2, "a100", 4, 4, 8192, 1, "",
    )  # fmt: skip
    return base._replace(**values)  # type: ignore[arg-type]


class FakeSacct:
    """Stands in for the Runner: answers windows as sacct does; ``fail_at`` calls raise."""

    def __init__(self, rows: Sequence[Mapping[str, str]] = ()) -> None:
        self.rows = list(rows)
        self.windows: list[tuple[int, int]] = []
        self.asked_ids: list[list[int]] = []
        self.fail_at: dict[int, Exception] = {}
        self.calls = 0
        self.queue: list[int] | None = []
        self.step_rows: list[dict[str, str]] = []

    def ask(self, argv: Sequence[str], **options: object) -> str:
        if argv[0] == "squeue":
            if self.queue is None:
                raise SlurmUnavailableError("slurmctld does not answer")
            return "".join(f"{job_id}\n" for job_id in self.queue)
        if f"--format={','.join(STEP_FIELDS)}" in argv:
            return "".join("|".join(r[f] for f in STEP_FIELDS) + "\n" for r in self.step_rows)
        self.calls += 1
        if self.calls in self.fail_at:
            raise self.fail_at[self.calls]
        token = next(a for a in argv if a.startswith("--delimiter=")).partition("=")[2]
        start, end = (_epoch(argv[argv.index(flag) + 1]) for flag in ("-S", "-E"))
        ids = argv[argv.index("-j") + 1].split(",") if "-j" in argv else []
        if ids:
            self.asked_ids.append([int(i) for i in ids])
            return answer([r for r in self.rows if r["JobIDRaw"] in ids], token)
        self.windows.append((start, end))
        return answer([r for r in self.rows if _alive(r, start, end)], token)


def _alive(one: Mapping[str, str], start_s: int, end_s: int) -> bool:
    ended = int(one["End"]) if one["End"].isdecimal() else 1 << 40
    return int(one["Submit"]) <= end_s and ended >= start_s


def _epoch(text: str) -> int:
    moment = moment_s(text)
    assert isinstance(moment, int)
    return moment
