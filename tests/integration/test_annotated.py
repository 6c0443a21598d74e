"""Annotated jobs on a real Slurm: Lua plugins, templates, checkpoint and resume at another size."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from minislurm import NodeGroup, Spec

import slurm_ext.slurm
from slurm_ext.annotate.check import understand
from slurm_ext.annotate.script import read_script
from slurm_ext.daemon.progress import read_progress
from slurm_ext.engine.restart import COOL_S
from slurm_ext.model.progress import Progress
from slurm_ext.sbatch_templates import names, render

from .conftest import running

from .harness import Daemon, Slurm, slurm_ext as program, wait_for  # isort: skip

pytestmark = pytest.mark.slurm

LUA_DIR = Path(slurm_ext.slurm.__file__).parent / "lua"
SHARED = "slurm_ext_annotate.lua"
SPEC = Spec(
    name="annotated",
    groups=(NodeGroup(name="n", count=4),),
    sched="tuned",
    job_submit_lua=(LUA_DIR / "job_submit.lua").read_text(),
)
LINES = "#!/bin/sh\n##SLURM_EXT work=5 family=x\nsleep 1\n"


@pytest.fixture(scope="module")
def annotating() -> Iterator[Slurm]:
    with running(SPEC) as slurm:
        shutil.copy(LUA_DIR / SHARED, slurm.cluster.layout.etc)
        yield slurm


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A directory to submit from."""
    return tmp_path


def comment(slurm: Slurm, job: int) -> str:
    return slurm.run(
        "squeue", "-h", "-t", "all", "-j", str(job), "-O", "comment:1024"
    ).stdout.strip()


def test_the_controller_reads_the_lines(annotating: Slurm) -> None:
    job = annotating.submit("-H", "--comment=mine", script=LINES)
    assert comment(annotating, job) == "mine slurm_ext:work=5,family=x"


def test_the_controller_tells_what_is_wrong_and_takes_the_job(annotating: Slurm) -> None:
    script = LINES.replace("work", "wrok")
    done = annotating.run("sbatch", "-H", "--parsable", "--output=/dev/null", stdin=script)
    assert "unknown key wrok" in done.stderr
    assert comment(annotating, int(done.stdout)) in ("", "(null)")


def test_sbatch_reads_the_lines(annotating: Slurm, work: Path) -> None:
    etc = work / "etc"
    shutil.copytree(annotating.cluster.layout.etc, etc)
    with (etc / "slurm.conf").open("a") as conf:
        conf.write("CliFilterPlugins=lua\n")
    shutil.copy(LUA_DIR / "cli_filter.lua", etc)
    text = (LUA_DIR / SHARED).read_text()
    marked = text.replace('"slurm_ext:" .. body', '"filtered slurm_ext:" .. body')
    assert marked != text
    (etc / SHARED).write_text(marked)
    script = work / "job.sh"
    script.write_text(LINES)
    env = f"SLURM_CONF={etc}/slurm.conf"
    done = annotating.run("env", env, "sbatch", "-H", "--parsable", "-o/dev/null", str(script))
    assert comment(annotating, int(done.stdout)) == "filtered slurm_ext:work=5,family=x"


def submit(slurm: Slurm, directory: Path, name: str, script: str, *command: str) -> int:
    """With plain ``sbatch``, or by ``command``."""
    path = directory / f"{name}.sbatch"
    path.write_text(script)
    words = [*(command or ["sbatch"]), "--parsable", str(path)]
    return int(slurm.run("env", "-C", str(directory), *words).stdout)


def test_every_template_runs_to_its_end(annotating: Slurm, work: Path) -> None:
    jobs = {}
    for name in names():
        if name != "trainer":
            script = render(name, {})
            jobs[name] = submit(annotating, work, name, script)
            meant = read_script(script).understood.annotation
            assert understand(comment(annotating, jobs[name]).split("\n")[0]).annotation == meant
    annotating.wait_completed(list(jobs.values()), 60)
    for name, job in jobs.items():
        outputs = list(work.glob(f"slurm-{job}*.out"))
        assert len(outputs) == (6 if name == "hparam-array" else 1)
        assert all("done" in path.read_text() for path in outputs), name
    assert len(list((work / "state").iterdir())) == len(jobs) + 5


def progress(work: Path, job: int) -> Progress:
    return read_progress(work / ".slurm_ext", job, os.geteuid())


@pytest.mark.parametrize("name", ["ddp-single-node", "jax"])  # signal to the shell, to the steps
def test_a_job_goes_on_at_another_size(name: str, annotating: Slurm, work: Path) -> None:
    job = submit(annotating, work, name, render(name, {"WORK": "300"}), *program(""), "submit")
    wait_for(lambda: progress(work, job).reports, 20, "progress")
    annotation = understand(comment(annotating, job)).annotation
    assert annotation is not None
    to = {"batch": ["--batch"], "steps": []}[annotation.checkpoint.to]
    annotating.run("scancel", f"--signal={annotation.checkpoint.signal}", *to, str(job))
    saved = wait_for(lambda: progress(work, job).last_checkpoint, 20, "an acknowledgement")
    assert annotating.states([job]) == {str(job): "RUNNING"}
    annotating.run("scontrol", "requeuehold", str(job))
    wait_for(lambda: annotating.states([job]) == {str(job): "PENDING"}, 20, "pending")
    annotating.update(job, Gres="gpu:8", NumCPUs=32)
    annotating.run("scontrol", "release", str(job))
    # Not "now": the node has just revoked the job's credential.
    annotating.update(job, StartTime=f"now+{COOL_S}")
    annotating.wait_completed([job], 40)
    reports = progress(work, job).reports
    assert next(r.gpus for r in reports if r.checkpoint) == saved.gpus == 4
    assert (reports[-1].gpus, reports[-1].run, reports[-1].step) == (8, 1, 300)
    assert min(r.step for r in reports if r.run == 1) >= saved.step
    assert "from 4 GPUs" in (work / f"slurm-{job}.out").read_text()


def test_what_is_understood_is_shown(annotating: Slurm, work: Path) -> None:
    good = annotating.submit("-H", "--comment=slurm_ext:work=90k,gpu_mem=16G")
    bad = annotating.submit("--begin=now+1hour", "--comment=slurm_ext:wrok=1")
    daemon = Daemon(annotating, work / "d")
    assert "16384 MiB" in daemon.command("annotate", "explain", str(good)).stdout
    assert daemon.command("annotate", "explain", str(bad), check=False).returncode == 1
    told = daemon.command("why", str(bad)).stdout
    assert 'its annotation is not used: unknown key "wrok"; did you mean work?' in told
