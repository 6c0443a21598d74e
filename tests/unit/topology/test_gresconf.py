"""gres.conf: groups of nodes, Slurm's index order, Links= and Cores=."""

from __future__ import annotations

import pytest

from slurm_ext.topology.findings import TopologyError
from slurm_ext.topology.gresconf import parse_gres_conf
from slurm_ext.topology.shape import IndexOrder, LinkClass

from .common import text

CONF = parse_gres_conf(text("gres_pairs.conf"))


def codes(conf_text: str) -> list[str]:
    return [finding.code for finding in parse_gres_conf(conf_text).findings]


def test_nodes_with_the_same_lines_form_a_group() -> None:
    assert [group.nodes for group in CONF.groups[:2]] == [("pair01", "pair02"), ("pair03",)]


def test_index_is_the_order_of_the_lines() -> None:
    shape = CONF.shape_of("pair01")
    assert shape is not None
    assert shape.order is IndexOrder.SLURM
    assert shape.links[0][1].kind is LinkClass.NVLINK
    assert shape.links[2][3].lanes == 12
    assert shape.links[1][2].kind is LinkClass.SYS


def test_continuation_line_belongs_to_its_device() -> None:
    shape = CONF.shape_of("pair02")
    assert shape is not None
    assert shape.locality == (0, 0, 1, 1)
    assert shape.affinity[2] == "32-63"


def test_file_range_with_a_gap() -> None:
    shape = CONF.shape_of("pair03")
    assert shape is not None
    assert shape.count == 3


def test_types_are_kept() -> None:
    shape = CONF.shape_of("pair01")
    assert shape is not None
    assert shape.of_type("a100") == 0b1111
    assert shape.of_type("h100") == 0


def test_autodetect_is_noted_per_node() -> None:
    group = next(g for g in CONF.groups if "auto1" in g.nodes)
    assert group.autodetect == "nvml"
    assert group.shape is None


def test_general_autodetect_is_unset_by_off() -> None:
    conf = parse_gres_conf("AutoDetect=nvml\nNodeName=a AutoDetect=off Name=gpu File=/dev/nvidia0")
    assert [(g.nodes, g.autodetect) for g in conf.groups] == [(("a",), ""), ((), "nvml")]


def test_include_and_other_gres_are_noted() -> None:
    assert CONF.includes == ("/etc/slurm/gres.d/extra.conf",)
    assert CONF.other == ("shard",)


def test_lines_without_nodes_hold_for_all() -> None:
    conf = parse_gres_conf("Name=gpu File=/dev/nvidia[0-1]\n")
    shape = conf.shape_of("anything")
    assert shape is not None
    assert shape.count == 2


def test_without_links_the_class_comes_from_the_cores() -> None:
    shape = parse_gres_conf(
        "Name=gpu File=/dev/nvidia[0-1] Cores=0-7\nName=gpu File=/dev/nvidia2 Cores=8-15\n"
    ).shape_of("x")
    assert shape is not None
    assert shape.links[0][1].kind is LinkClass.NODE
    assert shape.links[0][2].kind is LinkClass.SYS
    assert shape.slurm_links is None


def test_cores_of_several_groups_bind_to_none() -> None:
    shape = parse_gres_conf(
        "Name=gpu File=/dev/nvidia0 Cores=0-7\nName=gpu File=/dev/nvidia1 Cores=8-15\n"
        "Name=gpu File=/dev/nvidia2 Cores=0-15\n"
    ).shape_of("x")
    assert shape is not None
    assert shape.locality == (0, 1, -1)


def test_keys_ignore_case_and_comments_are_dropped() -> None:
    shape = parse_gres_conf("NAME=gpu TYPE=v100 FILE=/dev/nvidia[0-3] # all\n").shape_of("x")
    assert shape is not None
    assert shape.types == ("v100",) * 4


@pytest.mark.parametrize(
    ("conf", "code"),
    [
        ("Name=gpu File=/dev/nvidia0 Links=-1,2\nName=gpu File=/dev/nvidia1", "links_ignored"),
        ("Name=gpu File=/dev/nvidia0 Links=2,-1\nName=gpu File=/dev/nvidia1 Links=-1,2",
         "links_self"),
        ("Name=gpu File=/dev/nvidia0 Links=-1,2\nName=gpu File=/dev/nvidia1 Links=4,-1",
         "links_asymmetric"),
        ("Name=gpu Count=4", "no_file"),
        ("Name=gpu File=/dev/nvidia[0-1] Count=4", "count_mismatch"),
        ("Name=gpu File=/dev/nvidia[0-1]", "links_unknown"),
        ("Name=gpu File=/dev/nvidia0 UniqueId=7", "unknown_key"),
        ("Name=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21", "mig"),
        ("AutoDetect=nvml", "autodetect"),
    ],
)  # fmt: skip
def test_findings(conf: str, code: str) -> None:
    assert code in codes(conf)


@pytest.mark.parametrize(
    ("conf", "line", "says"),
    [
        ("\n\nName=gpu File=/dev/nvidia[0-", 3, "host list"),
        ("Name=gpu File=/dev/nvidia[0-3] Links=-1,1,1,1", 1, "4 GPUs"),
        ("Name=gpu File=/dev/nvidia0 Links=-1,two", 1, "not a list of counts"),
        ("Name=gpu File=/dev/nvidia0 Cores=9-1", 1, "out of bounds"),
        ("Name=gpu nonsense", 1, "expected key=value"),
        ("Name=gpu Name=gpu", 1, "given twice"),
        ("NodeName=a Type=x", 1, "neither Name="),
        ('NodeName="" Name=gpu', 1, "without a node"),
        ("Name=gpu Count=4G", 1, "Count="),
        ("Name=gpu File=/dev/nvidia0 MultipleFiles=/dev/nvidia1", 1, "together"),
        ("Name=gpu File=/dev/nvidia[0-99]", 1, "at most"),
    ],
)
def test_errors_name_the_line(conf: str, line: int, says: str) -> None:
    with pytest.raises(TopologyError) as caught:
        parse_gres_conf(conf)
    assert caught.value.line == line
    assert says in str(caught.value)
    assert caught.value.remedy
