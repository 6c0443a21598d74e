"""Rows in the published formats of Helios, Acme and Alibaba PAI."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ext.sim import traces
from slurm_ext.sim.errors import TraceError
from slurm_ext.sim.published import PAI_TASKS
from slurm_ext.sim.workload import Workload

HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,u1,vcA,1,4,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:05,2020-06-09 18:51:05,600,4
12,u2,vcB,16,64,2,FAILED,2020-06-09 18:42:01,2020-06-09 18:42:01,2020-06-09 18:43:01,60,0
13,u2,vcB,0,8,1,COMPLETED,2020-06-09 18:42:01,2020-06-09 18:42:01,2020-06-09 18:43:01,60,0
14,u2,vcB,1,8,1,COMPLETED,yesterday,2020-06-09 18:42:01,2020-06-09 18:43:01,60,0
15,u2,vcB,-1,8,1,COMPLETED,2020-06-09 18:42:01,2020-06-09 18:42:01,2020-06-09 18:43:01,60,0
"""  # noqa: E501
ACME = """job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,fail_time,stop_time,duration,queue,gpu_time
dlc1,u3,8,64,960,1000,100.0,Pretrain,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:26+00:00,,,18,10.0,1152.0
dlc2,u3,1,8,120,,,Other,CANCELLED,2023-05-17 19:02:58+08:00,2023-05-17 11:28:54+00:00,2023-05-17 11:30:04+00:00,,,82,12.0,656.0
dlc3,u3,1,8,120,,,Other,CANCELLED,2023-05-17 19:02:58+08:00,,,,,,,
"""  # noqa: E501
PAI_2020 = """jobA,worker,3.0,Terminated,1000.0,1600.0,600.0,29.296875,50.0,MISC
jobA,ps,1.0,Terminated,1000.0,1600.0,400.0,10.0,,
jobB,tensorflow,1.0,Running,1300.0,,600.0,10.0,100.0,V100
jobC,worker,2.0,Failed,1100.0,1160.0,600.0,10.0,200.0,V100
"""
PAI_2023 = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
pod-1,88000,327680,8,1000,,Burstable,Succeeded,9437497,9437897,9437597
pod-2,4500,15258,1,220,V100M16,BE,Running,9437597,9437697,9437597
pod-3,16000,32768,1,1000,V100M16|V100M32,LS,Running,9437607,9437617,9437612
pod-4,16000,32768,1,1000,,LS,Pending,9437607,9437617,
"""  # noqa: E501


def read(tmp_path: Path, text: str, kind: str = "") -> Workload:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return traces.read(path, kind)


@pytest.mark.parametrize("kind", ["", "helios"])
def test_helios(tmp_path: Path, kind: str) -> None:
    found = read(tmp_path, HELIOS, kind)
    rows = [(j.source_id, j.submit_s, j.run_s, j.gpus, j.nodes, j.cpus, j.user) for j in found.jobs]
    assert rows == [("11", 0, 600, 1, 1, 4, "u1"), ("12", 60, 60, 16, 2, 64, "u2")]
    assert [j.state for j in found.jobs] == ["COMPLETED", "FAILED"]
    assert [(b.line, b.why.split(":")[0]) for b in found.bad] == [
        (4, "0 GPUs"), (5, "Invalid isoformat string"), (6, "'-1' is not a quantity"),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["", "acme"])
def test_acme_in_both_time_zones(tmp_path: Path, kind: str) -> None:
    found = read(tmp_path, ACME, kind)
    rows = [(j.source_id, j.submit_s, j.run_s, j.gpus, j.mem_mib, j.model) for j in found.jobs]
    assert rows == [("dlc1", 0, 18, 64, 8_192_000, "Pretrain"), ("dlc2", 120, 82, 8, 0, "Other")]
    assert [b.line for b in found.bad] == [4]


@pytest.mark.parametrize("head", [False, True])
def test_pai_2020_with_and_without_a_head_line(tmp_path: Path, head: bool) -> None:
    columns = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"  # noqa: E501
    found = read(tmp_path, (columns if head else "") + PAI_2020, "pai2020")
    rows = [(j.source_id, j.submit_s, j.run_s, j.gpus, j.cpus, j.mem_mib) for j in found.jobs]
    assert rows == [("jobA/worker", 0, 600, 3, 18, 90000), ("jobC/worker", 100, 60, 4, 12, 20480)]
    assert [(b.line - head, b.why) for b in found.bad] == [
        (2, "0 GPUs"), (3, "no end_time: the job has not ended"),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["", "pai2023"])
def test_pai_2023(tmp_path: Path, kind: str) -> None:
    found = read(tmp_path, PAI_2023, kind)
    rows = [(j.source_id, j.submit_s, j.run_s, j.gpus, j.cpus, j.gpu_type) for j in found.jobs]
    assert rows == [
        ("pod-1", 0, 300, 8, 88, ""), ("pod-2", 100, 100, 1, 5, "V100M16"),
        ("pod-3", 110, 5, 1, 16, ""),
    ]  # fmt: skip
    assert [(b.line, b.why) for b in found.bad] == [(5, "no scheduled_time: the job has not ended")]


SOUND = {
    "helios": HELIOS.splitlines()[:3],
    "acme": ACME.splitlines()[:2],
    "pai2020": [",".join(PAI_TASKS), *PAI_2020.splitlines()[:1]],
    "pai2023": PAI_2023.splitlines()[:2],
}
ODD = st.one_of(
    st.sampled_from(["", "nan", "inf", "-1", "1e300", "0", "9" * 400, "\x1b[2J", "None", "0.5",
                     "2020-13-45 99:99:99", "0001-01-01 00:00:00+23:59", "9999-12-31 23:59:59"]),
    st.text(st.characters(exclude_characters=',"\r\n', exclude_categories=["Cs"]), max_size=20),
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(sorted(SOUND)), column=st.integers(0, 20), value=ODD)
def test_an_odd_value_costs_no_more_than_its_own_row(
    tmp_path: Path, kind: str, column: int, value: str
) -> None:
    head, *rows = SOUND[kind]
    odd = rows[0].split(",")
    odd[column % len(odd)] = value
    text = "\n".join([head, *rows, ",".join(odd), ""])
    workload = read(tmp_path, text, kind)
    assert len(workload.jobs) + len(workload.bad) == len(rows) + 1
    assert len(workload.jobs) >= len(rows)
    assert all(bad.line == len(rows) + 2 for bad in workload.bad)


@pytest.mark.parametrize("kind", sorted(SOUND))
def test_a_missing_column_is_named(tmp_path: Path, kind: str) -> None:
    with pytest.raises(TraceError, match=r"no column|too few fields"):
        read(tmp_path, "job_id,user,name,gpu_num\n1,u,x,2\n", kind)
