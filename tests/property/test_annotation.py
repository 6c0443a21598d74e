"""Hostile texts: nothing raises, nothing passes that the model does not allow."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.annotate.check import of_values, understand
from slurm_ext.annotate.schema import KEYS
from slurm_ext.annotate.script import read_script
from slurm_ext.annotate.text import find, render, with_annotation

WORDS = ["elastic", "1..8", "2h", "16G", "USR1", "1:2/2:3", "1/0/0/0", "any", "image", "x" * 70]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS)
TABLES = st.dictionaries(st.sampled_from(["1", "2", "x"]), LEAVES, max_size=3)
KEY = st.sampled_from([*KEYS, "grce", "\x1b[31m", ""])
DOCUMENTS = st.dictionaries(KEY, LEAVES | TABLES | st.lists(LEAVES, max_size=4), max_size=6)


@given(st.text())
def test_any_comment_is_read(text: str) -> None:
    for comment in (text, f"slurm_ext:{text}", f"slurm_ext:{{{text}", f"a slurm_ext:off {text}"):
        found = understand(comment)
        assert found.annotation is None or not found.errors


@given(DOCUMENTS)
def test_any_json_is_read(document: dict[str, object]) -> None:
    found = understand("slurm_ext:" + json.dumps(document))
    assert (found.annotation is None) == bool(found.errors)


@given(DOCUMENTS)
def test_what_passes_keeps_its_promises(document: dict[str, object]) -> None:
    one = of_values(document).annotation
    if one is None:
        return
    assert 0 <= one.scaling.min_gpus <= one.scaling.max_gpus <= 65536
    assert 1 <= one.checkpoint.grace_s <= 3600
    assert isinstance(one.gpu_mem_mib, int)
    assert isinstance(one.sensitivity.cpus_per_gpu, int)
    assert all(speed > 0 for _, speed in one.speed.table)


@given(st.text(), st.sampled_from(["debug=true", "work=5", '{"work": 5}']))
def test_what_is_put_into_a_comment_is_found_there(text: str, body: str) -> None:
    comment = with_annotation(text.replace("slurm_ext", ""), body)
    assert find(comment).body == body


USUAL = {
    "gpus": st.integers(1, 64) | st.just("1..8"),
    "grace": st.integers(1, 3600) | st.just("2m"),
    "preemptible": st.booleans(),
    "work": st.floats(0, 1e9) | st.just("90k"),
    "gpu_mem": st.integers(0, 1 << 20) | st.just("16G"),
    "speed": st.dictionaries(st.sampled_from("1248"), st.floats(1e-3, 1e9), min_size=1),
}


@given(st.fixed_dictionaries({"scaling": st.just("moldable")}, optional=USUAL))
def test_shorthand_says_what_the_values_say(document: dict[str, object]) -> None:
    found = of_values(document)
    if found.annotation is None:
        return
    again = understand("slurm_ext:" + render(document))
    assert again.annotation == found.annotation


@given(st.lists(st.sampled_from(["##SLURM_EXT ", "#SBATCH --comment=", "\n", "\r", '"', "'", "\\",
                                 "slurm_ext:", "{", "work=5", "#", " ", "x"])))  # fmt: skip
def test_any_script_is_read(pieces: list[str]) -> None:
    read_script("".join(pieces))
