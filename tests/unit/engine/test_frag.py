"""Stranded GPUs, fragments, culprits, and the fewest moves that make room."""

from __future__ import annotations

import pytest

from slurm_ext.engine.frag import (
    Fragmentation,
    PerGpu,
    fragmentation,
    largest_waiting,
    per_gpu_of,
    target,
)
from slurm_ext.model.job import Job, NodeShare, Request
from slurm_ext.model.observation import Observation
from tests.builders import NOW, context, job, node, observation


def hog(job_id: int, name: str, gpus: int, cpus: int, mem: int = 0) -> Job:
    share = NodeShare(name, cpus, mem, gpus, 0, "a100")
    return job(job_id, gpus=gpus, cpus=cpus, on={name: gpus}, alloc=(share,))


def look(obs: Observation, wanted: Job | None = None, need: PerGpu | None = None) -> Fragmentation:
    return fragmentation(obs, context("fifo"), need or PerGpu(), wanted)


def test_gpus_without_cpus_are_stranded_by_the_job_that_holds_the_cpus() -> None:
    nodes = [node("n1", cpus=16, cpus_used=16, used=range(3)), node("n2")]
    found = look(observation(nodes, [hog(1, "n1", 2, 4), hog(2, "n1", 1, 12)]))
    (loss,) = found.losses
    assert (found.stranded, loss.node, loss.short) == (5, "n1", "cpus")
    assert [k.job_id for k in loss.culprits] == [2]


def test_gpus_without_memory_are_stranded() -> None:
    nodes = [node("n1", mem=1000, mem_used=900, used=range(1), cpus_used=1)]
    found = look(observation(nodes, [hog(1, "n1", 1, 1, 900)]), need=PerGpu(1, 100))
    assert [(x.stranded, x.short) for x in found.losses] == [(6, "memory")]


def test_what_no_job_holds_has_no_culprit() -> None:
    found = look(observation([node("n1", cpus=4, cpus_used=4)], []))
    assert [(x.stranded, x.culprits) for x in found.losses] == [(8, ())]


def test_fragments_depend_on_the_target() -> None:
    nodes = [node(n, used=range(5), cpus_used=5) for n in ("n1", "n2")]
    obs = observation(nodes, [hog(1, "n1", 5, 5), hog(2, "n2", 1, 1), hog(3, "n2", 4, 4)])
    assert look(obs, job(9, gpus=3)).fragments == 0
    found = look(obs, job(9, gpus=4))
    assert (found.free, found.fragments) == (6, 6)
    assert {x.node: [k.job_id for k in x.culprits] for x in found.losses} == {"n1": [1], "n2": [2]}


def test_the_fewest_moves_and_where_the_moved_job_could_go() -> None:
    nodes = [node(n, used=range(4), cpus_used=4) for n in ("n1", "n2", "n3")]
    jobs = [hog(1, "n1", 4, 4), hog(2, "n2", 3, 3), hog(3, "n2", 1, 1), hog(4, "n3", 4, 4)]
    room = look(observation(nodes, jobs), job(9, gpus=8)).room
    assert room is not None
    assert (room.verdict, room.fewest) == ("moves", True)
    (move,) = room.moves
    assert (move.key.job_id, move.gpus) == (1, 4)
    assert move.elsewhere == ("n2",)


@pytest.mark.parametrize(("gpus", "verdict"), [(4, "fits"), (9, "never")])
def test_when_nothing_must_move(gpus: int, verdict: str) -> None:
    nodes = [node("n1", used=range(4), cpus_used=4)]
    room = look(observation(nodes, [hog(1, "n1", 4, 4)]), job(9, gpus=gpus)).room
    assert room is not None
    assert room.verdict == verdict


def test_gpus_of_unusable_nodes_are_counted_apart() -> None:
    found = look(observation([node("n1"), node("n2", states=("DOWN",))], []))
    assert (found.gpus, found.free, found.whole_nodes, found.unusable) == (8, 8, 8, 8)


def test_a_gathered_request_has_a_share_of_a_node() -> None:
    nodes = [node(n, used=range(3), cpus_used=3) for n in ("n1", "n2")]
    obs = observation(nodes, [hog(1, "n1", 3, 3), hog(2, "n2", 3, 3)])
    wanted = job(9, request=Request(gpus_total=12, nodes_max=None))
    found = look(obs, wanted)
    assert found.fragments == 10
    assert found.room is not None
    assert len(found.room.moves) == 1


def test_the_median_need_beside_a_gpu() -> None:
    jobs = [job(1, gpus=2, cpus=8, mem=200), job(2, gpus=1, cpus=2), job(3, gpus=1, cpus=6),
            job(4, cpus=99)]  # fmt: skip
    assert per_gpu_of(jobs) == PerGpu(4, 0)
    assert per_gpu_of([]) == PerGpu(1, 0)


def test_the_largest_request_is_the_target() -> None:
    jobs = [job(1, gpus=1), job(2, gpus=4, nodes=2), job(3, gpus=8)]
    found = largest_waiting(observation([node("n1")], jobs), [j.key for j in jobs])
    assert found is not None
    assert found.job_id == 2


def test_a_target_that_is_not_there() -> None:
    obs = observation([node("n1"), node("n2")], [])
    wanted = target(obs, 16, 0, "", "gpu", PerGpu(2, 100))
    assert wanted.request.nodes_min == 2
    assert wanted.request.gpus_per_node == 8
    assert wanted.request.cpus == 32
    assert wanted.key.submit_s == NOW


@pytest.mark.parametrize(
    ("gpus", "nodes", "kind", "said"),
    [(9, 2, "", "evenly"), (1, 0, "h100", "type h100")],
)
def test_targets_that_cannot_be(gpus: int, nodes: int, kind: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        target(observation([node("n1")], []), gpus, nodes, kind, "gpu", PerGpu())
