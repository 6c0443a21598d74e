"""Which indices Slurm takes, and the best and worst sets."""

from __future__ import annotations

import pytest

from slurm_ext.model.units import indices_of, mask_of
from slurm_ext.topology.pick import Ask, likely_sockets, possible_picks, predict_pick
from slurm_ext.topology.presets import PRESETS
from slurm_ext.topology.sets import any_pick_good, best_set, distinct_sets, worst_set
from slurm_ext.topology.shape import Link, LinkClass, permuted

from .common import NV, TWO_ISLANDS, shape_of

UNBOUND = shape_of(4, {})
"""No Cores= and no Links=: GPUs of no socket."""

PAIRS = shape_of(4, {(0, 2): Link(NV, 12), (1, 3): Link(NV, 12)}, locality=[0] * 4, links=True)
"""Bridges 0-2 and 1-3, one socket, Slurm knows the links."""


class TestBestSet:
    def test_whole_island_beside_a_broken_one(self) -> None:
        """Case A18: peers 0-3 and 4-7, 2 and 3 busy, four wanted."""
        found = best_set(TWO_ISLANDS, mask_of([0, 1, 4, 5, 6, 7]), 4)
        assert found is not None
        assert found.gpus == (4, 5, 6, 7)

    def test_small_job_goes_to_the_broken_island(self) -> None:
        found = best_set(TWO_ISLANDS, mask_of([0, 1, 4, 5, 6, 7]), 2)
        assert found is not None
        assert found.gpus == (0, 1)

    def test_one_gpu_leaves_pairs_whole(self) -> None:
        found = best_set(PRESETS["nvl-4"].shape, 0b1110, 1)
        assert found is not None
        assert found.gpus == (1,)

    def test_too_few_free(self) -> None:
        assert best_set(TWO_ISLANDS, 0b11, 3) is None

    def test_quad_of_a_cube_mesh(self) -> None:
        found = best_set(PRESETS["dgx1-v100"].shape, 0xFF, 4)
        assert found is not None
        assert found.gpus == (0, 1, 2, 3)


class TestWorstSet:
    def test_split_over_the_sockets(self) -> None:
        found = worst_set(TWO_ISLANDS, 0xFF, 2)
        assert found is not None
        assert found.gbps == 10.0

    def test_switch_makes_any_pick_good(self) -> None:
        assert any_pick_good(PRESETS["dgx-a100"].shape, 0b1011_0101, 3)

    def test_pairs_do_not(self) -> None:
        assert not any_pick_good(PRESETS["nvl-4"].shape, 0b1111, 2)

    def test_only_one_pair_left_is_good_again(self) -> None:
        assert any_pick_good(PRESETS["nvl-4"].shape, 0b0011, 2)

    def test_not_enough_free_is_not_good(self) -> None:
        assert not any_pick_good(TWO_ISLANDS, 0b1, 2)


class TestDistinctSets:
    def test_switch_has_one_set_of_each_size(self) -> None:
        assert len(list(distinct_sets(PRESETS["dgx2-v100"].shape, 0xFFFF, 8))) == 1 + 2 * 4

    def test_without_twins_all_subsets(self) -> None:
        assert len(list(distinct_sets(PRESETS["dgx1-v100"].shape, 0xFF, 4))) == 70


class TestPredictedPick:
    def test_lowest_free_first_without_sockets(self) -> None:
        assert indices_of(predict_pick(UNBOUND, 0b0001, 2)) == (1, 2)

    def test_one_socket_if_it_is_enough(self) -> None:
        assert indices_of(predict_pick(TWO_ISLANDS, 0, 4)) == (0, 1, 2, 3)

    def test_socket_with_more_free_cores_is_first(self) -> None:
        mask = predict_pick(TWO_ISLANDS, 0b1100, 4, free_cores={0: 8, 1: 16})
        assert indices_of(mask) == (4, 5, 6, 7)

    def test_broken_island_is_split_when_cores_are_even(self) -> None:
        """The pick that case A18 warns of: sockets in order, one GPU of each first."""
        mask = predict_pick(TWO_ISLANDS, 0b1100, 4)
        assert indices_of(mask) == (0, 1, 4, 5)

    def test_job_without_spread_takes_socket_by_socket(self) -> None:
        mask = predict_pick(TWO_ISLANDS, 0b1100, 4, ask=Ask.TASK, sockets=(0, 1))
        assert indices_of(mask) == (0, 1, 4, 5)

    def test_links_are_followed(self) -> None:
        assert indices_of(predict_pick(PAIRS, 0, 2)) == (0, 2)

    def test_links_are_followed_for_a_job_total(self) -> None:
        assert indices_of(predict_pick(PAIRS, 0, 2, ask=Ask.JOB)) == (0, 2)

    def test_broken_pair_is_avoided_for_a_job_total(self) -> None:
        assert indices_of(predict_pick(PAIRS, 0b0001, 2, ask=Ask.JOB)) == (1, 3)

    def test_type_is_kept(self) -> None:
        from dataclasses import replace

        mixed = replace(UNBOUND, types=("a100", "a100", "h100", "h100"))
        assert indices_of(predict_pick(mixed, 0, 2, gpu_type="h100")) == (2, 3)

    @pytest.mark.parametrize("count", [0, -1, 9])
    def test_nothing_if_it_does_not_fit(self, count: int) -> None:
        assert predict_pick(TWO_ISLANDS, 0, count) == 0

    def test_job_with_one_core_stays_on_one_socket(self) -> None:
        assert len(likely_sockets(TWO_ISLANDS, 0xFF, 8, cores=1)) == 1

    def test_possible_picks_hold_every_prediction(self) -> None:
        picks = possible_picks(TWO_ISLANDS, 0b1100, 4)
        assert {mask_of([4, 5, 6, 7]), mask_of([0, 1, 4, 5])} <= picks


def test_permuted_shape_answers_in_the_new_numbers() -> None:
    turned = permuted(PRESETS["nvl-4"].shape, [0, 2, 1, 3])
    found = best_set(turned, 0b1111, 2)
    assert found is not None
    assert found.gpus == (0, 2)
    assert turned.links[0][2].kind is LinkClass.NVLINK


def test_permutation_is_checked() -> None:
    with pytest.raises(ValueError, match="not a permutation"):
        permuted(UNBOUND, [0, 0, 1, 2])
