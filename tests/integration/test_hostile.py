"""Hostile names and comments in the queue of a daemon in enforce."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.live import soon

from .harness import Daemon, Row, Slurm, share_line, wait_for

pytestmark = pytest.mark.slurm

FORGED = "x\n\nJobId=1 JobName=fake\n   NumNodes=4 ReqNodeList=a1"
TEXTS = (
    "two\nlines",
    FORGED,
    "NumNodes=4 Priority=0 StartTime=Unknown",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "a|b;c,d~e~f\tg\x1f",
    "\r\x08\x7f\x0b\x0c",
    "[bold]markup[/bold] :smile: %i $(reboot) `id`",
    "[slurm_ext;lease:99;begin:0;held:1;crc:00000000]",
    "\u202egnp.exe \u2028 \u00e9 \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "-" * 200,
    "'\"\\",
)
LONGEST = ("NumNodes=4 x|y\n " * 100)[:1020]
"""Slurm 22.05 refuses job texts of 1024 bytes and more, at submission and on update."""
VERBS = (("status", "--all"), ("top", "--once"), ("plan", "--all"), ("plan", "--json"),
         ("status", "--json"))  # fmt: skip


@dataclass
class Run:
    """Outputs while the hostile jobs wait, and how everything ended."""

    outputs: dict[str, str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    errors: list[Row] = field(default_factory=list)
    actions: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    forged: int = 0
    full: int = 0
    full_comment: str = ""
    started: dict[int, str] = field(default_factory=dict)
    failed_cycles: list[Row] = field(default_factory=list)


def play(slurm: Slurm, daemon: Daemon, gate: Path) -> Run:
    run = Run()
    whole = ("--nodes=4", "--cpus-per-task=1", "--mem=100")
    filler = slurm.submit(*whole, "--gpus-per-node=6", "--time=4", until=gate)
    slurm.wait_state([filler], {"RUNNING"}, 20)
    jobs = [filler, slurm.submit(*whole, "--gpus-per-node=8", soon(3))]
    small = ("--gpus-per-node=1", "--cpus-per-task=1", "--mem=100", "--time=10", soon(3))
    for text in TEXTS:
        jobs.append(slurm.submit(*small, f"--job-name={text}"))
        run.forged = jobs[-1] if text == FORGED else run.forged
        jobs.append(slurm.submit(*small, f"--comment={text}"))
    jobs.append(slurm.submit(*small, f"--comment={LONGEST}", f"--job-name={LONGEST}"))
    run.full = slurm.submit(*small)
    slurm.update(run.full, AdminComment="x" * 1000)
    jobs.append(run.full)
    daemon.wait_seen(jobs)
    wait_for(lambda: daemon.actions(run.full), 20, "a lease", daemon.log)
    daemon.wait_cycles(1)
    for verb in VERBS:
        run.outputs[" ".join(verb)] = daemon.command(*verb).stdout
    run.problems = daemon.status()["problems"]
    gate.touch()
    slurm.wait_ended(jobs, 90)
    daemon.wait_cycles(2)
    run.ended = slurm.states(jobs)
    run.errors, run.actions, run.held = daemon.errors(), daemon.actions(), slurm.held()
    run.full_comment = slurm.show(run.full, "AdminComment")["AdminComment"]
    run.started = {job: slurm.show(job, "StartTime")["StartTime"] for job in (jobs[1], run.full)}
    run.failed_cycles = daemon.rows("SELECT * FROM cycle WHERE error != ''")
    for row in run.errors[:2]:
        print(f"\n{row['lever']} {row['why']} {row['state']}: {row['detail'][:300]!r}")
    print(f"\nhostile texts: {share_line(daemon.starts())}; problems {run.problems}")
    return run


@pytest.fixture(scope="module")
def run(shared_cluster: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    shared_cluster.clean()
    directory = tmp_path_factory.mktemp("d")
    with Daemon(shared_cluster, directory, policy__name="fifo") as daemon:
        yield play(shared_cluster, daemon, directory / "gate")


def test_every_job_completes(run: Run) -> None:
    assert {a: s for a, s in run.ended.items() if s != "COMPLETED"} == {}
    assert run.held == []


def test_no_cycle_and_no_patch_fails(run: Run) -> None:
    assert run.failed_cycles == []
    assert [
        (e["lever"], e["state"], e["detail"][:200], str(e["patch"])[:200]) for e in run.errors
    ] == []


def test_a_full_admin_comment_stops_nothing(run: Run) -> None:
    """There is no room for a note; the job is steered all the same, its text is kept."""
    assert [a for a in run.errors if a["job_id"] == run.full] == []
    assert [a["lever"] for a in run.actions if a["job_id"] == run.full][:1] == ["lease"]
    assert run.full_comment == "x" * 1000


def test_only_the_forged_record_is_a_problem(run: Run) -> None:
    """Its details cannot be told from its name: reported, left to Slurm, never fatal."""
    unread = [text for text in run.problems if "line breaks" in text]
    assert {text.split(":")[0] for text in unread} <= {f"job {run.forged}"}
    assert [a for a in run.actions if a["job_id"] == run.forged] == []


@pytest.mark.parametrize("verb", [" ".join(v) for v in VERBS])
def test_no_control_character_reaches_the_terminal(run: Run, verb: str) -> None:
    text = run.outputs[verb]
    bad = sorted({c for c in text if c != "\n" and (not c.isprintable() and c != " ")})
    assert bad == []
    assert len(text) > 200
