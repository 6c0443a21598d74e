"""How many rings fit side by side on direct links: an exact linear programme, small and dense.

NCCL opens several rings at once on point-to-point NVLinks and runs each both ways round. With
x_c the rate of ring c (each way), the bus bandwidth is

    max Σ 2·x_c    subject to    Σ_{c over link e} x_c ≤ gbps_e    for every link e, x ≥ 0.

Up to 8 GPUs there are at most 2520 rings and 28 links, so a plain primal simplex does: x = 0 is
feasible, no first phase is needed. The optimum never falls when a link is added or made faster.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from .shape import Matrix

_EPS = 1e-9
_Array = npt.NDArray[np.float64]


def parallel_rings_gbps(gbps: Matrix) -> float:
    """Greatest total bandwidth of rings through all GPUs; 0 entries are no link.

    0 when there is no such ring. For three GPUs or more (two have one link and no ring).
    """
    n = len(gbps)
    if n < 3 or any(sum(1 for v in row if v > 0) < 2 for row in gbps):
        return 0.0
    edges = {(i, j): e for e, (i, j) in enumerate(
        (i, j) for i in range(n) for j in range(i + 1, n) if gbps[i][j] > 0)}  # fmt: skip
    capacity = np.array([gbps[i][j] for i, j in edges], dtype=np.float64)
    columns = []
    for ring in rings(gbps):
        column = np.zeros(len(edges))
        for a, b in zip(ring, (*ring[1:], ring[0]), strict=True):
            column[edges[min(a, b), max(a, b)]] = 1.0
        columns.append(column)
    if not columns:
        return 0.0
    # Rounded: the last bits depend on the numbering of the GPUs, equal sets must tie.
    return round(2.0 * maximum(np.array(columns).T, capacity), 6)


def rings(gbps: Matrix) -> Iterator[tuple[int, ...]]:
    """All rings over existing links, each once: GPU 0 first, second GPU below the last."""
    n = len(gbps)

    def extend(path: tuple[int, ...], used: int) -> Iterator[tuple[int, ...]]:
        here = path[-1]
        if len(path) == n:
            if gbps[here][0] > 0 and path[1] < here:
                yield path
            return
        for v in range(1, n):
            if not used >> v & 1 and gbps[here][v] > 0:
                yield from extend((*path, v), used | 1 << v)

    yield from extend((0,), 1)


def maximum(a: _Array, b: _Array) -> float:
    """max Σ x subject to A·x ≤ b, x ≥ 0, with b ≥ 0 and every column of A non-zero.

    Dense tableau; the largest-gain rule first, Bland's rule (which cannot cycle) once the
    number of steps is suspicious.
    """
    m, n = a.shape
    table = np.zeros((m + 1, n + m + 1))
    table[:m, :n] = a
    table[:m, n : n + m] = np.eye(m)
    table[:m, -1] = b
    table[m, :n] = -1.0
    basis = np.arange(n, n + m)
    patience = 50 * m
    step = 0
    while True:
        gains = table[m, :-1]
        if step < patience:
            column = int(np.argmin(gains))
            if gains[column] >= -_EPS:
                break
        else:
            entering = np.flatnonzero(gains < -_EPS)
            if not len(entering):
                break
            column = int(entering[0])
        rates = table[:m, column]
        rows = np.flatnonzero(rates > _EPS)
        if not len(rows):  # cannot be: every column has a link with a capacity
            break
        ratios = table[rows, -1] / rates[rows]
        tied = rows[ratios <= ratios.min() + _EPS]
        row = int(tied[np.argmin(basis[tied])])
        table[row] /= table[row, column]
        others = np.arange(m + 1) != row
        table[others] -= np.outer(table[others, column], table[row])
        basis[row] = column
        step += 1
        if step > 20 * patience:  # numerical trouble: what has been reached is feasible
            break
    return float(table[m, -1])
