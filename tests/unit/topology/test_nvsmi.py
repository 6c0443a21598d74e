"""nvidia-smi topo -m: formats of several drivers, and what must not be taken for a GPU."""

from __future__ import annotations

import pytest

from slurm_ext.topology.findings import Severity, TopologyError
from slurm_ext.topology.nvsmi import parse_topo
from slurm_ext.topology.sets import best_set
from slurm_ext.topology.shape import IndexOrder, LinkClass

from .common import text

PAIR = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \t{0}\t0-3\nGPU1\t{0}\t X \t4-7\n"


class TestMissingBridge:
    """Case A17: 0-1 bridged, 2-3 only on the same NUMA node, two NICs."""

    shape = parse_topo(text("topo_missing_bridge.txt"))

    def test_nics_are_not_gpus(self) -> None:
        assert self.shape.count == 4

    def test_best_pair_is_the_bridged_one(self) -> None:
        found = best_set(self.shape, 0b1111, 2)
        assert found is not None
        assert found.gpus == (0, 1)

    def test_second_pair_is_the_other_numa_node(self) -> None:
        found = best_set(self.shape, 0b1100, 2)
        assert found is not None
        assert found.gpus == (2, 3)
        assert self.shape.locality[2] == self.shape.locality[3]
        assert self.shape.links[2][3].kind is LinkClass.NODE

    def test_missing_bridge_is_reported(self) -> None:
        (finding,) = [f for f in self.shape.findings if f.code == "nvlink_missing"]
        assert finding.severity is Severity.WARNING
        assert finding.subject == "GPUs 2,3"

    def test_affinity_and_numa(self) -> None:
        assert self.shape.locality == (0, 0, 1, 1)
        assert self.shape.affinity[3] == "28-55,84-111"

    def test_order_is_pci(self) -> None:
        assert self.shape.order is IndexOrder.PCI


def test_old_driver_with_blanks_and_soc() -> None:
    shape = parse_topo(text("topo_pcie_blanks.txt"))
    assert shape.count == 8
    assert [str(shape.links[0][j]) for j in (1, 2, 4)] == ["PIX", "PHB", "SYS"]


def test_locality_from_cpu_affinity_without_numa_column() -> None:
    shape = parse_topo(text("topo_pcie_blanks.txt"))
    assert shape.locality == (0,) * 4 + (1,) * 4


def test_switch_is_recognised_by_the_number_of_lanes() -> None:
    shape = parse_topo(text("topo_nvswitch.txt"))
    assert shape.links[0][7].kind is LinkClass.NVSWITCH
    assert shape.slurm_links is not None
    assert shape.slurm_links[0] == (-1, 0, 0, 0, 0, 0, 0, 0)


def test_direct_links_stay_direct() -> None:
    assert parse_topo(PAIR.format("NV12")).links[0][1].kind is LinkClass.NVLINK


def test_empty_affinity_cells_do_not_shift() -> None:
    shape = parse_topo(text("topo_vm_no_affinity.txt"))
    assert shape.affinity == ("", "")
    assert shape.locality == (-1, -1)


def test_single_gpu() -> None:
    assert parse_topo("\tGPU0\tCPU Affinity\nGPU0\t X \t0-7\n").count == 1


@pytest.mark.parametrize(
    ("cell", "kind"),
    [("PIX", LinkClass.PIX), ("PXB", LinkClass.PXB), ("PHB", LinkClass.PHB),
     ("NODE", LinkClass.NODE), ("SYS", LinkClass.SYS), ("SOC", LinkClass.SYS),
     ("NV4", LinkClass.NVLINK)],
)  # fmt: skip
def test_link_classes(cell: str, kind: LinkClass) -> None:
    assert parse_topo(PAIR.format(cell)).links[0][1].kind is kind


def test_unknown_class_is_reported_and_slowest() -> None:
    shape = parse_topo(PAIR.format("WARP"))
    assert [f.code for f in shape.findings] == ["unknown_link"]
    assert shape.gbps[0][1] == parse_topo(PAIR.format("SYS")).gbps[0][1]


def test_asymmetric_cells_count_as_the_slower() -> None:
    shape = parse_topo("\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tSYS\tX\n")
    assert shape.links[0][1].kind is LinkClass.SYS
    assert [f.code for f in shape.findings] == ["asymmetric"]


def test_mig_rows_are_skipped_and_noted() -> None:
    shape = parse_topo(PAIR.format("SYS") + "MIG 1g.10gb Device 0\n")
    assert [f.code for f in shape.findings] == ["mig_rows"]


def test_text_before_the_matrix_is_skipped() -> None:
    assert parse_topo("+----+\n| Driver 550 |\n\n" + PAIR.format("PHB")).count == 2


def test_second_matrix_is_noted() -> None:
    shape = parse_topo(PAIR.format("SYS") + "\n" + PAIR.format("PIX"))
    assert [f.code for f in shape.findings] == ["second_matrix"]
    assert shape.links[0][1].kind is LinkClass.SYS


@pytest.mark.parametrize(
    ("broken", "line", "says"),
    [
        ("", 0, "no header"),
        ("hello\nworld", 0, "no header"),
        ("\tGPU0\tGPU1\nGPU0\tX\tSYS\n", 1, "no such row"),
        ("\tGPU0\tGPU1\nGPU0\tX\n", 2, "the row is cut"),
        ("\tGPU0\tGPU1\nGPU0\tSYS\tX\n", 2, "column GPU0"),
        ("\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU0\tX\tSYS\n", 3, "twice"),
        ("\tGPU0\tGPU0\nGPU0\tX\tX\n", 1, "twice"),
        ("\tGPU0\tGPU1\nGPU0\tX\tCNS\nGPU1\tCNS\tX\n", 2, "topo -p2p"),
    ],
)
def test_errors_name_line_and_remedy(broken: str, line: int, says: str) -> None:
    with pytest.raises(TopologyError) as caught:
        parse_topo(broken)
    assert caught.value.line == line
    assert says in str(caught.value)
    assert "nvidia-smi" in str(caught.value) or "topo -m" in caught.value.remedy
