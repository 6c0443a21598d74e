"""Section topology: files read into one value, every problem told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.daemon.config import load
from slurm_ext.daemon.context import context
from slurm_ext.daemon.topology import read_topology
from slurm_ext.engine.settings import Memory
from slurm_ext.engine.topology import UNKNOWN
from slurm_ext.errors import ConfigError
from slurm_ext.topology.presets import PRESETS
from slurm_ext.topology.site import SiteTopology
from tests.builders import node
from tests.unit.topology.common import FIXTURES


def configured(tmp_path: Path, text: str) -> Any:
    file = tmp_path / "slurm_ext.toml"
    file.write_text("[topology]\n" + text)
    return load(file)


def read(tmp_path: Path, text: str) -> SiteTopology:
    return read_topology(configured(tmp_path, text).topology)


def test_nothing_named_is_nothing_known(tmp_path: Path) -> None:
    assert read(tmp_path, "").on([node("n1")]) is UNKNOWN


def test_preset_by_host_list(tmp_path: Path) -> None:
    site = read(tmp_path, '[topology.presets]\n"gpu[1-2]" = "dgx-h100"')
    assert site.shapes(["gpu1", "gpu3"]) == {"gpu1": PRESETS["dgx-h100"].shape}


def test_switches_and_their_bandwidth(tmp_path: Path) -> None:
    path = FIXTURES / "topology_tree.conf"
    site = read(tmp_path, f'topology_conf = "{path}"\nnode_gbps = 50\noversubscription = 2')
    assert site.fabric.leaf("n5") == "leaf1"
    assert site.rates is not None
    assert site.rates.upward(0, 4) == 100.0


def test_without_bandwidth_there_are_no_rates(tmp_path: Path) -> None:
    assert read(tmp_path, f'topology_conf = "{FIXTURES / "topology_tree.conf"}"').rates is None


def test_gres_conf_says_what_slurm_picks_by(tmp_path: Path) -> None:
    conf = tmp_path / "gres.conf"
    conf.write_text(
        "NodeName=a[1-2] Name=gpu Type=x File=/dev/gpu[0-1] Cores=0-7\n"
        "NodeName=a[1-2] Name=gpu Type=x File=/dev/gpu[2-3] Cores=8-15\n"
    )
    site = read(
        tmp_path, f'gres_conf = "{conf}"\n[topology.nvidia_smi]\na1 = "'
        f'{FIXTURES / "topo_missing_bridge.txt"}"',
    )  # fmt: skip
    shapes = site.shapes(["a1", "a2"])
    assert [s.locality for s in shapes.values()] == [(0, 0, 1, 1), (0, 0, 1, 1)]
    assert shapes["a1"].gbps[0][1] > shapes["a2"].gbps[0][1]


def test_gres_conf_without_names_holds_for_all(tmp_path: Path) -> None:
    conf = tmp_path / "gres.conf"
    conf.write_text("Name=gpu File=/dev/gpu[0-3]\n")
    assert read(tmp_path, f'gres_conf = "{conf}"').shapes(["any"])["any"].count == 4


def test_every_problem_is_told(tmp_path: Path) -> None:
    bad = tmp_path / "bad.conf"
    bad.write_text("SwitchName=\n")
    text = (
        f'gres_conf = "{tmp_path / "missing"}"\ntopology_conf = "{bad}"\n'
        '[topology.presets]\nn1 = "dgx-z9"\n"n[1-" = "pcie-4"'
    )
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    told = str(caught.value)
    assert "topology.gres_conf" in told
    assert "No such file" in told
    assert "bad.conf:1" in told
    assert "dgx-z9" in told
    assert 'presets."n[1-"' in told


def test_speeds_reach_the_engine(tmp_path: Path) -> None:
    config = configured(tmp_path, "[topology.gpu_speeds]\nh100 = 1\na100 = 0.5")
    ctx = context(config, ledger={}, memory=Memory(), paused=False, can_note=False)
    assert ctx.gpu_speeds == {"h100": 1.0, "a100": 0.5}


def test_wrong_speed_is_a_fault_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"topology\.gpu_speeds\.h100"):
        configured(tmp_path, "[topology.gpu_speeds]\nh100 = -1")


def test_replaced_configuration_is_read_anew(tmp_path: Path) -> None:
    first = configured(tmp_path, "").topology
    second = replace(first, presets={"n1": "pcie-4"})
    assert read_topology(first) != read_topology(second)
