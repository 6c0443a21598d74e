"""GRES strings in all their spellings (P61-P69, A01-A07)."""

from __future__ import annotations

import pytest

from slurm_ext.model.node import GpuGroup
from slurm_ext.slurm.gres import (
    Asked,
    HeldGpus,
    asked_gpus,
    held_gpus,
    misnumbered,
    node_gpus,
    shared_gpus,
    used_gpus,
)
from slurm_ext.slurm.text import parse_nodes


def test_a01_untyped_gpu_shown_as_null() -> None:
    groups, other, bad = node_gpus("gpu:4(S:0-1)")
    assert groups == (GpuGroup("", 0b1111, (0, 1)),)
    assert (other, bad) == ((), ())
    assert used_gpus("gpu:(null):4(IDX:0-3)") == (0b1111, 4, (), ())


def test_a02_two_types_on_one_node() -> None:
    groups, _, _ = node_gpus("gpu:mA:2,gpu:mB:2")
    assert [(g.type, g.mask) for g in groups] == [("mA", 0b0011), ("mB", 0b1100)]
    assert used_gpus("gpu:mA:0(IDX:N/A),gpu:mB:1(IDX:2)") == (0b100, 1, (), ())


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        pytest.param("gpu:a100:0(IDX:N/A),shard:a100:2(IDX:0,2)", 0b101, id="22.05"),
        pytest.param("gpu:a100:1(IDX:3),shard:a100:3(1/4,0/4,2/4,0/4)", 0b101, id="later"),
        pytest.param("shard:a100:1(0/4,1/4),shard:v100:1(1/2,0/2)", 0b110, id="two types"),
        pytest.param("mps:200(IDX:1)", 0b10, id="mps"),
        pytest.param("gpu:a100:2(IDX:0-1),shard:a100:0(IDX:N/A)", 0, id="none in use"),
        pytest.param("gpu:a100:2(IDX:0-1)", 0, id="no shards"),
        pytest.param("shard:a100:2(IDX:0-x)", 0, id="unreadable"),
    ],
)
def test_gpus_with_shards_in_use(text: str, shared: int) -> None:
    assert shared_gpus(text) == shared


def test_a03_typed_used_string() -> None:
    assert used_gpus("gpu:k80:4(IDX:0-3)") == (0b1111, 4, (), ())


def test_a04_size_is_not_a_count_of_gpus() -> None:
    assert node_gpus("tmp:844G") == ((), (("tmp", 844 * 2**30),), ())
    assert node_gpus("") == ((), (), ())
    assert node_gpus("(null)") == ((), (), ())


def test_a24_each_node_once() -> None:
    block = "NodeName={} CPUTot=8\n   Gres=gpu:4\n   GresUsed=gpu:{}(IDX:{})\n   State={}\n\n"
    rows = [
        ("a001", 4, "0-3", "ALLOCATED"),
        ("a002", 0, "N/A", "DOWN*+DRAIN"),
        ("a003", 0, "N/A", "IDLE"),
    ]
    nodes, problems = parse_nodes("".join(block.format(*row) for row in rows) * 4)
    assert problems == []
    assert [node.name for node in nodes] == ["a001", "a002", "a003"]
    assert sum(node.gpu_count for node in nodes) == 12
    assert sum(node.gpu_used_count for node in nodes) == 4
    assert [node.usable for node in nodes] == [True, False, True]


@pytest.mark.parametrize(
    ("text", "used"),
    [
        pytest.param("gpu:a100:3(IDX:0,2-3),gpu:h100:1(IDX:4)", (0b11101, 4), id="P61-commas"),
        pytest.param("gpu:a100:0(IDX:N/A)", (0, 0), id="P62-none-used"),
        pytest.param("gpu:a100:20(IDX:0,2,4,", (0, 20), id="P63-cut-short"),
        pytest.param("gpu:a100:3(IDX:0-1)", (0, 3), id="P63-count-wins"),
        ("gpu:2", (0, 2)),
        ("gpu:a100(CNT:2)", (0, 2)),
        pytest.param("gpu:a100:1(IDX:0),shard:a100:4(1/2,3/4)", (0b1, 1), id="P68-shard"),
        ("gpu:a100:1(IDX:999999)", (0, 1)),
        ("", (0, 0)),
        ("N/A", (0, 0)),
    ],
)  # fmt: skip
def test_used(text: str, used: tuple[int, int]) -> None:
    assert used_gpus(text)[:2] == used


