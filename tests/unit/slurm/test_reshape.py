"""Another shape for a waiting job: what Slurm is told for each form of request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_ext.model.decision import JobPatch, Lever, Shape
from slurm_ext.model.job import JobKey, Request
from slurm_ext.model.reshape import given_back, reshaped, shape_of, stands, unshapeable
from slurm_ext.slurm.actions import patch_commands

NODE = Request(
    1, 1, cpus=8, tasks=1, cpus_per_task=8, gpus_per_node=4, mem_per_node_mib=1000, min_cpus_node=8
)
TOTAL = replace(NODE, nodes_max=None, gpus_per_node=0, gpus_total=4)
TASKS = Request(1, 1, cpus=8, tasks=4, cpus_per_task=2, gpus_per_node=4, min_cpus_node=2)
PER_TASK = replace(TASKS, gpus_per_node=0, gpus_per_task=1)
PER_GPU = replace(NODE, cpus=1, cpus_per_task=1, cpus_per_gpu=4, min_cpus_node=1)
ON_NODE = replace(TASKS, tasks_per_node=4, min_cpus_node=8)
MIN_CPUS = replace(NODE, min_cpus_node=20, cpus=4, cpus_per_task=2, tasks=2)
PER_CPU = replace(NODE, mem_per_node_mib=0, mem_per_cpu_mib=100)


def words(request: Request, shape: Shape) -> str:
    patch = JobPatch(JobKey(7, 1), "7", Lever.RELEASE, shape=shape)
    (command,) = patch_commands(patch, "Partition=gpu,", request)
    return command.line.removeprefix("update JobId=7 Partition=gpu, ")


@pytest.mark.parametrize(
    ("request_", "shape", "told"),
    [
        (NODE, Shape(1, 2, 1, 4, 500),
         "Gres=gpu:2 CPUsPerTask=4 NumCPUs=4 MinCPUsNode=4 MinMemoryNode=500"),
        (NODE, Shape(1, 4, 1, 12, 1000), "CPUsPerTask=12 NumCPUs=12 MinCPUsNode=12"),
        (ON_NODE, Shape(1, 4, 4, 4), "CPUsPerTask=1 NumCPUs=4 MinCPUsNode=4"),
        (MIN_CPUS, Shape(1, 2, 2, 4), "Gres=gpu:2"),
        (MIN_CPUS, Shape(1, 4, 2, 24), "CPUsPerTask=12 NumCPUs=24"),
        (replace(NODE, gpu_type="a100"), Shape(1, 8, 1, 8), "Gres=gpu:a100:8"),
        (TOTAL, Shape(1, 2, 1, 8), "TresPerJob=gres:gpu:2"),
        (TASKS, Shape(1, 8, 8, 16), "NumTasks=8 Gres=gpu:8 CPUsPerTask=2 NumCPUs=16"),
        (PER_TASK, Shape(1, 2, 2, 4), "NumTasks=2 CPUsPerTask=2 NumCPUs=4"),
        (PER_GPU, Shape(1, 8, 1, 32), "Gres=gpu:8 CPUsPerTask=32 NumCPUs=32"),
        (PER_GPU, Shape(1, 2, 1, 1), "Gres=gpu:2"),
        (PER_GPU, Shape(1, 4, 1, 20), "CPUsPerTask=20 NumCPUs=20"),
        (NODE, Shape(2, 8, 2, 16),
         "NumNodes=2-2 NumTasks=2 Gres=gpu:8 CPUsPerTask=8 NumCPUs=16"),
    ],
)  # fmt: skip
def test_one_update_names_what_differs(request_: Request, shape: Shape, told: str) -> None:
    assert words(request_, shape) == told
    after = reshaped(request_, shape)
    assert shape_of(after)[:4] == shape[:4]
    assert reshaped(after, shape_of(request_)) == request_


@pytest.mark.parametrize(
    ("request_", "shape", "why"),
    [
        (NODE, Shape(1, 0, 1, 4), "at least one"),
        (replace(NODE, gpus_per_node=0), Shape(1, 2, 1, 4), "no GPU"),
        (replace(NODE, exclusive=True), Shape(1, 2, 1, 4), "whole nodes"),
        (replace(NODE, unplannable=("shard",)), Shape(1, 2, 1, 4), "shard"),
        (replace(TASKS, nodes_max=4), Shape(1, 2, 2, 4), "give --nodes"),
        (TOTAL, Shape(2, 4, 2, 16), "asked for per node"),
        (PER_TASK, Shape(1, 2, 4, 8), "--gpus-per-task"),
        (replace(TASKS, tasks_per_node=4), Shape(1, 2, 2, 4), "--ntasks-per-node"),
        (NODE, Shape(2, 8, 1, 8), "fewer tasks"),
        (replace(NODE, cpus=12), Shape(1, 4, 1, 16), "not those of its tasks"),
        (TASKS, Shape(1, 4, 4, 9), "not those of its tasks"),
        (PER_CPU, Shape(1, 4, 1, 8, 5000), "--mem"),
        (MIN_CPUS, Shape(1, 4, 2, 8), "--mincpus"),
        (replace(NODE, gpu_type="a 100"), Shape(1, 2, 1, 8), "not a GPU type"),
    ],
)
def test_what_cannot_be_is_refused(request_: Request, shape: Shape, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        words(request_, shape)


def test_a_shape_needs_the_job_as_it_is() -> None:
    with pytest.raises(ValueError, match="not seen"):
        patch_commands(JobPatch(JobKey(7, 1), "7", Lever.RELEASE, shape=Shape(1, 1, 1, 1)), None)


OURS, BEFORE = Shape(1, 2, 1, 4, 500), Shape(1, 4, 1, 8, 1000)


@pytest.mark.parametrize(
    ("now", "standing", "back"),
    [
        (OURS, True, BEFORE),
        (BEFORE, False, BEFORE),
        (Shape(1, 4, 1, 4, 1000), True, BEFORE),  # partly written
        (Shape(1, 1, 1, 4, 500), True, Shape(1, 1, 1, 8, 1000)),  # its user has changed the GPUs
        (Shape(1, 1, 1, 2, 700), False, Shape(1, 1, 1, 2, 700)),
    ],
)
def test_what_stands_and_what_is_given_back(now: Shape, standing: bool, back: Shape) -> None:
    request = reshaped(NODE, now)
    assert stands(request, OURS, BEFORE) is standing
    assert given_back(request, OURS, BEFORE) == back


def test_memory_that_was_not_touched_is_not_given_back() -> None:
    assert given_back(PER_CPU, Shape(1, 4, 1, 16), Shape(1, 4, 1, 8)) == Shape(1, 4, 1, 8)


def test_an_ordinary_request_in_its_own_shape_is_fine() -> None:
    for request in (NODE, TOTAL, TASKS, PER_TASK, PER_GPU, PER_CPU):
        assert unshapeable(request, shape_of(request)) == ""
