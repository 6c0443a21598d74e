"""Tables for placement: nodes with good sets first, nodes close together."""

from __future__ import annotations

import json

import numpy as np
import pytest

from slurm_ext.model.plain import from_plain, to_plain
from slurm_ext.topology.fabric import Rates, flat
from slurm_ext.topology.fabric_index import FabricIndex, tightest
from slurm_ext.topology.fabric_text import parse_topology
from slurm_ext.topology.presets import PRESETS
from slurm_ext.topology.ring import ring_gbps
from slurm_ext.topology.sets import best_set, worst_set
from slurm_ext.topology.site import ShapeGroup, SiteTopology, mismatches
from slurm_ext.topology.tables import LOCAL_GBPS, ShapeTable
from slurm_ext.topology.view import NodeTopology
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
    free = ids(0b1111_0011, 0b1111_0000, 0xFF)

    def column(self, what: str, nodes: list[int], k: int) -> list[float]:
        found = self.top.column(what, ids(*nodes), self.free[nodes], ids(*[k] * len(nodes)))
        return [float(x) for x in found]

    def loss(self, nodes: list[int], k: int, *, several: bool = False) -> list[float]:
        gpus = ids(*[k] * len(nodes))
        found = self.top.loss(ids(*nodes), self.free[nodes], gpus, several=several)
        return [float(x) for x in found]

    def test_best_per_node(self) -> None:
        assert self.column("best", [0, 1], 4) == [24.0, 24.0]

    def test_unknown_shape_is_not_a_number(self) -> None:
        assert np.isnan(self.column("best", [2], 4)).all()

    def test_loss_prefers_the_node_where_any_pick_is_good(self) -> None:
        worse, better = self.loss([0, 1], 4)
        assert worse > better == 0.0

    def test_unknown_shape_loses_nothing(self) -> None:
        assert self.loss([2], 4) == [0.0]

    def test_unknown_mask_loses_nothing(self) -> None:
        assert self.top.loss(ids(0), ids(-1), ids(4), several=False).tolist() == [0.0]

    def test_one_gpu_loses_nothing(self) -> None:
        assert self.loss([0, 1], 1) == [0.0, 0.0]

    def test_links_faster_than_the_uplink_do_not_count_between_nodes(self) -> None:
        slow = NodeTopology(["a"], {"a": TWO_ISLANDS}, flat(), Rates(node_gbps=5.0))
        gpus = ids(4)
        assert slow.loss(ids(0), ids(0b1111_0011), gpus, several=True).tolist() == [0.0]
        assert slow.loss(ids(0), ids(0b1111_0011), gpus, several=False)[0] > 0.0

    def test_equal_shapes_share_a_table(self) -> None:
        assert len(self.top.tables) == 1

    def test_predicted_is_between_worst_and_best(self) -> None:
        for k in range(1, 9):
            low, here, high = (
                self.column(what, [0, 1], k) for what in ("worst", "predicted", "best")
            )
            assert all(a <= b <= c for a, b, c in zip(low, here, high, strict=True))

    def test_score_is_that_of_the_ring(self) -> None:
        assert self.column("best", [1], 4)[0] == ring_gbps(TWO_ISLANDS, 0xF0)
        assert self.top.score(1, 0xF0) == ring_gbps(TWO_ISLANDS, 0xF0)

    def test_half_an_island_is_left_over(self) -> None:
        pairs = NodeTopology(["a", "b"], dict.fromkeys("ab", PRESETS["nvl-4"].shape), flat())
        assert pairs.broken(ids(0, 1), ids(0b1111, 0b1110), ids(1, 1)).tolist() == [1, 0]

    def test_one_island_of_all_gpus_is_no_island(self) -> None:
        whole = NodeTopology(["a"], {"a": PRESETS["dgx-h100"].shape}, flat())
        assert whole.broken(ids(0), ids(0xFF), ids(2)).tolist() == [0]


class TestBetweenNodes:
    top = NodeTopology(NODES, {}, TREE, Rates(node_gbps=25.0, oversubscription=(4.0,)))

    def test_ring_is_limited_by_the_slowest_uplink(self) -> None:
        inside = np.full(2, np.inf)
        ring = self.top.ring(ids(0, 1), inside, ids(1, 1), {})
        assert ring is not None
        assert (ring.gbps, ring.best_gbps, ring.lost) == (25.0, 25.0, 0.0)

    def test_jobs_on_the_uplink_share_it(self) -> None:
        inside = np.full(2, np.inf)
        ring = self.top.ring(ids(0, 1), inside, ids(1, 1), {"n0": 1})
        assert ring is not None
        assert ring.lost == 0.5
        assert "n0" in ring.bottleneck

    def test_without_rates_nothing_is_claimed(self) -> None:
        plain = NodeTopology(NODES, {}, TREE)
        assert plain.ring(ids(0, 1), np.full(2, np.inf), ids(1, 1), {}) is None

    def test_units_left_are_counted(self) -> None:
        assert self.top.spread(ids(0, 1)) == 0
        assert self.top.spread(ids(0, 4)) == 2

    def test_regions_hold_enough_and_the_closest_is_first(self) -> None:
        found = self.top.regions(ids(0, 4, 1, 5, 6), 3)
        assert found[0].tolist() == [4, 5, 6]
        assert all(len(region) >= 3 for region in found)

    def test_flat_fabric_has_no_regions(self) -> None:
        assert NodeTopology(NODES, {}, flat()).regions(ids(0, 1, 2), 2) == []


class TestSite:
    site = SiteTopology((ShapeGroup(("a", "b", "c"), TWO_ISLANDS),), TREE, Rates())

    def test_shape_with_other_gpus_than_slurm_has_is_not_used(self) -> None:
        nodes = [node("a", gpus=8), node("b", gpus=7), node("c", gpus=8)]
        view = self.site.on(nodes)
        lost = view.loss(ids(0, 1), ids(0b11_0011, 0b11_0011), ids(4, 4), several=False)
        assert lost[0] > lost[1] == 0.0
        assert [(f.code, f.subject) for f in mismatches(self.site, nodes)] == [
            ("shape_mismatch", "b")
        ]

    def test_survives_being_written(self) -> None:
        text = json.dumps(to_plain(self.site))
        assert from_plain(SiteTopology, json.loads(text)) == self.site


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
