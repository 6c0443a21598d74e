"""The templates: valid for sbatch, for bash and for the annotation language."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_ext import sbatch_templates as templates
from slurm_ext.annotate.script import read_script
from slurm_ext.cli.main import main
from slurm_ext.errors import ConfigError

NAMES = [name for name in templates.names() if name != "trainer"]


def test_all_are_there() -> None:
    assert NAMES == [
        "ddp-multi-node", "ddp-single-node", "debug", "fsdp-resume", "hf-trainer", "horovod-mpi",
        "hparam-array", "inference-batch", "jax",
    ]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_annotation_is_valid(name: str) -> None:
    found = read_script(templates.text(name))
    assert found.problems == ()
    assert found.understood.annotation is not None


@pytest.mark.parametrize("name", NAMES)
def test_the_shell_is_valid(name: str) -> None:
    subprocess.run(["bash", "-n"], input=templates.text(name).encode(), check=True)


@pytest.mark.parametrize("name", NAMES)
def test_rendering_fills_in_the_trainer_only(name: str) -> None:
    plain, rendered = templates.text(name).splitlines(), templates.render(name, {}).splitlines()
    changed = [(a, b) for a, b in zip(plain, rendered, strict=True) if a != b]
    assert changed == [("TRAINER=trainer.py", f"TRAINER={templates.TRAINER}")]


def test_values_go_where_they_belong() -> None:
    values = {"gpus": "1..4", "locality": "island", "time": "1:00", "account": "a b",
              "WORK": "$(id) '", "sbatch:gpus": "4"}  # fmt: skip
    text = templates.render("jax", values)
    found = read_script(text).understood.annotation
    assert found is not None
    assert (found.scaling.max_gpus, found.locality, found.family) == (4, "island", "example-jax")
    lines = text.splitlines()
    assert "#SBATCH --time=1:00" in lines
    assert '#SBATCH --account="a b"' in lines
    assert "#SBATCH --gpus=4" in lines
    assert "WORK='$(id) '\"'\"''" in lines
    assert text.count("--time=") == 1
    subprocess.run(["bash", "-n"], input=text.encode(), check=True)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"gpus": "8..1"}, "write gpus=1..8"),
        ({"EPOCHS": "1"}, "no such variable; there are BATCHES"),
        ({"time": "1\n#SBATCH --uid=0"}, "control character"),
        ({"family": "a b"}, "blank"),
        ({"a b": "x"}, "no variable, annotation key or sbatch option"),
    ],
)
def test_what_cannot_be_rendered_is_told(values: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        templates.render("hparam-array" if "EPOCHS" in values else "jax", values)


def test_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["template", "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == set(templates.names())
    assert all(len(purpose) > 20 for purpose in found.values())
    assert main(["template", "show", "debug"]) == 0
    assert capsys.readouterr().out == templates.text("debug")
    assert main(["template", "render", "debug", "WORK=3"]) == 0
    assert "\nWORK=3\n" in capsys.readouterr().out
    assert main(["template", "render", "debug", "WORK"]) == 2


class Trainer:
    """The bundled program outside of Slurm."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "deep" / "state.json"
        self.env = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_EXT_SPOOL": str(directory)}

    def start(self, *options: str, **env: str) -> subprocess.Popen[str]:
        argv = [sys.executable, str(templates.TRAINER), "--state", str(self.state), *options]
        return subprocess.Popen(argv, env={**self.env, **env}, stdout=subprocess.PIPE, text=True)

    def run(self, *options: str, **env: str) -> str:
        out, _ = self.start(*options, **env).communicate(timeout=60)
        return out


@pytest.fixture
def trainer(tmp_path: Path) -> Trainer:
    return Trainer(tmp_path)


def test_it_goes_on_after_a_signal_and_resumes_on_other_gpus(trainer: Trainer) -> None:
    process = trainer.start("--work=1e6", "--gpus=4")
    assert process.stdout is not None
    while "units/s" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline().startswith("checkpoint at")
    assert process.poll() is None
    before = json.loads(trainer.state.read_text())
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    process.stdout.close()
    after = json.loads(trainer.state.read_text())
    assert 0 < before["done"] <= after["done"]
    out = trainer.run(f"--work={after['done'] + 0.5}", "--gpus=1")
    assert f"resumed at {after['done']:.1f} from 4 GPUs" in out
    assert "done" in out
    report = (trainer.state.parents[1] / "7.jsonl").read_text().splitlines()
    assert [json.loads(line)["gpus"] for line in report if "checkpoint" in line] == [4, 4, 1]


@pytest.mark.parametrize(
    ("env", "options", "rate"),
    [
        ({"SLURM_GPUS_ON_NODE": "2", "SLURM_CPUS_ON_NODE": "8"}, (), 1 / 0.054),
        ({"SLURM_GPUS_ON_NODE": "2", "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "8"}, (),
         1 / 0.0295),
        ({}, ("--gpus=2", "--cpus=8", "--cpus-per-gpu=8"), 0.5 / 0.054),
        ({}, (), 1 / 0.103),
    ],
)  # fmt: skip
def test_its_speed_follows_gpus_and_cpus(
    env: dict[str, str], options: tuple[str, ...], rate: float, trainer: Trainer
) -> None:
    assert f": {rate:.2f} units/s" in trainer.run("--work=0.1", *options, **env)


def test_other_ranks_end_at_once(trainer: Trainer) -> None:
    assert trainer.run("--work=1e9", SLURM_PROCID="1") == ""
    assert not trainer.state.exists()


def test_it_runs_with_nothing_but_itself(tmp_path: Path) -> None:
    alone = tmp_path / "trainer.py"
    alone.write_text(templates.text("trainer"))
    done = subprocess.run(
        [sys.executable, "-I", str(alone), "--work=0.1", "--state=s.json"],
        cwd=tmp_path, check=True, capture_output=True, text=True, env={"PATH": os.defpath},
    )  # fmt: skip
    assert "done" in done.stdout


def test_a_misspelt_option_is_refused_with_what_was_meant() -> None:
    with pytest.raises(ConfigError, match="did you mean 'partition'"):
        templates.render("ddp-single-node", {"partitoin": "gpu"})
    with pytest.raises(ConfigError, match="'nope' is no variable"):
        templates.render("ddp-single-node", {"nope": "1"})
