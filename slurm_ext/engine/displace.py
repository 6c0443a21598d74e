"""The cheapest set of running jobs whose leaving makes room for one demand."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from slurm_ext.model.decision import Placement
from slurm_ext.model.job import JobKey, NodeShare

from .allow import Allowed
from .policy import NodePreference
from .pool import Demand, Free, Pool
from .search import fit, place, possible

TESTS = 512
"""Sets that are tried, cheapest first, before the search settles for less than the optimum."""

NODES = 64
"""Nodes that search then considers, those with the cheapest jobs first."""


@dataclass(frozen=True, slots=True)
class Movable:
    """A running job that could leave, at a cost of any unit (not negative)."""

    key: JobKey
    cost: float
    shares: tuple[NodeShare, ...]


@dataclass(frozen=True, slots=True)
class Displacement:
    """Who leaves and where the demand then goes; ``optimal``: proven to be the cheapest set."""

    movable: tuple[Movable, ...]
    placement: Placement
    optimal: bool

    @property
    def cost(self) -> float:
        return sum(m.cost for m in self.movable)


def cheapest(
    pool: Pool,
    demand: Demand,
    allowed: Allowed,
    preference: NodePreference,
    movable: Sequence[Movable],
    *,
    most: int = 0,
) -> Displacement | None:
    """The cheapest set of at most ``most`` (0: any number) jobs; None if none helps.

    Sets are tried in the order of their cost, so the first that makes room is optimal. After
    :data:`TESTS` of them the better of two greedy sets is taken: node by node, and all jobs less
    those that can stay. The pool is the same afterwards.
    """
    useful = [m for m in movable if any(_helps(pool, allowed, s) for s in m.shares)]
    useful.sort(key=lambda m: (m.cost, m.key))

    def enough(chosen: Sequence[Movable]) -> bool:
        free = _without(pool, chosen)
        return possible(pool, free, demand, allowed.nodes, allowed.required)

    if not enough(useful):
        return None
    found, tried_all = _first(useful, enough, most)
    if found is None and not tried_all:
        found = _greedy(pool, demand, allowed, useful, most)
        optimal = False
    else:
        optimal = True
    if found is None:
        return None
    return Displacement(found, _placed(pool, demand, allowed, preference, found), optimal)


def _helps(pool: Pool, allowed: Allowed, share: NodeShare) -> bool:
    i = pool.index.get(share.node)
    return i is not None and bool(allowed.nodes[i])


def _without(pool: Pool, chosen: Sequence[Movable]) -> Free:
    free = pool.free.copy()
    for movable in chosen:
        _move(pool, free, movable, +1)
    return free


def by_cost(costs: Sequence[float], most: int = 0) -> Iterator[tuple[int, ...]]:
    """Non-empty sets of positions into ascending ``costs``, cheapest first; fewer first if equal.

    Source: k smallest subset sums by a heap (each set leads to the one with the next position
    added and to the one with its last position moved on by one), as in Eppstein 1998.
    """
    if not costs:
        return
    heap: list[tuple[float, int, tuple[int, ...]]] = [(costs[0], 1, (0,))]
    while heap:
        _, size, chosen = heapq.heappop(heap)
        yield chosen
        following = chosen[-1] + 1
        if following == len(costs):
            continue
        if not most or size < most:
            more = (*chosen, following)
            heapq.heappush(heap, (sum(costs[i] for i in more), size + 1, more))
        other = (*chosen[:-1], following)
        heapq.heappush(heap, (sum(costs[i] for i in other), size, other))


def _first(
    useful: Sequence[Movable], enough: Callable[[Sequence[Movable]], bool], most: int
) -> tuple[tuple[Movable, ...] | None, bool]:
    """(the cheapest set that is enough, whether all cheaper ones were tried)."""
    if enough(()):
        return (), True
    for tests, positions in enumerate(by_cost([m.cost for m in useful], most)):
        if tests == TESTS:
            return None, False
        chosen = tuple(useful[i] for i in positions)
        if enough(chosen):
            return chosen, True
    return None, True


def _greedy(
    pool: Pool, demand: Demand, allowed: Allowed, useful: Sequence[Movable], most: int
) -> tuple[Movable, ...] | None:
    def room(free: Free) -> bool:
        return possible(pool, free, demand, allowed.nodes, allowed.required)

    sets = [_spare(pool, useful, room)]
    if demand.uniform:
        by_node = _node_by_node(pool, demand, allowed, useful)
        if by_node and room(_without(pool, by_node)):
            sets.append(_spare(pool, by_node, room))
    fitting = [s for s in sets if not most or len(s) <= most]
    return min(fitting, key=lambda s: (sum(m.cost for m in s), len(s)), default=None)


def _spare(
    pool: Pool, chosen: Sequence[Movable], room: Callable[[Free], bool]
) -> tuple[Movable, ...]:
    """The set without those that can stay, the dearest considered first."""
    free, left = _without(pool, chosen), []
    for movable in sorted(chosen, key=lambda m: (-m.cost, m.key)):
        _move(pool, free, movable, -1)
        if not room(free):
            _move(pool, free, movable, +1)
            left.append(movable)
    return tuple(left)


def _node_by_node(
    pool: Pool, demand: Demand, allowed: Allowed, useful: Sequence[Movable]
) -> tuple[Movable, ...]:
    """As many nodes as are needed, each emptied as cheaply as possible, the cheapest next."""
    on_node: dict[int, list[Movable]] = {}
    for movable in useful:
        for share in movable.shares:
            if _helps(pool, allowed, share):
                on_node.setdefault(pool.index[share.node], []).append(movable)
    nodes = sorted(on_node, key=lambda i: (min(m.cost for m in on_node[i]), i))
    nodes = nodes[: max(NODES, 2 * demand.nodes_min)]
    chosen: tuple[Movable, ...] = ()
    known: dict[int, tuple[Movable, ...]] = {}
    while True:
        free = _without(pool, chosen)
        ok = fit(pool, free, demand, allowed.nodes).ok
        if int(ok.sum()) >= demand.nodes_min:
            return chosen
        options = []
        for i in nodes:
            if ok[i]:
                continue
            if i not in known:
                others = [m for m in on_node[i] if m not in chosen]
                known[i] = _for_node(pool, free, demand, allowed, i, others)
            if known[i]:
                options.append((sum(m.cost for m in known[i]), i, known[i]))
        if not options:
            return ()
        best = min(options, key=lambda o: o[:2])[2]
        chosen = (*chosen, *best)
        for movable in best:  # what was found for the other nodes of these jobs holds no longer
            for share in movable.shares:
                known.pop(pool.index.get(share.node, -1), None)


def _for_node(
    pool: Pool,
    free: Free,
    demand: Demand,
    allowed: Allowed,
    node: int,
    others: Sequence[Movable],
) -> tuple[Movable, ...]:
    """The cheapest jobs of one node that give it room for a share; none if all do not."""

    def room(trial: Free) -> bool:
        return bool(fit(pool, trial, demand, allowed.nodes).ok[node])

    def enough(more: Sequence[Movable]) -> bool:
        trial = free.copy()
        for movable in more:
            _move(pool, trial, movable, +1)
        return room(trial)

    if not others or not enough(others):
        return ()
    found, _ = _first(others, enough, 0)
    return found or tuple(others)


def _move(pool: Pool, free: Free, movable: Movable, sign: int) -> None:
    for share in movable.shares:
        pool.apply(free, share, sign)


def _placed(
    pool: Pool,
    demand: Demand,
    allowed: Allowed,
    preference: NodePreference,
    chosen: Sequence[Movable],
) -> Placement:
    mark = pool.checkpoint()
    for movable in chosen:
        pool.give(movable.shares)
    try:
        found = place(pool, pool.free, demand, allowed.nodes, preference, required=allowed.required)
        return found[0]
    finally:
        pool.rollback(mark)
