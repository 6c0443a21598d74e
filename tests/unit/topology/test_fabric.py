"""Trees and blocks: the three ways they are written, uplinks, segments."""

from __future__ import annotations

import pytest

from slurm_ext.topology.fabric import FabricKind, Rates
from slurm_ext.topology.fabric_check import check_segments
from slurm_ext.topology.fabric_text import parse_topology
from slurm_ext.topology.fabric_yaml import parse_topology_yaml
from slurm_ext.topology.findings import TopologyError
from slurm_ext.topology.lines import hosts

from .common import text

TREE = parse_topology(text("topology_tree.conf"))
RACKS = parse_topology(text("topology_block.conf"))


def names(expression: str) -> tuple[str, ...]:
    return hosts(expression, "test", 0)


class TestTree:
    def test_conf_and_scontrol_agree(self) -> None:
        shown = parse_topology(text("scontrol_tree.txt"))
        assert [(u.name, u.level, u.nodes, u.children) for u in shown.units] == [
            (u.name, u.level, u.nodes, u.children) for u in TREE.units
        ]

    def test_path_goes_up(self) -> None:
        assert TREE.path("n5") == ("leaf1", "spine")

    def test_unknown_node_has_no_leaf(self) -> None:
        assert TREE.leaf("elsewhere") == ""

    @pytest.mark.parametrize(
        ("conf", "code"),
        [
            ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2", "several_roots"),
            ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\nSwitchName=c Switches=a,b",
             "node_twice"),
            ("SwitchName=a Nodes=n1\nSwitchName=b Switches=a\nSwitchName=c Switches=a",
             "two_parents"),
            ("SwitchName=a", "empty_unit"),
            ("SwitchName=a Nodes=n1 Colour=red", "unknown_key"),
            ("# nothing\n", "empty"),
            ("No topology information available", "no_topology"),
            ("RingName=r Nodes=n[1-4]", "unsupported"),
        ],
    )  # fmt: skip
    def test_findings(self, conf: str, code: str) -> None:
        assert code in [finding.code for finding in parse_topology(conf).findings]

    @pytest.mark.parametrize(
        ("conf", "line", "says"),
        [
            ("SwitchName=a Switches=b", 1, "unknown child"),
            ("SwitchName=a Switches=b\nSwitchName=b Switches=a", 1, "below itself"),
            ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", 2, "twice"),
            ("\nSwitchName=a Nodes=n[1-", 2, "SLURM_TOPO_LEN"),
            ("SwitchName=a BlockName=b", 1, "exactly one name"),
            ("Nodes=n1", 1, "neither"),
            ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2", 0, "both"),
            ("BlockSizes=4", 0, "without a block"),
            ("SwitchName=a Nodes=n1 LinkSpeed=fast", 1, "not a number"),
        ],
    )
    def test_errors(self, conf: str, line: int, says: str) -> None:
        with pytest.raises(TopologyError) as caught:
            parse_topology(conf)
        assert caught.value.line == line
        assert says in str(caught.value)


class TestBlocks:
    def test_sizes_and_kind(self) -> None:
        assert RACKS.kind is FabricKind.BLOCK
        assert RACKS.block_sizes == (16,)

    def test_output_before_block_size_was_shown(self) -> None:
        shown = parse_topology(text("scontrol_block_2311.txt"))
        assert [u.nodes for u in shown.leaves] == [u.nodes for u in RACKS.leaves]

    def test_aggregated_blocks_are_formed_in_file_order(self) -> None:
        shown = parse_topology(text("scontrol_block_2505.txt"))
        assert shown.block_sizes == (4, 8)
        upper = [u for u in shown.units if u.level == 1]
        assert [u.children for u in upper] == [("b1", "b2"), ("b3",)]

    def test_small_block_is_reported(self) -> None:
        fabric = parse_topology("BlockName=a Nodes=n[1-3]\nBlockSizes=4")
        assert [f.code for f in fabric.findings] == ["small_block"]

    def test_sizes_that_are_no_powers_are_reported(self) -> None:
        fabric = parse_topology("BlockName=a Nodes=n[1-9]\nBlockSizes=3,9")
        assert [f.code for f in fabric.findings] == ["block_sizes"]


