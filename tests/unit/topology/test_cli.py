"""The command line: files in, findings and exit code out."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from slurm_ext.cli import topology
from slurm_ext.topology.findings import TopologyError

from .common import FIXTURES


def call(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    topology.add_parser(parser.add_subparsers())
    args = parser.parse_args(["topology", *argv])
    code: int = args.run(args)
    return code


def path(name: str) -> str:
    return str(FIXTURES / name)


def test_show_prints_the_best_pair(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("show", "--nvidia-smi", path("topo_missing_bridge.txt")) == 0
    assert "2 GPUs: best 0,1 240.0 GB/s; worst" in capsys.readouterr().out


def test_show_json(capsys: pytest.CaptureFixture[str]) -> None:
    call("show", "--gres-conf", path("gres_pairs.conf"), "--topology", path("topology.yaml"),
         "--json")  # fmt: skip
    data = json.loads(capsys.readouterr().out)
    assert data["fabric"]["name"] == "racks"
    assert data["shapes"][0]["islands"] == [[0, 1], [2, 3]]


def test_show_named_topology(capsys: pytest.CaptureFixture[str]) -> None:
    call("show", "--topology", path("topology.yaml"), "--topology-name", "ib")
    assert "level 1: spine, 6 nodes over leaf0,leaf1" in capsys.readouterr().out


def test_check_fails_on_a_missing_bridge(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "--nvidia-smi", path("topo_missing_bridge.txt")) == 1
    assert "nvlink_missing" in capsys.readouterr().out


def test_check_segments(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = "r0-[0-16],r1-[0-16],r2-[0-1]"
    code = call("check", "--topology", path("topology_block.conf"), "--nodes", nodes,
                "--segment", "12", "--json")  # fmt: skip
    assert code == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["code"] == "segment_violated"


def test_check_passes_when_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "--topology", path("topology_tree.conf")) == 0
    assert capsys.readouterr().out == "0 warnings, 0 notes\n"


def test_matrix_of_another_machine_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    call("check", "--nvidia-smi", path("topo_nvswitch.txt"), "--gres-conf",
         path("gres_pairs.conf"))  # fmt: skip
    assert "8 GPUs, gres.conf has [3, 4]" in capsys.readouterr().out


def test_collect_prints_commands_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("collect", "--node", "gpu[01-02]", "--gpus", "8") == 0
    out = capsys.readouterr().out
    assert "--nodelist=gpu02 --exclusive --gpus-per-node=8 nvidia-smi topo -m" in out
    assert "scontrol show topology" in out


def test_error_names_file_and_line(tmp_path: Path) -> None:
    broken = tmp_path / "gres.conf"
    broken.write_text("\nName=gpu File=/dev/nvidia[0-\n")
    with pytest.raises(TopologyError, match=r"gres\.conf:2: .*check the brackets"):
        call("check", "--gres-conf", str(broken))


def test_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="No such file"):
        call("show", "--topology", str(tmp_path / "none"))


def test_nothing_given() -> None:
    with pytest.raises(TopologyError, match="nothing to read"):
        call("show")


def test_segment_needs_nodes() -> None:
    with pytest.raises(TopologyError, match="go together"):
        call("check", "--topology", path("topology_block.conf"), "--segment", "4")


def test_hostile_names_are_escaped(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "topology.conf"
    file.write_text("SwitchName=\x1b[31mred Nodes=n1\n")
    call("show", "--topology", str(file))
    assert "\x1b" not in capsys.readouterr().out
