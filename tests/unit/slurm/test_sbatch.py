"""sbatch's command line, as its own getopt reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slurm_ext.slurm import sbatch


@pytest.mark.parametrize(
    ("words", "script", "comment"),
    [
        (["job.sh", "--comment=x"], "job.sh", None),
        (["--comment=x y", "job.sh"], "job.sh", "x y"),
        (["--comment", "x", "job.sh", "a"], "job.sh", "x"),
        (["--comm=x", "--comment", "y", "job.sh"], "job.sh", "y"),
        (["-J", "--comment=no", "job.sh"], "job.sh", None),
        (["-Hn", "4", "job.sh"], "job.sh", None),
        (["-Hn4", "job.sh"], "job.sh", None),
        (["-c4", "-N", "2", "-Q", "job.sh"], "job.sh", None),
        (["--gpus", "4", "--hold", "job.sh"], "job.sh", None),
        (["--gpus=4", "--exclusive", "job.sh"], "job.sh", None),
        (["--job-n", "x", "job.sh"], "job.sh", None),
        (["--time", "1", "--time-m", "1", "job.sh"], "job.sh", None),
        (["--nice", "job.sh"], "job.sh", None),
        (["-k", "job.sh"], "job.sh", None),
        (["-koff", "-sHn", "4", "job.sh"], "job.sh", None),
        (["--", "-odd.sh", "--comment=x"], "-odd.sh", None),
        (["-", "a"], "-", None),
        (["--wrap", "sleep 1"], None, None),
        (["--hold"], None, None),
        (["--comment"], None, ""),
        ([], None, None),
    ],
)
def test_which_word_is_what(words: list[str], script: str | None, comment: str | None) -> None:
    line = sbatch.parse(words)
    assert (line.script, line.comment) == (script, comment)


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        (["job.sh", "a"], ["--comment=NEW", "job.sh", "a"]),
        (["-H", "job.sh"], ["-H", "--comment=NEW", "job.sh"]),
        (["-H", "--", "job.sh"], ["-H", "--comment=NEW", "--", "job.sh"]),
        (["--comment", "x", "-H", "job.sh"], ["--comment=NEW", "-H", "job.sh"]),
        (["--comment=x", "-H", "job.sh"], ["--comment=NEW", "-H", "job.sh"]),
        (["--comment=x", "--comm=y", "j"], ["--comment=x", "--comment=NEW", "j"]),
        (["--hold"], ["--hold", "--comment=NEW"]),
        (["-J", "--"], ["-J", "--", "--comment=NEW"]),
        (["--", "j"], ["--comment=NEW", "--", "j"]),
    ],
)
def test_only_the_comment_changes(words: list[str], changed: list[str]) -> None:
    assert list(sbatch.parse(words).with_comment("NEW")) == changed


def test_wrapped_commands_are_told_from_scripts_on_standard_input() -> None:
    assert sbatch.parse(["--wrap=hostname"]).wrapped
    assert not sbatch.parse(["--hold"]).wrapped


def test_a_script_is_looked_for_here_and_in_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "both.sh").write_text(name)
    (tmp_path / "there" / "only.sh").write_text("there")
    monkeypatch.setenv("PATH", str(tmp_path / "there"))
    monkeypatch.chdir(tmp_path / "here")
    assert sbatch.read_script("both.sh") == "here"
    assert sbatch.read_script("only.sh") == "there"
    assert sbatch.read_script("./only.sh") is None
    assert sbatch.read_script("no\0.sh") is None


WORDS = st.lists(st.sampled_from(["--comment", "--comment=a", "-J", "-Hn", "x", "--", "--hold",
                                  "--unknown", "-", "--wrap=x"]) | st.text(max_size=6))  # fmt: skip


@given(WORDS, st.text(max_size=20))
def test_whatever_is_typed_the_new_comment_counts_and_the_script_stays(
    words: list[str], comment: str
) -> None:
    before = sbatch.parse(words)
    assume(not before.cut)
    after = sbatch.parse(before.with_comment(comment))
    assert after.comment == comment
    if before.comment is None or before.script is not None:
        assert after.words[after.script_at :] == before.words[before.script_at :]
