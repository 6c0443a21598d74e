"""Starting commands: environment, time-out, output bound, errors with a remedy."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from slurm_ext.errors import SlurmCommandError, SlurmUnavailableError
from slurm_ext.slurm.batch import run_batch, safe_word
from slurm_ext.slurm.run import Answer, Runner, environment, escape, failure


def script(place: Path, name: str, body: str) -> Runner:
    file = place / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return Runner(timeout_s=10, environ={"PATH": f"{place}:/usr/bin:/bin"})


def test_environment_is_clean() -> None:
    given = {
        "PATH": "/bin", "HOME": "/h", "SLURM_CONF": "/c", "SQUEUE_FORMAT": "x",
        "SLURM_CLUSTERS": "a,b", "SINFO_FORMAT": "x", "SACCT_FORMAT": "x", "TZ": "Asia/Tokyo",
        "LC_ALL": "de_DE",
        "SLURM_TIME_FORMAT": "relative", "SLURM_BITSTR_LEN": "64",
    }  # fmt: skip
    found = environment(given)
    assert {name for name in found if name.startswith(("SQUEUE", "SINFO", "SACCT", "SLURM"))} == {
        "SLURM_CONF", "SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN"
    }  # fmt: skip
    assert (found["TZ"], found["LC_ALL"], found["SLURM_CONF"]) == ("UTC", "C", "/c")
    assert (found["SLURM_TIME_FORMAT"], found["SLURM_BITSTR_LEN"]) == ("standard", "0")


def test_runs_without_a_shell_in_a_group_of_its_own(tmp_path: Path) -> None:
    runner = script(tmp_path, "tool", 'printf "%s\\n" "$1" "$TZ"; ps -o pgid= -p $$; echo $$; cat')
    answer = runner.run(["tool", "a; b $(c)"], stdin="in\udcff")
    shown = answer.stdout.split("\n")
    assert shown[:2] == ["a; b $(c)", "UTC"]
    assert shown[2].strip() == shown[3].strip() != str(os.getpgid(0))
    assert shown[4] == "in\udcff"
    assert answer.code == 0


def test_time_out_kills_the_whole_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    body = f"trap '' TERM\nsleep 1000 &\necho $! > {pids}\necho $$ >> {pids}\nsleep 1000"
    runner = script(tmp_path, "hang", body)
    begun = time.monotonic()
    with pytest.raises(SlurmUnavailableError, match=r"hang: no answer within 0\.5 s.*munge"):
        runner.run(["hang"], timeout_s=0.5)
    assert time.monotonic() - begun < 5
    for pid in pids.read_text().split():
        deadline = time.monotonic() + 5
        while alive(int(pid)):
            assert time.monotonic() < deadline, f"{pid} lives"


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_output_is_bounded(tmp_path: Path) -> None:
    runner = script(tmp_path, "loud", "exec yes")
    with pytest.raises(SlurmCommandError, match="more than 1 MiB"):
        runner.run(["loud"], max_output=1 << 20)


def test_missing_program() -> None:
    with pytest.raises(SlurmUnavailableError, match=r"squeue: not found in /nowhere; install"):
        Runner(environ={"PATH": "/nowhere"}).run(["squeue"])


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    file = tmp_path / "squeue"
    file.write_text("no program")
    file.chmod(0o755)
    with pytest.raises(SlurmUnavailableError, match="squeue: cannot be started"):
        Runner(environ={"PATH": str(tmp_path)}).run(["squeue"])


@pytest.mark.parametrize(
    ("said", "error", "remedy"),
    [
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
         SlurmUnavailableError, "slurmctld"),
        ("error: If munged is up, restart with --num-threads=10", SlurmUnavailableError, "munged"),
        ("slurm_load_jobs error: Socket timed out on send/recv operation",
         SlurmUnavailableError, "sdiag"),
        ("squeue: fatal: Could not establish a configuration source",
         SlurmUnavailableError, "SLURM_CONF"),
        ("Invalid user id", SlurmCommandError, ""),
    ],
)  # fmt: skip
def test_failures(said: str, error: type[Exception], remedy: str) -> None:
    found = failure(["squeue"], Answer("", said, 1, 0.0))
    assert type(found) is error
    assert remedy in str(found)
    assert "squeue" in str(found)


def test_ask_goes_by_the_exit_status(tmp_path: Path) -> None:
    runner = script(tmp_path, "tool", "echo fine; echo 'error: old key in slurm.conf' >&2; exit $1")
    assert runner.ask(["tool", "0"]) == "fine\n"
    with pytest.raises(SlurmCommandError, match="exit status 3: error: old key"):
        runner.ask(["tool", "3"])


def test_messages_are_escaped() -> None:
    assert escape("a\x1b[31m\nb\udcff") == "a\\x1b[31m | b\\udcff"
    assert len(escape("x" * 9999)) < 700


@pytest.mark.parametrize(
    ("word", "safe"),
    [
        ("AdminComment=plain", True),
        ("ReqNodeList=n[1-3],x", True),
        ("a=b;c\\d$e#f", True),
        ("a b", False),
        ('a"b', False),
        ("a'b", False),
        ("a\nb", False),
        ("a\x01", False),
        ("é", False),
        ("", False),
    ],
)
def test_safe_words(word: str, safe: bool) -> None:
    assert safe_word(word) is safe


ECHO = """while read -r line; do echo "scontrol: $line"; case "$line" in
"show hostnames "*) echo "${line#show hostnames }";;
stop) exit 1;; *) echo "did $line";; esac; done"""


def test_batch_parts(tmp_path: Path) -> None:
    runner = script(tmp_path, "scontrol", ECHO)
    parts = run_batch(runner, ["one", "two"])
    assert parts.texts == ("did one\n", "did two\n")


def test_batch_that_ends_early(tmp_path: Path) -> None:
    runner = script(tmp_path, "scontrol", ECHO)
    with pytest.raises(SlurmCommandError, match="exit status 1"):
        run_batch(runner, ["one", "stop", "two"])