class TestSegments:
    def test_violated(self) -> None:
        """Case A19: 36 nodes in segments of 12 got 17 + 17 + 2."""
        found = check_segments(RACKS, names("r0-[0-16],r1-[0-16],r2-[0-1]"), 12)
        assert [count for _, count in found.counts] == [17, 17, 2]
        assert [finding.code for finding in found.findings] == ["segment_violated"]
        assert "17+17+2" in found.findings[0].detail

    def test_correct_example_is_given(self) -> None:
        found = check_segments(RACKS, names("r0-[0-16],r1-[0-16],r2-[0-1]"), 12)
        assert found.possible == (("r0", 12), ("r1", 12), ("r2", 12))

    @pytest.mark.parametrize(
        ("nodes", "segment", "ok"),
        [
            ("r0-[0-11],r1-[0-11],r2-[3-14]", 12, True),
            ("r0-[0-15],r1-[0-3]", 4, True),
            ("r0-[0-15]", 8, True),
            ("r0-[0-4],r1-[0-2]", 4, False),
            ("r0-[0-3],r1-[0-1]", 4, True),
            ("r0-[0-4],r1-[0-4]", 4, False),
        ],
        ids=["one-each", "four-and-one", "two-in-one", "5+3", "rest-elsewhere", "split-rest"],
    )
    def test_division(self, nodes: str, segment: int, ok: bool) -> None:
        assert check_segments(RACKS, names(nodes), segment).ok is ok

    def test_nodes_outside_are_reported(self) -> None:
        found = check_segments(RACKS, ["r0-0", "stray"], 1)
        assert "outside_fabric" in [finding.code for finding in found.findings]

    def test_needs_blocks(self) -> None:
        assert [f.code for f in check_segments(TREE, ["n0"], 1).findings] == ["no_blocks"]

    def test_impossible_segment_says_so(self) -> None:
        found = check_segments(RACKS, names("r0-[0-16],r1-[0-16]"), 34)
        assert "no division" in found.findings[0].remedy


class TestUplinks:
    rates = Rates(node_gbps=25.0, oversubscription=(2.0,))

    def test_one_node_crosses_nothing(self) -> None:
        assert TREE.crossed(["n0"], self.rates) == ()

    def test_one_leaf_crosses_only_the_nodes(self) -> None:
        assert [u.name for u in TREE.crossed(["n0", "n1"], self.rates)] == ["n0", "n1"]

    def test_two_leaves_cross_both(self) -> None:
        found = {u.name: u.gbps for u in TREE.crossed(["n0", "n4"], self.rates)}
        assert found == {"n0": 25.0, "n4": 25.0, "leaf0": 50.0, "leaf1": 50.0}

    def test_nvlink_domain_inside_a_block(self) -> None:
        rates = Rates(node_gbps=50.0, block_gbps=2887.2)
        assert {u.gbps for u in RACKS.crossed(["r0-0", "r0-1"], rates)} == {2887.2}
        assert min(u.gbps for u in RACKS.crossed(["r0-0", "r1-1"], rates)) == 50.0

    @pytest.mark.parametrize("bad", [{"node_gbps": 0.0}, {"oversubscription": ()},
                                     {"block_gbps": -1.0}])  # fmt: skip
    def test_senseless_rates_are_refused(self, bad: dict[str, object]) -> None:
        with pytest.raises(ValueError, match=r"must"):
            Rates(**bad)  # type: ignore[arg-type]


class TestYaml:
    found = parse_topology_yaml(text("topology.yaml"))

    def test_all_topologies(self) -> None:
        assert [(f.name, f.kind) for f in self.found.fabrics] == [
            ("ib", FabricKind.TREE), ("racks", FabricKind.BLOCK), ("plain", FabricKind.FLAT),
        ]  # fmt: skip

    def test_default_is_the_flagged_one(self) -> None:
        assert self.found.pick().name == "racks"

    def test_pick_by_name(self) -> None:
        assert self.found.pick("ib").path("n4") == ("leaf1", "spine")

    def test_unknown_name(self) -> None:
        with pytest.raises(TopologyError, match="known: ib, racks, plain"):
            self.found.pick("torus")

    def test_same_tree_as_the_conf_file(self) -> None:
        assert self.found.pick("racks").block_sizes == (4, 8)

    @pytest.mark.parametrize(
        ("body", "says"),
        [
            ("", "no list"),
            ("topology: x", "no list"),
            ("- topology: a\n- topology: b\n  flat: true", "0 types"),
            ("- topology: a\n  flat: true\n  tree:\n    switches: []", "2 types"),
            ("- topology: a\n  flat: true\n- topology: a\n  flat: true", "used before"),
            ("- topology: a\n  tree:\n    switches:\n      - nodes: n1", "without `switch:`"),
            ("- topology: a\n  cluster_default: maybe\n  flat: true", "cluster_default"),
            ("- topology: a\n  block:\n    blocks: b1", "not a list"),
            ("- topology: a\n  block:\n    block_sizes: [4, x]\n    blocks: []", "block_sizes"),
        ],
    )
    def test_errors(self, body: str, says: str) -> None:
        with pytest.raises(TopologyError, match=says):
            parse_topology_yaml(body)
