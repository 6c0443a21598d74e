"""One job in the shape of each adapter gives one and the same value (cases A05-A07, A10).

slurmrestd's records go through the reader of ``squeue --json``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from slurm_ext.model.job import BaseState, Job
from slurm_ext.slurm.details import split_blocks
from slurm_ext.slurm.jobs import job_of_record
from slurm_ext.slurm.json import parse_jobs
from slurm_ext.slurm.native_rows import COLUMNS, Gaps, Line, build, read_lasting

from .recorded import records
from .test_details import block

SHAPES = ("text", "v0.0.38", "v0.0.39", "v0.0.40", "v0.0.45", "native")
ID = 9


def of_text(tasks: int = 1, **values: str) -> Job:
    shown = block(ID, nodes="1")
    for old, new in (
        ("NumCPUs=16 NumTasks=4 CPUs/Task=4", f"NumCPUs={tasks} NumTasks={tasks} CPUs/Task=1"),
        ("NtasksPerN:B:S:C=2:", "NtasksPerN:B:S:C=0:"),
    ):
        assert old in shown
        shown = shown.replace(old, new)
    shown = "\n".join(line for line in shown.split("\n") if "CPU_IDs=" not in line)
    record = records(shown)[ID]._replace(**{"tres_per_node": "N/A", **values})
    return job_of_record(record, split_blocks(shown).chunks[ID], [])


def of_json(version: str, **values: Any) -> Job:
    """Numbers are plain in v0.0.38, objects later; states are lists from v0.0.40 on."""
    number = int(version.rpartition(".")[2])

    def shaped(value: Any) -> Any:
        if number == 38 or not (value is None or isinstance(value, int)):
            return value
        return {"set": value is not None, "infinite": False, "number": value or 0}

    record = {
        name: value if name == "job_id" else shaped(value)
        for name, value in {"job_id": ID, "submit_time": 1, **values}.items()
    }
    state = values["job_state"].split()
    record["job_state"] = state if number >= 40 else state[-1]
    (found,), _ = parse_jobs({"jobs": [record]}, 0)
    return found


def of_native(gaps: Gaps, **values: Any) -> Job:
    row = {**dict.fromkeys(COLUMNS), "unreadable": [], "layout": [], **values}
    line = Line(ID, "[]", json.dumps(list(row.values())))
    found = read_lasting(line)
    assert found is not None
    return build(line, found, gaps, {}, [])


def running(shape: str, tres: str) -> Job:
    """A job on one node, asked for with ``--gpus-per-node``, that shows nothing but totals."""
    if shape == "text":
        return of_text(state="RUNNING", nodelist="n1", tres=tres)
    if shape == "native":
        return of_native(Gaps(), state="RUNNING", allocated_nodes="n1", allocated=tres, cpus=4)
    return of_json(shape, job_state="RUNNING", nodes="n1", cpus=4, tres_alloc_str=tres)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("tres", "kind"),
    [
        pytest.param("cpu=4,mem=32G,node=1,gres/gpu=1", "", id="A05"),
        pytest.param(
            "cpu=10,mem=100G,node=1,billing=10,gres/gpu=1,gres/gpu:a100=1", "a100", id="A07"
        ),
        pytest.param("cpu=4,node=1,gres/gpu:rtx_2080_ti=1", "rtx_2080_ti", id="A07-typed-only"),
    ],
)
def test_the_job_holds_one_gpu(shape: str, tres: str, kind: str) -> None:
    found = running(shape, tres)
    assert [(s.node, s.gpus, s.gpu_type) for s in found.alloc] == [("n1", 1, kind)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("field", "asked", "tasks", "gpus"),
    [
        pytest.param("tres_per_job", "gpu:12", 1, 12, id="A06-gpus"),
        pytest.param("tres_per_task", "gpu:2", 3, 6, id="A06-gpus-per-task"),
        ("tres_per_node", "gpu", 1, 1),
    ],
)
def test_gpus_asked_for(shape: str, field: str, asked: str, tasks: int, gpus: int) -> None:
    old, new = f"gres:{asked}", f"gres/{asked}"
    if shape == "text":
        found = of_text(tasks, state="PENDING", nodelist="", **{field: old})
    elif shape == "native":
        gaps = Gaps(**{field: new})
        found = of_native(gaps, state="PENDING", ntasks=tasks, cpus=tasks, num_nodes=1)
    else:
        value = old if shape in ("v0.0.38", "v0.0.39") else new
        found = of_json(
            shape, job_state="PENDING", tasks=tasks, cpus=tasks, node_count=1, **{field: value}
        )
    assert found.request.gpus == gpus


@pytest.mark.parametrize("shape", SHAPES)
def test_array_task_zero(shape: str) -> None:
    if shape == "text":
        found = of_text(state="RUNNING", array_job="5", array_tasks="0")
    elif shape == "native":
        found = of_native(Gaps(), state="RUNNING", array_id=5)
    else:
        found = of_json(shape, job_state="RUNNING", array_job_id=5, array_task_id=0)
    assert (found.array_job_id, found.array_task_id, found.address) == (5, 0, "5_0")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("leader", "offset"), [(ID, 0), (8, 1), (0, None)])
def test_het_offset(shape: str, leader: int, offset: int | None) -> None:
    """Not a part of a heterogeneous job: 0 and no offset, which is not offset 0."""
    if shape == "text":
        shown = ("N/A", "N/A") if offset is None else (str(leader), str(offset))
        found = of_text(state="PENDING", nodelist="", het_job=shown[0], het_offset=shown[1])
    elif shape == "native":
        found = of_native(
            Gaps(), state="PENDING", heterogeneous_id=leader or None,
            heterogeneous_offset=offset or None,
        )  # fmt: skip
    else:
        found = of_json(shape, job_state="PENDING", het_job_id=leader, het_job_offset=offset or 0)
    assert (found.het_job_id, found.het_offset) == (leader, offset)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("state", ["RUNNING", "COMPLETED COMPLETING"])
def test_a10_nodes_are_busy_until_the_job_has_gone(shape: str, state: str) -> None:
    """Text and old JSON show the flag in place of the base: then the base is not known."""
    tres, word = "cpu=4,node=1,gres/gpu=1", state.split()[-1]
    if shape == "text":
        found = of_text(state=word, nodelist="n1", tres=tres)
    elif shape == "native":
        found = of_native(Gaps(), state=word, allocated_nodes="n1", allocated=tres, cpus=4)
    else:
        found = of_json(shape, job_state=state, nodes="n1", cpus=4, tres_alloc_str=tres)
    lists = shape in ("v0.0.40", "v0.0.45")
    base = BaseState(state.split()[0]) if lists or word == "RUNNING" else BaseState.UNKNOWN
    assert (found.state.base, found.state.completing) == (base, word == "COMPLETING")
    assert found.state.occupies
    assert sum(share.gpus for share in found.alloc) == 1
