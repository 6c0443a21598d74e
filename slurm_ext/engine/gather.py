"""From an order of nodes to a placement: so many shares, or nodes until all units are found."""

from __future__ import annotations

from slurm_ext.model.decision import Placement
from slurm_ext.model.job import NodeShare

from .pool import Demand, IntArray, Pool


def gathered(
    pool: Pool,
    demand: Demand,
    units: IntArray | None,
    order: IntArray,
    wanted: int,
    required: tuple[int, ...] = (),
) -> Placement | None:
    """The first nodes of an order that give what is asked, without GPU indices; None: too few.

    ``units`` on each node of the pool, for a demand that is not uniform; ``wanted`` nodes at
    least, the ``required`` ones among them.
    """
    if demand.uniform:
        return on_nodes(pool, demand, order[:wanted]) if len(order) >= wanted else None
    assert units is not None
    return _flexible(pool, demand, units, order, wanted, required)


def on_nodes(pool: Pool, demand: Demand, nodes: IntArray) -> Placement:
    """One share of a uniform demand on each of these nodes."""
    need = pool.cpus_needed(demand.cpus)
    return Placement(
        tuple(
            _share(pool, demand, i, int(need[i]), demand.mem_mib, demand.gpus)
            for i in sorted(nodes.tolist())
        )
    )


def _flexible(
    pool: Pool,
    demand: Demand,
    units: IntArray,
    order: IntArray,
    wanted: int,
    required: tuple[int, ...],
) -> Placement | None:
    chosen = fewest_nodes(demand, units, order.tolist(), wanted, required)
    if chosen is None:
        return None
    left = demand.units - len(chosen)
    counts = dict.fromkeys(chosen, 1)  # every node gets at least one unit
    for i in chosen:
        more = min(left, int(units[i]) - 1)
        counts[i] += more
        left -= more
    if left > 0:
        return None
    shares = []
    for i in sorted(chosen):
        count = counts[i]
        cpus = int(pool.cpus_needed(max(demand.cpus, count * demand.unit_cpus))[i])
        mem = max(demand.mem_mib, count * demand.unit_mem_mib)
        shares.append(_share(pool, demand, i, cpus, mem, count * demand.unit_gpus))
    return Placement(tuple(shares))


def fewest_nodes(
    demand: Demand,
    units: IntArray,
    order: list[int],
    wanted: int,
    required: tuple[int, ...] = (),
) -> list[int] | None:
    """The smallest number of nodes that gives all units, the last of them as tight as possible.

    The required nodes come first and are always part of it.
    """
    named = set(required)
    by_size = sorted(order, key=lambda i: (i not in named, -int(units[i])))  # stable in rank
    count, total = 0, 0
    while count < len(by_size) and (total < demand.units or count < wanted):
        total += int(units[by_size[count]])
        count += 1
    if total < demand.units or count < wanted or count > demand.units:
        return None
    if demand.nodes_max and count > demand.nodes_max:
        return None
    if count <= len(named):
        return by_size[:count]
    if count == 1:  # the rank was worked out for just this: all units on one node
        return [next(i for i in order if units[i] >= demand.units)]
    chosen = by_size[: count - 1]
    missing = max(1, demand.units - sum(int(units[i]) for i in chosen))
    taken = set(chosen)
    last = min(
        (i for i in order if i not in taken and units[i] >= missing),
        key=lambda i: int(units[i]),
    )
    return [*chosen, last]


def _share(pool: Pool, demand: Demand, i: int, cpus: int, mem: int, gpus: int) -> NodeShare:
    node = pool.nodes[i]
    if demand.exclusive:
        cpus = int(pool.capacity.cpus[i])
    if demand.whole_mem:
        mem = int(pool.capacity.mem[i])
    gpu_type = demand.gpu_type
    if gpus and not gpu_type and len(node.gpus) == 1:
        gpu_type = node.gpus[0].type
    return NodeShare(node.name, cpus, mem, gpus, 0, gpu_type)
