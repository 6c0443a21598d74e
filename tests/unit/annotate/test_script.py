"""Directive lines in batch scripts: where reading stops, who wins, where the faults are."""

from __future__ import annotations

import pytest

from slurm_ext.annotate.directives import read, split
from slurm_ext.annotate.script import read_script


def places(script: str) -> list[tuple[int, int, str]]:
    return [(p.line, p.column, p.code) for p in read_script(script).problems]


def test_lines_are_gathered() -> None:
    found = read_script(
        "#!/bin/bash\n##SLURM_EXT scaling=elastic gpus=1..8   # a remark\n\n  # more\n"
        "##SLURM_EXT signal=USR1,grace=1m\nsrun x\n"
    )
    assert found.problems == ()
    assert found.raw == {"scaling": "elastic", "gpus": "1..8", "signal": "USR1", "grace": "1m"}
    assert found.understood.annotation is not None
    assert found.understood.annotation.scaling.max_gpus == 8


def test_nothing_counts_after_the_first_command() -> None:
    # sbatch ignores every option here, too.
    script = (
        "#!/bin/bash\nset -euo pipefail\n#SBATCH --comment=slurm_ext:debug\n##SLURM_EXT debug\n"
    )
    found = read_script(script)
    assert found.raw == {}
    assert found.understood.annotation is None
    assert places(script) == [(3, 1, "late"), (4, 1, "late")]


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        pytest.param("#SBATCH --account=x\n#SBATCH --nodes=4\n", [3], id="A23"),
        ("sbatch <<EOF\n#!/bin/sh\n#SBATCH --nodes=4\nEOF\n", []),
        ("echo\n #SBATCH -N1\n", []),
    ],
)
def test_options_after_the_first_command_are_told_once(body: str, lines: list[int]) -> None:
    found = read_script(f"#!/bin/bash\nset -euo pipefail\n{body}")
    assert [(p.line, p.code, p.error) for p in found.problems] == [
        (line, "late", False) for line in lines
    ]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("#SLURM_EXT debug", "directive"),  # sbatch 22.05 refuses the script
        ("# SLURM_EXT debug", "directive"),
        ("##SLURM-EXT debug", "directive"),
        ("  ##SLURM_EXT debug", "directive"),
        ("##slurm_ext debug", "directive"),
        ("##SLURM_EXT", "empty"),
        ("##SLURM_EXT debug = true", "pair"),
    ],
)
def test_a_line_that_says_nothing_is_an_error(line: str, code: str) -> None:
    assert code in [p.code for p in read_script(f"#!/bin/sh\n{line}\n").errors]


@pytest.mark.parametrize("line", ["##SLURM_EXTRA x", "# about slurm_ext", "#SBATCH -n1"])
def test_other_remarks_are_left_alone(line: str) -> None:
    assert read_script(f"#!/bin/sh\n{line}\n").problems == ()


def test_faults_have_line_and_column() -> None:
    assert places("#!/bin/sh\n##SLURM_EXT debug  grce=5\n##SLURM_EXT debug work=x\n") == [
        (3, 13, "repeated"),
        (2, 20, "unknown_key"),
        (3, 19, "value"),
    ]


def test_the_comment_of_the_script_counts_and_replaces_the_lines() -> None:
    script = "#!/bin/sh\n#SBATCH -J x --comment='p slurm_ext:wrok=5' -n1\n##SLURM_EXT debug\n"
    found = read_script(script)
    assert found.raw == {}
    assert places(script) == [(2, 37, "unknown_key"), (3, 1, "ignored")]
    assert script.split("\n")[1][36:].startswith("wrok")


def test_a_comment_without_annotation_leaves_the_lines_in_force() -> None:
    found = read_script("#!/bin/sh\n#SBATCH --comment=mine\n##SLURM_EXT debug\n")
    assert (found.comment, found.raw) == ("mine", {"debug": True})


def test_the_command_line_replaces_the_comment_of_the_script() -> None:
    script = "#!/bin/sh\n#SBATCH --comment=slurm_ext:debug\n##SLURM_EXT work=5\n"
    found = read_script(script, comment="other")
    assert (found.comment, found.raw) == ("other", {"work": 5})


def test_the_last_comment_counts() -> None:
    head = read("#!/bin/sh\n#SBATCH --comment=a --comm=b\n#SBATCH --comment c -J x\n")
    assert head.comment is not None
    assert head.comment.value == "c"


def test_what_slurm_would_cut_off_is_an_error() -> None:
    script = "#!/bin/sh\n##SLURM_EXT work=5\n"
    assert read_script(script, comment="é" * 503).errors == ()
    assert [p.code for p in read_script(script, comment="é" * 504).errors] == ["too_long"]


def test_dos_line_ends_are_told() -> None:
    assert "dos" in [p.code for p in read_script("#!/bin/sh\r\n##SLURM_EXT debug\r\n").errors]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        # What Slurm 22.05 stored for each of these.
        ('--comment="a\\"b"', ['--comment=a"b']),
        ("--comment='a\\'b'", ["--comment=a'b"]),
        ('--comment="a\\nb"', ["--comment=anb"]),
        ("--comment=a\\ b", ["--comment=a\\", "b"]),
        ("--comment=\"a\"'b'c", ["--comment=abc"]),
        ("--comment=a#b", ["--comment=a"]),
        ('--comment="a # b" -J x', ["--comment=a # b", "-J", "x"]),
        ("--comment 'a b'", ["--comment", "a b"]),
        ("--comment=a\\\\b", ["--comment=a\\b"]),
        ("--comment='a\"b'", ['--comment=a"b']),
        ("-J x --comment=late #c --comment=no", ["-J", "x", "--comment=late"]),
    ],
)
def test_words_are_split_as_sbatch_does(line: str, words: list[str]) -> None:
    assert [word for _, word in split(line)] == words
