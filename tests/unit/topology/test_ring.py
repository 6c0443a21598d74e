"""The score: known machines, the multi-node rule, what is exact."""

from __future__ import annotations

import math

import pytest

from slurm_ext.model.units import mask_of
from slurm_ext.topology.packing import maximum, parallel_rings_gbps
from slurm_ext.topology.presets import PRESETS
from slurm_ext.topology.ring import (
    RingScore,
    Uplink,
    placement_gbps,
    ring_gbps,
    ring_score,
    shared_gbps,
)
from slurm_ext.topology.shape import Link, LinkClass

from .common import NV, shape_of


@pytest.mark.parametrize(
    ("preset", "gpus", "gbps"),
    [
        ("dgx1-v100", range(8), 120.0),  # six lanes of 20 in use, as NCCL plans it
        ("dgx1-v100", (0, 1, 2, 3), 80.0),  # four lanes of each GPU stay inside
        ("dgx1-v100", (0, 3), 40.0),  # a doubled link
        ("dgx1-v100", (0, 1), 20.0),
        ("dgx1-v100", (0, 7), 8.0),  # no NVLink: across the sockets
        ("dgx2-v100", range(16), 120.0),
        ("dgx-a100", range(8), 240.0),
        ("dgx-a100", (2, 5), 240.0),
        ("hgx-a100-4", range(4), 240.0),
        ("hgx-a100-4", (0, 1), 80.0),  # four of twelve lanes lead to one peer
        ("nvl-4", (0, 1), 240.0),
        ("nvl-4", (1, 2), 10.0),
        ("nvl-4", range(4), 10.0),
        ("pcie-8", (0, 1), 24.0),
        ("pcie-8", range(4), 14.0),
    ],
)
def test_known_machines(preset: str, gpus: range | tuple[int, ...], gbps: float) -> None:
    score = ring_score(PRESETS[preset].shape, mask_of(tuple(gpus)))
    assert score.gbps == pytest.approx(gbps)
    assert score.exact


def test_one_gpu_sends_nothing() -> None:
    assert ring_gbps(PRESETS["pcie-4"].shape, 0b10) == math.inf


def test_no_gpu_is_worth_nothing() -> None:
    assert ring_gbps(PRESETS["pcie-4"].shape, 0) == 0.0


def test_mask_outside_the_node_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        ring_gbps(PRESETS["pcie-4"].shape, 0b10000)


def test_ring_found_has_the_speed_claimed() -> None:
    shape = PRESETS["pcie-8"].shape
    score = ring_score(shape, 0b00110111)
    ring = score.ring
    hops = [shape.gbps[a][b] for a, b in zip(ring, (*ring[1:], ring[0]), strict=True)]
    assert sorted(ring) == [0, 1, 2, 4, 5]
    assert min(hops) == score.gbps


def test_ten_gpus_report_their_gap() -> None:
    shape = shape_of(10, {(i, i + 1): Link(LinkClass.PIX) for i in range(9)})
    score = ring_score(shape, shape.all_mask)
    assert score.gbps <= score.upper
    assert 0.0 <= score.gap < 1.0


def test_ten_gpus_in_a_closed_chain_are_found() -> None:
    links = {(i, i + 1): Link(LinkClass.PIX) for i in range(9)} | {(0, 9): Link(LinkClass.PIX)}
    shape = shape_of(10, links)
    assert ring_score(shape, shape.all_mask).gbps == 24.0


class TestPacking:
    def test_triangle_has_one_ring_both_ways(self) -> None:
        assert parallel_rings_gbps(((0, 3, 5), (3, 0, 4), (5, 4, 0))) == 6.0

    def test_open_chain_has_none(self) -> None:
        assert parallel_rings_gbps(((0, 1, 0), (1, 0, 1), (0, 1, 0))) == 0.0

    def test_square_with_diagonals_uses_all_links(self) -> None:
        full = tuple(tuple(0.0 if i == j else 1.0 for j in range(4)) for i in range(4))
        assert parallel_rings_gbps(full) == 3.0

    def test_two_islands_have_none(self) -> None:
        links = {(0, 1): Link(NV, 4), (2, 3): Link(NV, 4)}
        shape = shape_of(4, links)
        assert ring_gbps(shape, 0b1111) == 10.0

    def test_linear_programme_against_a_known_vertex(self) -> None:
        import numpy as np

        a = np.array([[1.0, 2.0], [3.0, 1.0]])
        # Both constraints are tight at (0.4, 0.8).
        assert maximum(a, np.array([2.0, 2.0])) == pytest.approx(1.2)


class TestSeveralNodes:
    inside = (("a", RingScore(240.0, (0, 1), 240.0)), ("b", RingScore(80.0, (0, 1), 80.0)))

    def test_slowest_node_limits(self) -> None:
        found = placement_gbps(self.inside, [Uplink("a", 100.0)])
        assert (found.gbps, found.bottleneck) == (80.0, "links inside b")

    def test_slowest_uplink_limits(self) -> None:
        found = placement_gbps(self.inside, [Uplink("a", 25.0), Uplink("leaf0", 50.0)])
        assert (found.gbps, found.bottleneck) == (25.0, "uplink of a")

    def test_uplink_is_shared_with_the_jobs_on_it(self) -> None:
        found = placement_gbps(self.inside, [Uplink("a", 100.0), Uplink("leaf0", 90.0, 2)])
        assert found.gbps == pytest.approx(30.0)
        assert "shared with 2 jobs" in found.bottleneck

    def test_gap_of_a_node_is_passed_on(self) -> None:
        assert not placement_gbps([("a", RingScore(5.0, (0, 1), 9.0))], []).exact

    @pytest.mark.parametrize(
        ("jobs", "alpha", "gbps"),
        [(0, 0.5, 60.0), (1, 0.0, 30.0), (1, 1.0, 20.0), (2, 0.0, 20.0)],
    )
    def test_sharing_follows_sjf_bco(self, jobs: int, alpha: float, gbps: float) -> None:
        assert shared_gbps(60.0, jobs, alpha) == pytest.approx(gbps)
