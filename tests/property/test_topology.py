"""Topology: the score against brute force, choices against brute force, readers on any text."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slurm_ext.model.units import indices_of
from slurm_ext.topology.fabric import Fabric, FabricKind, Unit
from slurm_ext.topology.fabric_check import check_segments
from slurm_ext.topology.fabric_index import FabricIndex
from slurm_ext.topology.fabric_text import parse_topology
from slurm_ext.topology.fabric_yaml import parse_topology_yaml
from slurm_ext.topology.findings import TopologyError
from slurm_ext.topology.gresconf import parse_gres_conf
from slurm_ext.topology.nvsmi import parse_topo
from slurm_ext.topology.packing import parallel_rings_gbps
from slurm_ext.topology.pick import Ask, possible_picks, predict_pick
from slurm_ext.topology.ring import ring_gbps, ring_score
from slurm_ext.topology.sets import best_set, worst_set
from slurm_ext.topology.shape import Link, LinkClass, NodeShape, build, permuted
from slurm_ext.topology.yaml_subset import read_yaml
from tests.unit.topology.common import FIXTURES
from tests.unit.topology.test_yaml_subset import plain

PCIE = [Link(kind) for kind in (LinkClass.PIX, LinkClass.PXB, LinkClass.PHB, LinkClass.NODE,
                                LinkClass.SYS)]  # fmt: skip
NVLINKS = [Link(LinkClass.NVLINK, lanes) for lanes in (1, 2, 4, 12)]


def make(n: int, links: list[Link], locality: list[int], *, known: bool = False) -> NodeShape:
    """A shape from the links of the pairs in lexicographic order."""
    rows = [[Link(LinkClass.UNKNOWN)] * n for _ in range(n)]
    for (i, j), link in zip(itertools.combinations(range(n), 2), links, strict=True):
        rows[i][j] = rows[j][i] = link
    counts = tuple(
        tuple(-1 if i == j else link.lanes for j, link in enumerate(row))
        for i, row in enumerate(rows)
    )
    return build(rows, locality, slurm_links=counts if known else None)


@st.composite
def shapes(draw: st.DrawFn, most: int = 6, *, nvlink: bool = True, least: int = 2) -> NodeShape:
    n = draw(st.integers(least, most))
    kinds = st.sampled_from(PCIE + NVLINKS if nvlink else PCIE)
    links = draw(st.lists(kinds, min_size=n * (n - 1) // 2, max_size=n * (n - 1) // 2))
    locality = draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))
    return make(n, links, locality, known=draw(st.booleans()))


def all_rings(gpus: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [(gpus[0], *rest) for rest in itertools.permutations(gpus[1:])]


def hops(ring: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(zip(ring, (*ring[1:], ring[0]), strict=True))


def brute_ring(shape: NodeShape, mask: int) -> float:
    gpus = indices_of(mask)
    if len(gpus) < 2:
        return math.inf if gpus else 0.0
    return max(min(shape.gbps[a][b] for a, b in hops(ring)) for ring in all_rings(gpus))


class TestScore:
    @given(shapes(nvlink=False), st.integers(0))
    def test_single_ring_is_the_best_of_all_rings(self, shape: NodeShape, seed: int) -> None:
        mask = seed & shape.all_mask
        score = ring_score(shape, mask)
        assert score.gbps == brute_ring(shape, mask)
        assert score.exact

    @given(shapes(), st.integers(0))
    def test_never_below_one_ring_and_never_above_what_leaves_a_gpu(
        self, shape: NodeShape, seed: int
    ) -> None:
        mask = seed & shape.all_mask
        gpus = indices_of(mask)
        gbps = ring_gbps(shape, mask)
        assert gbps >= brute_ring(shape, mask)
        if len(gpus) > 1:
            assert gbps <= min(sum(shape.gbps[g][h] for h in gpus) for g in gpus) + 1e-6

    @given(shapes(8), st.randoms(use_true_random=False))
    @settings(max_examples=60)
    def test_numbering_does_not_matter(self, shape: NodeShape, rnd: Any) -> None:
        order = list(range(shape.count))
        rnd.shuffle(order)
        turned = permuted(shape, order)
        assert ring_gbps(turned, shape.all_mask) == pytest.approx(ring_gbps(shape, shape.all_mask))

    @given(shapes(7), st.integers(0), st.integers(0, 100))
    @settings(max_examples=150)
    def test_a_better_link_never_lowers_the_score(
        self, shape: NodeShape, seed: int, which: int
    ) -> None:
        pairs = list(itertools.combinations(range(shape.count), 2))
        i, j = pairs[which % len(pairs)]
        better = sorted(
            (link for link in PCIE + NVLINKS), key=lambda x: (x.lanes, x.kind is LinkClass.PIX)
        )[-1]
        links = [better if pair == (i, j) else shape.links[pair[0]][pair[1]] for pair in pairs]
        mask = seed & shape.all_mask
        raised = make(shape.count, links, list(shape.locality))
        assert ring_gbps(raised, mask) >= ring_gbps(shape, mask) - 1e-6

    @given(shapes(7), st.integers(0))
    def test_equal_sets_of_different_nodes_score_alike(self, shape: NodeShape, seed: int) -> None:
        gpus = indices_of(seed & shape.all_mask)
        assume(len(gpus) > 1)
        pairs = itertools.combinations(gpus, 2)
        alone = make(len(gpus), [shape.links[a][b] for a, b in pairs], [0] * len(gpus))
        assert ring_gbps(alone, alone.all_mask) == ring_gbps(shape, seed & shape.all_mask)

    @given(st.lists(st.integers(0, 6), min_size=6, max_size=6))
    def test_packing_of_four_gpus_against_all_vertices(self, capacity: list[int]) -> None:
        """Three rings over six links: the optimum is at the crossing of three constraints."""
        pairs = list(itertools.combinations(range(4), 2))
        gbps = [[0.0] * 4 for _ in range(4)]
        for (i, j), value in zip(pairs, capacity, strict=True):
            gbps[i][j] = gbps[j][i] = float(value)
        rings = [(0, 1, 2, 3), (0, 1, 3, 2), (0, 2, 1, 3)]
        rows = [
            [1.0 if {i, j} in [set(h) for h in hops(ring)] else 0.0 for ring in rings]
            for i, j in pairs
        ]
        a = np.array(rows + [[-1.0 if x == y else 0.0 for y in range(3)] for x in range(3)])
        b = np.array([float(c) for c in capacity] + [0.0] * 3)
        best = 0.0
        for chosen in itertools.combinations(range(9), 3):
            square = a[list(chosen)]
            if abs(np.linalg.det(square)) < 1e-9:
                continue
            x = np.linalg.solve(square, b[list(chosen)])
            if (a @ x <= b + 1e-9).all():
                best = max(best, float(x.sum()))
        assert parallel_rings_gbps(tuple(map(tuple, gbps))) == pytest.approx(2.0 * best)

    @given(shapes(10, least=9, nvlink=False))
    @settings(max_examples=15)
    def test_heuristic_stays_below_its_bound(self, shape: NodeShape) -> None:
        score = ring_score(shape, shape.all_mask)
        assert sorted(score.ring) == list(range(shape.count))
        assert min(shape.gbps[a][b] for a, b in hops(score.ring)) == score.gbps <= score.upper


class TestSets:
    @given(shapes(7), st.integers(0), st.integers(1, 7))
    @settings(max_examples=80)
    def test_best_and_worst_of_all_subsets(self, shape: NodeShape, seed: int, k: int) -> None:
        free = seed & shape.all_mask
        assume(k <= free.bit_count())
        scores = [
            ring_gbps(shape, sum(1 << g for g in chosen))
            for chosen in itertools.combinations(indices_of(free), k)
        ]
        best, worst = best_set(shape, free, k), worst_set(shape, free, k)
        assert best is not None
        assert worst is not None
        assert best.exact
        assert best.mask & ~free == 0
        assert best.gbps == max(scores)
        assert worst.gbps == min(scores)

    @given(shapes(7), st.integers(0), st.integers(1, 7), st.sampled_from(list(Ask)),
           st.none() | st.sets(st.integers(0, 2)))  # fmt: skip
    def test_prediction_is_a_set_of_free_gpus(
        self, shape: NodeShape, seed: int, k: int, ask: Ask, home: set[int] | None
    ) -> None:
        used = seed & shape.all_mask
        free = shape.all_mask & ~used
        mask = predict_pick(shape, used, k, ask=ask, sockets=home)
        assert mask & ~free == 0
        assert mask.bit_count() == (k if k <= free.bit_count() else 0)

    @given(shapes(6), st.integers(0), st.integers(1, 6))
    @settings(max_examples=50)
    def test_default_prediction_is_among_the_possible(
        self, shape: NodeShape, seed: int, k: int
    ) -> None:
        used = seed & shape.all_mask
        assume(k <= shape.count - used.bit_count())
        assert predict_pick(shape, used, k) in possible_picks(shape, used, k)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Fabric, list[str]]:
    """Two levels of switches over at most nine nodes, some of them in none."""
    n = draw(st.integers(2, 9))
    nodes = [f"n{i}" for i in range(n)]
    leaf_of = draw(st.lists(st.integers(-1, 4), min_size=n, max_size=n))
    spine_of = draw(st.lists(st.integers(0, 1), min_size=5, max_size=5))
    leaves = [
        Unit(f"l{k}", 0, tuple(x for x, leaf in zip(nodes, leaf_of, strict=True) if leaf == k))
        for k in range(5)
    ]
    spines = []
    for s in range(2):
        below = [leaf for leaf, spine in zip(leaves, spine_of, strict=True) if spine == s]
        all_nodes = tuple(node for leaf in below for node in leaf.nodes)
        spines.append(Unit(f"s{s}", 1, all_nodes, tuple(leaf.name for leaf in below)))
    return Fabric(FabricKind.TREE, (*leaves, *spines)), nodes


def objective(index: FabricIndex, chosen: tuple[int, ...], candidates: list[int]) -> Any:
    """(level of the lowest common unit, leaves, candidates left on them)."""
    level = next(
        (h for h in range(index.levels) if len({index.units[h, i] for i in chosen}) == 1),
        index.levels,
    )
    leaves = {index.leaf[i] for i in chosen}
    left = sum(1 for i in candidates if index.leaf[i] in leaves) - len(chosen)
    return level, len(leaves), left


class TestChoice:
    @given(trees(), st.randoms(use_true_random=False), st.integers(2, 9))
    @settings(max_examples=200)
    def test_nodes_against_all_subsets(
        self, tree: tuple[Fabric, list[str]], rnd: Any, k: int
    ) -> None:
        fabric, nodes = tree
        index = FabricIndex(fabric, nodes)
        candidates = [i for i in range(len(nodes)) if rnd.random() < 0.8]
        rnd.shuffle(candidates)
        found = index.choose(np.array(candidates, dtype=np.int64), k)
        if k > len(candidates):
            assert found is None
            return
        assert found is not None
        mine = tuple(found.nodes.tolist())
        assert len(set(mine)) == k
        assert set(mine) <= set(candidates)
        assert found.exact
        best = min(objective(index, c, candidates) for c in itertools.combinations(candidates, k))
        assert objective(index, mine, candidates) == best
        assert (found.level, found.leaves, found.leftover) == best

    @given(st.lists(st.integers(0, 7), min_size=1, max_size=4), st.integers(1, 3),
           st.integers(1, 5))  # fmt: skip
    def test_chosen_segments_pass_the_check(self, sizes: list[int], seg: int, many: int) -> None:
        blocks = tuple(
            Unit(f"b{b}", 0, tuple(f"b{b}n{i}" for i in range(size)))
            for b, size in enumerate(sizes)
        )
        fabric = Fabric(FabricKind.BLOCK, blocks)
        nodes = [node for block in blocks for node in block.nodes]
        found = FabricIndex(fabric, nodes).choose_segments(np.arange(len(nodes)), many * seg, seg)
        if sum(size // seg for size in sizes) < many:
            assert found is None
            return
        assert found is not None
        assert len(found.nodes) == many * seg
        assert check_segments(fabric, [nodes[i] for i in found.nodes], seg).ok

    @given(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.integers(1, 3))
    @settings(max_examples=60)
    def test_segment_check_against_all_divisions(self, counts: list[int], seg: int) -> None:
        nodes = [f"b{b}n{i}" for b, count in enumerate(counts) for i in range(count)]
        assume(0 < len(nodes) <= 7)
        blocks = tuple(Unit(f"b{b}", 0, tuple(f"b{b}n{i}" for i in range(4))) for b in range(3))
        found = check_segments(Fabric(FabricKind.BLOCK, blocks), nodes, seg)

        def divides(left: tuple[str, ...]) -> bool:
            size = min(seg, len(left))
            return not left or any(
                len({name[:2] for name in part}) == 1
                and divides(tuple(x for x in left if x not in part))
                for part in itertools.combinations(left, size)
            )

        assert found.ok == divides(tuple(nodes))


TEXTS = [path.read_text() for path in sorted(FIXTURES.iterdir())]
READERS = [parse_topo, parse_gres_conf, parse_topology, parse_topology_yaml]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A fixture with pieces cut out, doubled or replaced."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 12)))
        piece = draw(st.sampled_from(["", text[at:end] * 2, "\n", "\t", "[", "=", "-", " X ", "\\",
                                      "GPU0", "Nodes=", ": ", "#", '"', "\x1b[4m", "99999999999",
                                      "é", "\x00", "1-"]))  # fmt: skip
        text = text[:at] + piece + text[end:]
    return text


class TestReaders:
    @pytest.mark.parametrize("reader", READERS, ids=lambda r: r.__name__)
    @given(text=st.text(max_size=300) | damaged())
    @settings(max_examples=250)
    def test_only_the_documented_error(self, reader: Any, text: str) -> None:
        problem: TopologyError | None = None
        try:
            reader(text)
        except TopologyError as error:
            problem = error
        if problem is not None:
            assert 0 <= problem.line <= text.count("\n") + text.count("\r") + 1
            assert problem.remedy

    @given(shapes(8))
    def test_matrix_survives_being_printed(self, shape: NodeShape) -> None:
        names = [f"GPU{i}" for i in range(shape.count)]
        lines = ["\t" + "\t".join(names)]
        for i, name in enumerate(names):
            cells = [" X " if i == j else str(x) for j, x in enumerate(shape.links[i])]
            lines.append("\t".join([name, *cells]))
        again = parse_topo("\n".join(lines), max_lanes=10_000)
        assert [[str(x) for x in row] for row in again.links] == [
            [str(x) for x in row] for row in shape.links
        ]

    @given(text=damaged() | st.text("ab:- \n[],'\"#&*!|{}?%x", max_size=40))
    @settings(max_examples=400)
    def test_accepted_yaml_means_the_same_to_a_full_reader(self, text: str) -> None:
        yaml = pytest.importorskip("yaml")
        try:
            value = plain(read_yaml(text, "t"))
        except TopologyError:
            return
        other = yaml.load(text, Loader=yaml.BaseLoader)
        assert value == other or (value is None and not other)  # an empty document
