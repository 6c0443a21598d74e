"""What must hold for any names, any samples, any damage."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.accounting.artefact import ArtefactError, Head, load, save
from slurm_ext.accounting.features import Features, stem
from slurm_ext.accounting.predict import Samples, Settings
from slurm_ext.accounting.sacct import FIELDS, Skipped, parse, parse_dump
from slurm_ext.accounting.steps import parse as parse_steps
from tests.unit.accounting.helpers import PLAIN, answer, row

TOKEN = "\x1e0123456789abcdef\x1f"
texts = st.text(max_size=60)
runs = st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), min_size=1, max_size=40)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
def test_users_texts_never_leave_their_column(pairs: list[tuple[str, str]]) -> None:
    rows = [row(JobIDRaw=i, JobName=n, Comment=c) for i, (n, c) in enumerate(pairs, 1)]
    skipped = Skipped()
    found = list(parse(answer(rows, TOKEN), TOKEN, skipped))
    assert [(a.job_id, a.user, a.run_s) for a in found] == [
        (i, "ann", 60) for i in range(1, len(rows) + 1)
    ]
    assert not skipped.counts


@given(st.text(max_size=400))
def test_any_answer_is_read_or_counted(text: str) -> None:
    list(parse(text, TOKEN, Skipped()))
    list(parse(answer([PLAIN], TOKEN) + text, TOKEN, Skipped()))


@given(st.lists(st.text(max_size=200), max_size=8))
def test_any_dump_line_is_read_or_counted(lines: list[str]) -> None:
    skipped = Skipped()
    clean = [line.replace("\n", " ") for line in lines]
    found = list(parse_dump(["|".join(FIELDS), *clean], skipped))
    assert len(found) + sum(skipped.counts.values()) == len(lines)


@given(texts)
def test_stem_is_stable(name: str) -> None:
    assert not any("0" <= ch <= "9" for ch in stem(name))


@given(runs, st.integers(0, 10**6), st.one_of(st.none(), st.integers(60, 10**6)), st.booleans())
def test_estimates_are_ordered_and_bounded(
    past: list[tuple[int, bool]], elapsed_s: int, limit_s: int | None, censored: bool
) -> None:
    samples = Samples(Settings(censored=censored))
    job = Features("ann", gpus=1, limit_s=limit_s)
    for run_s, ended in past:
        samples.learn(job, run_s, ended=ended)
    found = samples.estimate(job, elapsed_s)
    assert found is not None
    assert 0 < found.p10_s <= found.p50_s <= found.p90_s
    assert found.p10_s >= elapsed_s
    if limit_s is not None:
        assert found.p90_s <= max(limit_s, elapsed_s)
        assert found.point_s <= max(limit_s, elapsed_s)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_flipped_byte_is_refused_or_harmless(at: int, bits: int) -> None:
    samples, job = Samples(), Features("ann", "lab", gpus=1)
    for run_s in (10, 20, 30):
        samples.learn(job, run_s)
    head = Head("mini", 1000, 900, 3, None, None, 0, samples.settings)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "d.npz")
        save(path, samples, head)
        data = bytearray(path.read_bytes())
        data[at % len(data)] ^= bits
        path.write_bytes(data)
        try:
            loaded = load(path, 1000)
        except ArtefactError:
            return
        assert loaded.estimate(job) == samples.estimate(job)


@given(st.lists(st.lists(st.text(max_size=30), max_size=9), max_size=8))
def test_any_rows_of_steps_are_read_or_passed_over(rows: list[list[str]]) -> None:
    assert all(one.cpu_s >= 0 for one in parse_steps(rows))


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 500), st.integers(0, 10**6))))
def test_peak_memory_is_between_the_largest_step_and_their_sum(
    steps: list[tuple[int, int, int]],
) -> None:
    rows = [["7", "c", "1000", "", "0", "00:01", "", ""]]
    rows += [
        [f"7.{i}", "c", "", str(1000 + begin), str(run), "", f"mem={mib}M", ""]
        for i, (begin, run, mib) in enumerate(steps)
    ]
    found = list(parse_steps(rows))
    if not steps:
        assert found == []
        return
    peak = found[0].mem_mib
    assert peak is not None
    assert max(s[2] for s in steps) <= peak <= sum(s[2] for s in steps)
