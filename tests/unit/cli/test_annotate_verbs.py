"""annotate, submit, template and completion, run in this process."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ext.annotate.schema import SCHEMA
from slurm_ext.cli import annotate
from slurm_ext.cli.main import main
from slurm_ext.slurm import sbatch
from tests.builders import job, node, observation
from tests.fake import FakeSlurm

GOOD = "#!/bin/sh\n##SLURM_EXT scaling=elastic gpus=1..8 signal=USR1\nsrun x\n"
BAD = "#!/bin/sh\n##SLURM_EXT scaling=elastic\n##SLURM_EXT grce=1m\nsrun x\n"
WARNS = "#!/bin/sh\n##SLURM_EXT preemptible\nsrun x\n"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "a job's.sh"
    path.write_text(GOOD)
    return path


def test_check_is_silent_about_good_scripts(script: Path, capsys: Capture) -> None:
    assert main(["annotate", "check", str(script)]) == 0
    assert capsys.readouterr().out == ""


def test_check_names_line_and_column(script: Path, capsys: Capture) -> None:
    script.write_text(BAD)
    assert main(["annotate", "check", str(script)]) == 1
    expected = f'{script}:3:13: error: unknown key "grce"; did you mean grace?\n'
    assert capsys.readouterr().out == expected


def test_check_forgives_warnings(script: Path, capsys: Capture) -> None:
    script.write_text(WARNS)
    assert main(["annotate", "check", str(script)]) == 0
    assert ":2:13: warning: " in capsys.readouterr().out


def test_check_in_json(script: Path, tmp_path: Path, capsys: Capture) -> None:
    script.write_text(BAD)
    missing = tmp_path / "none.sh"
    assert main(["annotate", "check", "--json", str(script), str(missing)]) == 2
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [(f["file"], f["line"], f["code"]) for f in findings] == [
        (str(script), 3, "unknown_key"),
        (str(missing), 0, "unreadable"),
    ]


def test_check_reads_standard_input_whatever_its_bytes() -> None:
    argv = [sys.executable, "-m", "slurm_ext", "annotate", "check", "-"]
    script = b"#!/bin/sh\n##SLURM_EXT family=\xff\x1b[31m\n"
    done = subprocess.run(argv, input=script, capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith(b'-:2:13: error: family: "\\udcff\\u001b[31m" cannot be used')


def test_schema_prints_the_schema(capsys: Capture) -> None:
    assert main(["annotate", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [
        job(1, gpus=1, comment="x slurm_ext:work=90k,preemptible,checkpoint_every=5m"),
        job(2, gpus=1, comment="slurm_ext:wrok=\x1b[31m"),
        job(3, gpus=1),
        job(4, gpus=1, comment="slurm_ext:off"),
    ]
    fake = FakeSlurm(observation([node("n1")], [replace(j, reason="") for j in jobs]))
    monkeypatch.setattr(annotate, "connect", lambda config: fake)


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize(
    ("number", "code", "says"),
    [
        (1, 0, "300 s"),
        (2, 1, "did you mean work?"),
        (3, 0, "plain job"),
        (4, 0, "opted out"),
        (5, 1, "not in the queue"),
    ],
)
def test_explain(number: int, code: int, says: str, capsys: Capture) -> None:
    assert main(["annotate", "explain", str(number)]) == code
    captured = capsys.readouterr()
    assert says in captured.out + captured.err
    assert "\x1b" not in captured.out


@pytest.mark.usefixtures("queue")
def test_explain_in_json(capsys: Capture) -> None:
    assert main(["annotate", "explain", "1", "--given", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["keys"]["work"] == {"value": "90000", "given": True}
    assert "grace" not in data["keys"]


HOSTILE = ["$(id)", "a b", "'", '"', "\\", "\n", "--comment=not ours", "-", "é", "*", ""]


def test_submit_passes_everything_else_through(script: Path, capsys: Capture) -> None:
    words = ["-J", "a 'b'", "--gpus", "4", "--comment", 'it\'s "mine" $HOME', str(script), *HOSTILE]
    assert main(["submit", "--dry-run", *words]) == 0
    argv = shlex.split(capsys.readouterr().out)
    added = " slurm_ext:scaling=elastic,gpus=1..8,signal=USR1"
    assert argv == [
        "sbatch", "-J", "a 'b'", "--gpus", "4", f"--comment=it's \"mine\" $HOME{added}",
        str(script), *HOSTILE,
    ]  # fmt: skip


def test_submit_refuses_a_wrong_annotation(script: Path, capsys: Capture) -> None:
    script.write_text(BAD)
    assert main(["submit", "--dry-run", str(script)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{script}:3:13: error:" in captured.err


def test_submit_anyway_submits_a_plain_job(script: Path, capsys: Capture) -> None:
    script.write_text(BAD)
    assert main(["submit", "--anyway", "--dry-run", "-H", str(script)]) == 0
    assert shlex.split(capsys.readouterr().out) == ["sbatch", "-H", str(script)]


@pytest.mark.parametrize(
    "words", [["--wrap=x"], ["--comment=slurm_ext:debug", "{script}"], ["--usage"], ["{script}.no"]]
)
def test_submit_changes_nothing_without_need(
    words: list[str], script: Path, capsys: Capture
) -> None:
    words = [word.format(script=script) for word in words]
    assert main(["submit", "--dry-run", *words]) == 0
    assert shlex.split(capsys.readouterr().out) == ["sbatch", *words]


def test_submit_checks_the_comment_of_a_wrapped_command() -> None:
    assert main(["submit", "--dry-run", "--comment=slurm_ext:wrok=1", "--wrap=x"]) == 2


FAKE = """#!/bin/sh
printf '%s\\n' "$@" > "$OUT.args"
case "$*" in *.sh*) ;; *) cat > "$OUT.stdin" ;; esac
exit 42
"""


@pytest.fixture
def fake_sbatch(tmp_path: Path) -> dict[str, str]:
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text(FAKE)
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:/usr/bin:/bin", "OUT": str(tmp_path / "out")}


def submit(env: dict[str, str], *words: str, stdin: bytes = b"") -> int:
    argv = [sys.executable, "-m", "slurm_ext", "submit", *words]
    return subprocess.run(argv, env=env, input=stdin, check=False).returncode


def test_the_exit_code_is_sbatchs(fake_sbatch: dict[str, str], script: Path) -> None:
    assert submit(fake_sbatch, "-H", str(script)) == 42
    args = Path(fake_sbatch["OUT"] + ".args").read_text().splitlines()
    comment = "--comment=slurm_ext:scaling=elastic,gpus=1..8,signal=USR1"
    assert args == ["-H", comment, str(script)]


def test_a_script_on_standard_input_reaches_sbatch_whole(
    fake_sbatch: dict[str, str], tmp_path: Path
) -> None:
    data = GOOD.encode() + b"echo \xff\xfe\n"
    assert submit(fake_sbatch, "-H", stdin=data) == 42
    assert Path(fake_sbatch["OUT"] + ".stdin").read_bytes() == data
    assert "slurm_ext:" in Path(fake_sbatch["OUT"] + ".args").read_text()


def test_without_sbatch_the_error_says_so(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(sbatch.shutil, "which", lambda name: None)
    assert main(["submit", str(script)]) == 4
    assert "sbatch is not in PATH" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_the_verbs(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert "annotate" in text
    assert "template" in text


def test_completion_is_a_bash_script(capsys: Capture, tmp_path: Path) -> None:
    main(["completion", "bash"])
    script = capsys.readouterr().out
    subprocess.run(["bash", "-n"], input=script.encode(), check=True)


def test_check_reads_what_is_named_and_nothing_in_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert main(["annotate", "check", "jobs", "env"]) == 2
    assert capsys.readouterr().out.count("cannot be read") == 2
