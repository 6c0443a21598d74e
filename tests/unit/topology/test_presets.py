"""Presets: internally consistent and honest about what they do not know."""

from __future__ import annotations

import pytest

from slurm_ext.topology.presets import PRESETS, Preset

ALL = sorted(PRESETS.values(), key=lambda preset: preset.name)


@pytest.mark.parametrize("preset", ALL, ids=lambda p: p.name)
def test_source_and_unknown_are_stated(preset: Preset) -> None:
    assert preset.source
    assert preset.unknown


@pytest.mark.parametrize("preset", ALL, ids=lambda p: p.name)
def test_matrix_is_symmetric(preset: Preset) -> None:
    gbps = preset.shape.gbps
    assert all(gbps[i][j] == gbps[j][i] for i in range(len(gbps)) for j in range(i))


def test_every_gpu_of_a_cube_mesh_has_six_lanes() -> None:
    links = PRESETS["dgx1-v100"].shape.links
    assert [sum(link.lanes for link in row) for row in links] == [6] * 8


def test_islands_of_pairs() -> None:
    assert PRESETS["nvl-4"].shape.islands() == (0b0011, 0b1100)
