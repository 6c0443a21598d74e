"""No parser raises, whatever Slurm (or a user through Slurm) prints; and round trips."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.model.observation import Problem
from slurm_ext.slurm import (
    actions,
    arrays,
    details,
    gres,
    hosts,
    jobs,
    json_nodes,
    states,
    text,
    times,
    tres,
)
from slurm_ext.slurm import json as json_jobs
from slurm_ext.slurm.priorities import parse_priorities
from slurm_ext.slurm.request import RawRequest, build_request
from slurm_ext.slurm.squeue import FIELDS, Framing, Record

from .recorded import document, raw_record
from .recorded import text as recorded

SIGNS = "0123456789:-,=()[]%/. \n\tgpuGMKa_*+~IDXNCS"
ANY = st.one_of(st.text(max_size=60), st.text(alphabet=SIGNS, max_size=60))


@given(ANY)
def test_small_parsers(value: str) -> None:
    times.duration_s(value)
    times.moment_s(value)
    tres.parse_tres(value)
    tres.mem_mib(value)
    gres.parse_gres(value)
    gres.node_gpus(value)
    gres.used_gpus(value)
    gres.asked_gpus(value)
    held = gres.held_gpus(value)
    assert held.mask == 0 or held.mask.bit_count() == held.count
    arrays.parse_tasks(value)
    states.job_state_of_text(value)
    states.node_states_of_text(value)
    hosts.expand(value)
    jobs.reason_token(value)
    jobs.clean(value).encode()
    actions.read_answer(value)


LINES = st.lists(
    st.one_of(
        ANY,
        st.sampled_from(
            [
                "JobId=7 JobName=x",
                "   ReqNodeList=(null) ExcNodeList=(null)",
                "   NumNodes=1-4 NumCPUs=1",
                "     Nodes=n[1-2] CPU_IDs=0-7 Mem=1 GRES=gpu:a100:2(IDX:0-1)",
                "   OverSubscribe=OK Contiguous=0",
                "NodeName=n1 Gres=gpu:4",
                "   GresUsed=gpu:4(IDX:0-3)",
                "PartitionName=p Nodes=n[1-4]",
                "ReservationName=r StartTime=x",
                "Configuration data as of 2026-11-30T16:31:58",
                "SLURM_VERSION = 22.05.8",
            ]
        ),
    ),
    max_size=12,
).map("\n".join)


@given(LINES)
def test_scontrol_parsers(value: str) -> None:
    found = details.split_blocks(value)
    assert not found.doubtful & found.chunks.keys()
    for chunk in found.chunks.values():
        details.parse_chunk(chunk.text)
    text.parse_nodes(value)
    text.parse_partitions(value)
    text.parse_reservations(value)
    text.parse_config(value)
    parse_priorities(value)
    text.parse_rpc_counts(value)


@given(st.lists(ANY, min_size=len(FIELDS), max_size=len(FIELDS)), LINES)
def test_any_record_becomes_a_job(values: list[str], block: str) -> None:
    problems: list[Problem] = []
    chunk = details.Chunk(block)
    for one in (None, chunk):
        job = jobs.job_of_record(Record(*values), one, problems)
        assert all(share.gpus >= share.gpu_mask.bit_count() for share in job.alloc)


@given(
    st.lists(st.lists(st.text(max_size=20), min_size=len(FIELDS), max_size=len(FIELDS)), max_size=4)
)
def test_framing_round_trip(rows: list[list[str]]) -> None:
    framing = Framing.fresh()
    output = "".join(raw_record(framing, row) + framing.record + "\n" for row in rows)
    raw, rest = framing.records(output)
    assert rest == ""
    assert [framing.cut(one) for one in raw] == [Record(*row) for row in rows]


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), ANY),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["set", "infinite", "number", "list", "x"]), inner, max_size=4
        ),
    ),
    max_leaves=12,
)


def replaced(value: Any, path: list[int], new: Any) -> Any:
    """The value with the thing at a place inside it (by positions) replaced."""
    if not path or not isinstance(value, (dict, list)) or not value:
        return new
    if isinstance(value, dict):
        key = sorted(value)[path[0] % len(value)]
        return {**value, key: replaced(value[key], path[1:], new)}
    at = path[0] % len(value)
    return [*value[:at], replaced(value[at], path[1:], new), *value[at + 1 :]]


PATHS = st.lists(st.integers(0, 400), min_size=1, max_size=9)


@pytest.mark.parametrize("version", ["22.05", "26.05"])
@given(path=PATHS, new=JSON)
def test_json_with_one_thing_replaced(version: str, path: list[int], new: object) -> None:
    whole = document(version, "squeue.json")
    some = {"jobs": whole["jobs"][:2]}
    json_jobs.parse_jobs(replaced(some, path, new), 0)
    name = "sinfo.json" if version == "22.05" else "scontrol-node.json"
    json_nodes.parse_nodes(replaced({"nodes": document(version, name)["nodes"][:1]}, path, new))
    if version != "22.05":
        parts = document(version, "scontrol-partition.json")
        json_nodes.parse_partitions(replaced({"partitions": parts["partitions"]}, path, new))
        resv = document(version, "scontrol-reservation.json")
        json_nodes.parse_reservations(
            replaced({"reservations": resv["reservations"]}, path, new), 0
        )
    json_jobs.reports(replaced(whole, path, new) if len(path) == 1 else new)


@given(JSON)
def test_any_json(value: object) -> None:
    json_jobs.parse_jobs({"jobs": [{"job_id": 1, "job_resources": value, "nodes": value}]}, 0)
    json_jobs.parse_jobs({"jobs": value}, 0)
    json_nodes.parse_nodes({"nodes": value})
    states.job_state_of_json(value, value)


@given(
    st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{1,3}(-ib)?", fullmatch=True), unique=True, max_size=12)
)
def test_fold_and_expand(names: list[str]) -> None:
    assert set(hosts.expand(hosts.fold(names)) or ()) == set(names)


@given(st.integers(1_000_000_000, 4_000_000_000))
def test_stamps(moment: int) -> None:
    assert times.moment_s(times.stamp(moment)) == moment


@given(st.sets(st.integers(0, 63), max_size=16))
def test_indices(indices: set[int]) -> None:
    mask = sum(1 << i for i in indices)
    shown = ",".join(map(str, sorted(indices))) or "N/A"
    assert gres.used_gpus(f"gpu:a100:{len(indices)}(IDX:{shown})")[:2] == (mask, len(indices))


@given(st.builds(RawRequest, tres_per_node=ANY, tres_per_job=ANY, required=ANY, features=ANY))
def test_any_request(raw: RawRequest) -> None:
    build_request(raw)


@pytest.mark.parametrize("cut", range(0, 3000, 97))
def test_recordings_cut_anywhere(cut: int) -> None:
    for name in ("scontrol-node-d.txt", "scontrol-job-d.txt", "scontrol-reservation.txt"):
        piece = recorded("22.05", name)[: cut * 5]
        text.parse_nodes(piece)
        text.parse_reservations(piece)
        for chunk in details.split_blocks(piece).chunks.values():
            details.parse_chunk(chunk.text)


def test_json_documents_are_not_changed_by_reading() -> None:
    whole = document("26.05", "squeue.json")
    before = json.dumps(whole)
    json_jobs.parse_jobs(whole, 0)
    assert json.dumps(whole) == before