@pytest.mark.parametrize(
    ("text", "other"),
    [
        pytest.param("gpu:1,shard:a100:8", (("shard", 8),), id="P68"),
        pytest.param("gpu:1,bandwidth:lustre:no_consume:4G", (), id="P69-no-consume"),
        ("mps:200,nic:2", (("mps", 200), ("nic", 2))),
    ],
)
def test_other_gres(text: str, other: tuple[tuple[str, int], ...]) -> None:
    assert node_gpus(text)[1] == other


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("gpu:a100:2(IDX:4-5)", HeldGpus(2, 0b110000, "a100")),
        ("gpu:a100:1(IDX:0),gpu:v100:1(IDX:4)", HeldGpus(2, 0b10001, "")),
        ("gpu:a100(CNT:2)", HeldGpus(2, 0, "a100")),
        ("gpu:2(IDX:0-1)", HeldGpus(2, 0b11, "")),
        ("gpu:v100:0(IDX:),gpu:a100:0(IDX:),gpu:h100:1(IDX:4)", HeldGpus(1, 0b10000, "h100")),
        ("gpu:a100:2(IDX:0-", HeldGpus(2, 0, "a100")),
        ("shard:a100:3(1/2,2/2)", HeldGpus()),
        ("", HeldGpus()),
    ],
)
def test_held(text: str, held: HeldGpus) -> None:
    assert held_gpus(text) == held


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("gres:gpu:a100:2", Asked(2, "a100", 1)),
        ("gres/gpu:a100:2", Asked(2, "a100", 1)),
        ("gres:gpu", Asked(1)),
        ("gres/gpu=4", Asked(4)),
        pytest.param("gpu:12", Asked(12), id="A06"),
        pytest.param("gres:gpu:1080ti:2", Asked(2, "1080ti", 1), id="P66-digit-type"),
        pytest.param("gres:gpu:1080ti", Asked(1, "1080ti", 1), id="P66-digit-type-only"),
        pytest.param(
            "gres/gpu:nvidia_a100_3g.40gb:2", Asked(2, "nvidia_a100_3g.40gb", 1), id="P67-mig"
        ),
        ("gres:gpu:a100:1,gres:gpu:v100:2", Asked(3, "", 2)),
        ("gres/gpu=2,gres/gpu:a100=2", Asked(2, "a100", 1)),
        ("gres:shard:2", Asked(other=("shard",))),
        ("gres:mps:50", Asked(other=("mps",))),
        ("cpu=8", Asked()),
        ("cpu=2,gres/gpu=1", Asked(1)),
        ("gres:craynetwork:no_consume:1", Asked()),
        ("N/A", Asked()),
    ],
)
def test_asked(text: str, asked: Asked) -> None:
    assert asked_gpus(text) == asked


def test_unreadable_parts_are_named() -> None:
    assert node_gpus("gpu:2,,:x")[2] == ("", ":x")
    assert node_gpus("gpu:99999999")[2] == ("99999999 GPUs",)


def test_another_order_in_gres_conf_is_noticed() -> None:
    groups, _, _ = node_gpus("gpu:mA:2,gpu:mB:2")
    assert misnumbered(groups, "gpu:mA:0(IDX:N/A),gpu:mB:1(IDX:2)") == ()
    assert misnumbered(groups, "gpu:mA:1(IDX:3),gpu:mB:1(IDX:2)") == ("mA",)
    block = "NodeName=n1\n   Gres=gpu:mA:2,gpu:mB:2\n   GresUsed=gpu:mA:1(IDX:3)\n"
    assert "order of Gres" in parse_nodes(block)[1][0].detail
