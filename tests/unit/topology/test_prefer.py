"""Tables for placement: nodes with good sets first, nodes close together."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_ext.topology.fabric import flat
from slurm_ext.topology.fabric_index import FabricIndex, tightest
from slurm_ext.topology.fabric_text import parse_topology
from slurm_ext.topology.prefer import LOCAL_GBPS, NodeTopology, ShapeTable, matching
from slurm_ext.topology.presets import PRESETS
from slurm_ext.topology.ring import ring_gbps
from slurm_ext.topology.sets import best_set, worst_set
from tests.builders import node

from .common import TWO_ISLANDS, text

TREE = parse_topology(text("topology_tree.conf"))
NODES = [f"n{i}" for i in range(11)]


def ids(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, dtype=np.int64)


class TestShapeTable:
    @pytest.mark.parametrize("name", ["dgx1-v100", "nvl-4", "pcie-8"])
    def test_dense_table_agrees_with_the_search(self, name: str) -> None:
        shape = PRESETS[name].shape
        table = ShapeTable(shape)
        for free in range(1, shape.all_mask + 1, 5):
            for k in range(1, free.bit_count() + 1):
                best, worst = best_set(shape, free, k), worst_set(shape, free, k)
                assert best is not None
                assert worst is not None
                assert table.value("best", free, k) == min(best.gbps, LOCAL_GBPS)
                assert table.value("worst", free, k) == min(worst.gbps, LOCAL_GBPS)

    def test_large_node_is_worked_out_on_demand(self) -> None:
        table = ShapeTable(PRESETS["dgx2-v100"].shape)
        assert table.column("best", ids(0xFFFF, 0xF), 4).tolist() == [120.0, 120.0]

    def test_more_than_free_is_zero(self) -> None:
        assert ShapeTable(TWO_ISLANDS).column("best", ids(0b11), 3).tolist() == [0.0]


class TestNodeTopology:
    top = NodeTopology(["a", "b", "c"], {"a": TWO_ISLANDS, "b": TWO_ISLANDS}, flat())
    used = (0b0000_1100, 0b0000_1111, 0)

    def test_best_per_node(self) -> None:
        assert self.top.best(ids(0, 1, 2), self.used, 4).tolist() == [24.0, 24.0, 0.0]

    def test_loss_prefers_the_node_where_any_pick_is_good(self) -> None:
        loss = self.top.loss(ids(0, 1), self.used, 4)
        assert loss[0, 0] > loss[0, 1] == 0
        assert loss[1, 0] > loss[1, 1] == 0

    def test_unknown_shape_loses_nothing(self) -> None:
        assert self.top.loss(ids(2), self.used, 4).tolist() == [[0], [0]]

    def test_one_gpu_loses_nothing(self) -> None:
        assert not self.top.loss(ids(0, 1), self.used, 1).any()

    def test_array_and_list_of_masks_agree(self) -> None:
        as_array = np.array(self.used, dtype=np.int64)
        for k in range(9):
            assert (self.top.loss(ids(1, 0), self.used, k)
                    == self.top.loss(ids(1, 0), as_array, k)).all()  # fmt: skip

    def test_equal_shapes_share_a_table(self) -> None:
        assert len(self.top.tables) == 1

    def test_predicted_is_between_worst_and_best(self) -> None:
        nodes = ids(0, 1)
        for k in range(1, 9):
            low = self.top.worst(nodes, self.used, k)
            high = self.top.best(nodes, self.used, k)
            assert ((low <= self.top.predicted(nodes, self.used, k)) | (low == 0)).all()
            assert (self.top.predicted(nodes, self.used, k) <= high).all()

    def test_score_is_that_of_the_ring(self) -> None:
        assert self.top.best(ids(1), self.used, 4)[0] == ring_gbps(TWO_ISLANDS, 0xF0)


def test_shape_with_other_gpus_than_slurm_has_is_not_used() -> None:
    nodes = [node("a", gpus=8), node("b", gpus=7), node("c", gpus=8)]
    kept, findings = matching(nodes, {"a": TWO_ISLANDS, "b": TWO_ISLANDS})
    assert list(kept) == ["a"]
    assert [(f.code, f.subject) for f in findings] == [("shape_mismatch", "b")]


class TestChoose:
    index = FabricIndex(TREE, NODES)

    def test_tightest_leaf_that_holds_them(self) -> None:
        found = self.index.choose(np.arange(11), 3)
        assert found is not None
        assert found.nodes.tolist() == [8, 9, 10]
        assert (found.level, found.leaves, found.leftover) == (0, 1, 0)

    def test_fewest_leaves_above_one(self) -> None:
        found = self.index.choose(ids(0, 1, 4, 5, 6, 8, 9), 4)
        assert found is not None
        assert (found.level, found.leaves) == (1, 2)
        assert found.nodes.tolist() == [0, 1, 8, 9]

    def test_leftover_comes_from_one_leaf(self) -> None:
        found = self.index.choose(np.arange(8), 6)
        assert found is not None
        assert found.nodes.tolist() == [0, 1, 2, 3, 4, 5]

    def test_ranking_decides_within_a_leaf(self) -> None:
        found = self.index.choose(ids(3, 1, 0, 2), 2)
        assert found is not None
        assert found.nodes.tolist() == [3, 1]

    def test_one_node_is_the_first_of_the_ranking(self) -> None:
        found = self.index.choose(ids(7, 0), 1)
        assert found is not None
        assert found.nodes.tolist() == [7]

    def test_too_few(self) -> None:
        assert self.index.choose(ids(1), 2) is None

    def test_unknown_nodes_are_close_to_nobody(self) -> None:
        index = FabricIndex(TREE, ["x", "y", "n0", "n1"])
        found = index.choose(np.arange(4), 2)
        assert found is not None
        assert found.nodes.tolist() == [2, 3]

    def test_arrange_puts_the_choice_first(self) -> None:
        top = NodeTopology(NODES, {}, TREE)
        assert top.arrange(ids(0, 4, 1, 5, 6), 3).tolist() == [4, 5, 6, 0, 1]

    def test_segments_inside_blocks(self) -> None:
        racks = parse_topology(text("topology_block.conf"))
        nodes = [f"r{r}-{i}" for r in range(3) for i in range(17)]
        found = FabricIndex(racks, nodes).choose_segments(np.arange(51), 36, 12)
        assert found is not None
        assert [int((found.nodes // 17 == r).sum()) for r in range(3)] == [12, 12, 12]

    def test_segments_that_do_not_fit(self) -> None:
        racks = parse_topology(text("topology_block.conf"))
        nodes = [f"r{r}-{i}" for r in range(3) for i in range(17)]
        assert FabricIndex(racks, nodes).choose_segments(np.arange(51), 40, 10) is None

    def test_segments_must_divide(self) -> None:
        with pytest.raises(ValueError, match="segments of 4"):
            self.index.choose_segments(np.arange(8), 6, 4)

    def test_very_many_leaves_are_not_claimed_exact(self) -> None:
        sizes = [3] * 300 + [2] * 300
        chosen, exact = tightest(sizes, 895)
        assert len(chosen) == 299
        assert not exact
