"""Reading traces, and what is done about rows that cannot be."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from slurm_ext.sim import traces
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.errors import TraceError
from slurm_ext.sim.generate import Shape, generate
from slurm_ext.sim.workload import TraceJob, Workload, request_of
from tests.sim.helpers import data

SWF = """; Computer: test
  1 10 5 100 4 -1 -1 8 600 -1 1 7 1 -1 -1 -1 -1 -1
  2 20 5  50 4 -1 -1 -1 -1 -1 0 -1 1 -1 -1 -1 -1 -1
"""


def read(tmp_path: Path, name: str, text: str, **options: object) -> Workload:
    path = tmp_path / name
    path.write_text(text)
    return traces.read(path, **options)  # type: ignore[arg-type]


def test_swf(tmp_path: Path) -> None:
    assert read(tmp_path, "a.swf", SWF).jobs == (
        TraceJob(1, 10, 100, 8, 600, user="user7", source_id="1"),
        TraceJob(2, 20, 50, 4, None, state="FAILED", source_id="2"),
    )


def test_gz(tmp_path: Path) -> None:
    path = tmp_path / "a.swf.gz"
    path.write_bytes(gzip.compress(SWF.encode()))
    assert len(traces.read(path).jobs) == 2


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("philly.csv", "job_id,user,submit,duration,num_gpus,state\n7,p1,5,60,4,FAILED\n",
         TraceJob(1, 5, 60, 4, user="p1", state="FAILED", source_id="7")),
        ("itp.csv", "job_id,submission_time,duration,num_gpu\nab-c,5,60,4\n",
         TraceJob(1, 5, 60, 4, source_id="ab-c")),
        ("static.csv", "3,gnmt,0.5,1000,2\n",
         TraceJob(1, 0, 120, 2, model="gnmt", iterations=1000, source_id="3")),
        ("own.csv", "job_id,submit_s,run_s,gpus,model\n9,5,60,4,bert\n",
         TraceJob(9, 5, 60, 4, model="bert")),
    ],
    ids=["philly", "itp", "synergy", "own"],
)  # fmt: skip
def test_formats_are_recognised(tmp_path: Path, name: str, text: str, expected: TraceJob) -> None:
    assert read(tmp_path, name, text).jobs == (expected,)


HEAD = "job_id,submit_s,run_s,gpus,limit_s\n"


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("1,-5,60,1,", "submit time -5"),
        ("1,0,0,1,", "run time 0"),
        ("1,0,-60,1,", "run time -60"),
        ("1,0,60,0,", "0 GPUs"),
        ("1,0,60,9,", "9 GPUs, the cluster has 8"),
        ("1,0,60,1,-1", "time limit -1"),
        ("1,0,soon,1,", "could not convert string to float: 'soon'"),
        ("1,0,nan,1,", "'nan' is not a time"),
        ("1,0,1e300,1,", "'1e300' is not a time"),
        ("1,0", "too few fields"),
        ('1,0,"60,1,', "too few fields"),
        ('1,0,"' + "6" * 200_000, "too few fields"),
        ("7,0,60,1,", "id 7 twice"),
    ],
)
def test_bad_rows_are_listed_with_their_lines(tmp_path: Path, row: str, why: str) -> None:
    text = f"{HEAD}7,0,60,1,\n{row}\n8,0,60,1,\n"
    workload = read(tmp_path, "x.csv", text, max_gpus=8)
    assert [(b.line, b.why) for b in workload.bad] == [(3, why)]
    assert [j.job_id for j in workload.jobs] == [7, 8]


@pytest.mark.parametrize(
    ("line", "why"),
    [("3 30 5", "3 fields, expected 18"), ("x" + " 1" * 17, "not a number")],
)
def test_bad_swf_rows(tmp_path: Path, line: str, why: str) -> None:
    bad = read(tmp_path, "a.swf", f"{SWF}{line}\n").bad
    assert [(b.line, b.why) for b in bad] == [(4, why)]


def test_lines_of_a_file_without_head_are_its_own(tmp_path: Path) -> None:
    bad = read(tmp_path, "s.csv", "0,gnmt,0,10,1\n1,gpt9,0,10,1\n").bad
    assert (bad[0].line, bad[0].why) == (2, "model 'gpt9' has no known iteration time")


def test_stop_lists_all_bad_rows(tmp_path: Path) -> None:
    rows = "".join(f"{i},0,0,1,\n" for i in range(1, 31))
    with pytest.raises(TraceError, match=r"(?s)30 rows.*x.csv:2: run time 0") as caught:
        read(tmp_path, "x.csv", f"{HEAD}{rows}99,0,60,1,\n", on_bad="stop")
    assert "and 10 more" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("x.csv", "a,b\n1,2\n", "unknown format"),
        ("x.csv", "", "unknown format"),
        ("x.swf", "; nothing\n", "no jobs"),
        ("x.csv", "job_id,submit_s\n1,2\n", "no column run_s, gpus"),
    ],
)
def test_unusable_files(tmp_path: Path, name: str, text: str, match: str) -> None:
    with pytest.raises(TraceError, match=match):
        read(tmp_path, name, text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.swf"):
        traces.read(tmp_path / "none.swf")


def test_a_damaged_gz_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.swf.gz"
    path.write_bytes(gzip.compress(SWF.encode())[:-12])
    with pytest.raises(TraceError, match=r"a\.swf\.gz"):
        traces.read(path)


def test_unknown_format_names_the_known(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="known: swf"):
        read(tmp_path, "a.swf", SWF, kind="sfw")


def test_written_and_read_again_it_is_the_same(tmp_path: Path) -> None:
    job = TraceJob(3, 7, 60, 4, None, 2, 8, 1000, "a100", "u,1", "p", 'm"x', "FAILED", 5, 6,
                   "1:1 4:3.5", 70, 32, 900, 0.25, "s")  # fmt: skip
    workload = Workload.of("x", [job, TraceJob(1, 7, 60, 4, 90)])
    traces.write(workload, tmp_path / "w.csv")
    assert traces.read(tmp_path / "w.csv").jobs == workload.jobs


@pytest.mark.parametrize(
    ("name", "count", "gpus"),
    [
        ("traces/philly/philly-2d.csv", 3168, 256),
        ("traces/philly/philly15k.csv", 15000, 256),
        ("traces/kth-sp2/KTH-SP2.swf.gz", 28481, 100),
        ("traces/itp/cluster03.csv", 3011, 1024),
        ("synergy/static.csv", 100, 32),
    ],
)
def test_published_traces(name: str, count: int, gpus: int) -> None:
    workload = traces.read(data(name), max_gpus=gpus)
    assert (len(workload.jobs), workload.bad) == (count, ())


@pytest.mark.parametrize(
    ("gpus", "nodes", "expected"),
    [
        (1, 0, (1, 1, 0)),
        (8, 0, (1, 8, 0)),
        (16, 0, (2, 8, 0)),
        (12, 0, (2, 6, 0)),
        (9, 0, (2, 0, 9)),
        (8, 4, (4, 2, 0)),
    ],
)
def test_requests_use_as_few_nodes_as_possible(
    gpus: int, nodes: int, expected: tuple[int, int, int]
) -> None:
    request = request_of(TraceJob(1, 0, 60, gpus, nodes=nodes), 8)
    assert (request.nodes_min, request.gpus_per_node, request.gpus_total) == expected
    assert request.gpus == gpus


def test_limit_rules() -> None:
    workload = Workload.of("x", [TraceJob(1, 0, 60, 1), TraceJob(2, 0, 60, 1, 500)])
    assert [j.limit_s for j in workload.with_limits("exact").jobs] == [60, 60]
    assert [j.limit_s for j in workload.with_limits("requested", 900).jobs] == [900, 500]


SACCT = """JobIDRaw|User|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocNodes|AllocTRES|JobName
7|ann|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:05:00|2026-03-01T10:15:00|600|60|1|cpu=8,mem=32G,node=1,gres/gpu=2,gres/gpu:a100=2|train
8|bob|TIMEOUT|2026-03-01T09:00:00|2026-03-01T09:00:10|2026-03-01T10:00:10|3600|60|1|cpu=8,mem=32G,node=1,gres/gpu=1|x
9|bob|COMPLETED|2026-03-01T09:00:00|2026-03-01T09:00:10|2026-03-01T10:00:10|3600|60|1|cpu=8,mem=32G,node=1|y
10|bob|COMPLETED|2026-03-01T09:00:00
"""


def test_a_dump_of_sacct_gives_each_attempt_as_a_job(tmp_path: Path) -> None:
    found = read(tmp_path, "dump.txt", SACCT)
    assert [(j.source_id, j.submit_s, j.run_s, j.gpus, j.limit_s, j.user) for j in found.jobs] == [
        ("8", 0, 3600, 1, 3600, "bob"), ("7", 3600, 600, 2, 3600, "ann"),
    ]  # fmt: skip
    assert [(b.line, b.why) for b in found.bad] == [(5, "4 fields, expected 11"), (4, "0 GPUs")]


def test_the_trace_that_comes_with_the_package() -> None:
    found = traces.read(Path("demo"), max_gpus=32, on_bad="stop")
    assert len(found.jobs) == 300
    assert any(j.speed for j in found.jobs)
    made = generate(Shape(jobs=300), ClusterSpec.parse("4x8"), 5)
    assert found.jobs == made.jobs


def test_a_gz_with_wrong_bits_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.swf.gz"
    data = gzip.compress(SWF.encode())
    path.write_bytes(data[:12] + b"\xff" * 8 + data[20:])
    with pytest.raises(TraceError, match=r"a\.swf\.gz"):
        traces.read(path)
