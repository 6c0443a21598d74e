"""Which GPU indices Slurm will take (``sets`` has the best and the worst it could take).

No option of sbatch or scontrol names GPU indices (Slurm chooses), so a placement can only choose
the node and hope. What is known of the choice, from reading select/cons_tres
(gres_select_filter.c of 22.05/23.02; not read in later releases) and gres.conf(5):

* only sockets on which the job has cores are looked at first; GPUs without ``Cores=`` belong to
  no socket and come before all of them;
* ``--gpus-per-node`` / ``--gres``: one GPU of each of those sockets, the lowest free one; then
  further ones of the same sockets; then of other sockets. In the later two steps GPUs with more
  ``Links=`` to those already taken come first (the sums are scaled to at most five grades), the
  lowest index first among equals;
* ``--gpus``: with ``Links=`` all free GPUs of the sockets, from which those with the fewest links
  to one GPU of the best linked pair are dropped, lowest index first; without links lowest first;
* ``--gpus-per-task``: lowest first on the sockets of the tasks;
* ``Links=`` counts only if every GPU has a list as long as there are GPUs.

Which sockets get the cores depends on the CPUs free at that moment: a prediction, never a
promise. Localities of a shape from nvidia-smi are NUMA nodes, which are Slurm's sockets only if
slurmd says so. The changelogs of 22.05.5 to .9 and 23.02.2 to .6 mend GPU selection bugs: below
those patch levels more will differ.

Measured on 22.05.8 (two sockets of four GPUs and 32 cores, random jobs of all three kinds coming
and going): with the free cores of each socket known, 60 of 60 picks right without ``Links=`` and
65 of 65 with links between 0-2, 1-3, 4-6, 5-7; "lowest free first" had 44 and 35. Without
knowing the cores it is no better than that rule (13 of 20). All 125 were among
:func:`possible_picks`. New ``Links=`` took effect after a restart of slurmd and slurmctld, not
after ``scontrol reconfigure`` (13 of 40 picks then went against them).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import combinations

from slurm_ext.model.units import GpuMask, indices_of

from .shape import NodeShape

_PLENTY = 64


class Ask(StrEnum):
    """How the job words its GPU request; Slurm has a procedure for each."""

    NODE = "node"  # --gres, --gpus-per-node
    JOB = "job"  # --gpus
    TASK = "task"  # --gpus-per-task


def predict_pick(
    shape: NodeShape,
    used: GpuMask,
    count: int,
    *,
    ask: Ask = Ask.NODE,
    gpu_type: str = "",
    sockets: Iterable[int] | None = None,
    free_cores: Mapping[int, int] | None = None,
    cores: int = 0,
) -> GpuMask:
    """The GPUs Slurm probably takes for ``count`` of them; 0 if they do not fit.

    ``sockets``: where the job's cores are, if known; otherwise they are guessed from
    ``free_cores`` (socket -> free cores; None: plenty everywhere) and ``cores`` (cores of the job
    on this node; 0: one a GPU) with :func:`likely_sockets`.
    """
    free = shape.of_type(gpu_type) & ~used & shape.all_mask
    if count < 1 or free.bit_count() < count:
        return 0
    if sockets is None:
        sockets = likely_sockets(shape, free, count, free_cores, cores)
    home = frozenset(sockets)
    if ask is Ask.JOB:
        return _pick_job(shape, free, count, home)
    return _pick_node(shape, free, count, home, spread=ask is Ask.NODE)


def likely_sockets(
    shape: NodeShape,
    free: GpuMask,
    count: int,
    free_cores: Mapping[int, int] | None = None,
    cores: int = 0,
) -> frozenset[int]:
    """Sockets on which Slurm will probably give the job its cores; see :func:`likely_cores`."""
    return frozenset(s for s, n in likely_cores(shape, free, count, free_cores, cores).items() if n)


def likely_cores(
    shape: NodeShape,
    free: GpuMask,
    count: int,
    free_cores: Mapping[int, int] | None = None,
    cores: int = 0,
) -> Mapping[int, int]:
    """Cores that Slurm will probably give the job on each socket.

    It goes through the sockets by free cores, most first, until they hold enough GPUs, leaves
    out the others, and then takes cores away from the fullest until the job has what it asks.
    """
    known = sorted({place for place in shape.locality if place >= 0})
    room = {s: _PLENTY if free_cores is None else free_cores.get(s, 0) for s in known}
    found = (free & _at(shape, -1)).bit_count()
    left: dict[int, int] = {}
    for s in sorted(known, key=lambda s: (-room[s], s)):
        here = (free & _at(shape, s)).bit_count()
        if room[s] and here and found < count:
            left[s] = room[s]
            found += here
    wanted = max(1, cores or count)
    while sum(left.values()) > wanted:
        left[max(left, key=lambda s: (left[s], -s))] -= 1
    return left


def _at(shape: NodeShape, place: int) -> GpuMask:
    return sum(1 << i for i, where in enumerate(shape.locality) if where == place)


def _pick_node(
    shape: NodeShape, free: GpuMask, count: int, home: frozenset[int], *, spread: bool
) -> GpuMask:
    places = [-1, *sorted({p for p in shape.locality if p >= 0})]
    ours = [p for p in places if p in home or p < 0]
    taken, linked = 0, [0] * shape.count
    for place in ours:
        for g in indices_of(free & _at(shape, place) & ~taken):
            if taken.bit_count() == count:
                break
            taken |= 1 << g
            _add_links(shape, free, g, linked)
            if spread:
                break
    grades = _graded(linked) if shape.slurm_links else None
    for group in (ours, [p for p in places if p >= 0 and p not in home]):
        taken = _by_grade(shape, free, count, taken, group, grades)
    return taken


def _add_links(shape: NodeShape, free: GpuMask, g: int, linked: list[int]) -> None:
    if shape.slurm_links:
        for other in indices_of(free & ~(1 << g)):
            linked[other] += max(0, shape.slurm_links[g][other])


def _graded(linked: Sequence[int]) -> list[int]:
    """Link sums scaled down as Slurm does, to keep its number of rounds at five or less."""
    most = max(linked)
    step = (most + 3) // 4 if most > 4 else 1
    return [n // step for n in linked]


def _by_grade(
    shape: NodeShape,
    free: GpuMask,
    count: int,
    taken: GpuMask,
    places: Sequence[int],
    grades: Sequence[int] | None,
) -> GpuMask:
    for grade in range(max(grades) if grades else 0, -1, -1):
        for place in places:
            for g in indices_of(free & _at(shape, place) & ~taken):
                if taken.bit_count() == count:
                    return taken
                if grades is None or grades[g] >= grade:
                    taken |= 1 << g
    return taken


def _pick_job(shape: NodeShape, free: GpuMask, count: int, home: frozenset[int]) -> GpuMask:
    places = [-1, *sorted({p for p in shape.locality if p >= 0})]
    links = shape.slurm_links if count > 1 else None
    taken = 0
    for place in places:
        if place >= 0 and place not in home:
            continue
        for g in indices_of(free & _at(shape, place)):
            if links or taken.bit_count() < count:
                taken |= 1 << g
    if not taken:
        taken = free & -free
    if taken.bit_count() > count and links:
        taken = _drop_worst(links, taken, count)
    first = indices_of(taken)[0]
    most = max(0, *links[first]) if links else 0
    for grade in range(most, -1, -1):
        for place in places:
            for g in indices_of(free & _at(shape, place) & ~taken):
                if taken.bit_count() == count:
                    return taken
                if not grade or (links and links[first][g] >= grade):
                    taken |= 1 << g
    return taken


def _drop_worst(links: Sequence[Sequence[int]], taken: GpuMask, count: int) -> GpuMask:
    pairs = combinations(indices_of(taken), 2)
    best = max(pairs, key=lambda p: (links[p[0]][p[1]], -p[0], -p[1]))[0]
    while taken.bit_count() > count:
        taken ^= 1 << min(
            (g for g in indices_of(taken) if g != best), key=lambda g: (links[best][g], g)
        )
    return taken


def possible_picks(
    shape: NodeShape, used: GpuMask, count: int, *, gpu_type: str = ""
) -> frozenset[GpuMask]:
    """Every set the procedures above give, wherever the job's cores may be."""
    places = sorted({p for p in shape.locality if p >= 0})
    homes: list[tuple[int, ...]] = [()]
    sizes = range(1, len(places) + 1) if len(places) <= 6 else (1, 2, len(places))
    for size in sizes:
        homes.extend(combinations(places, size))
    found = {
        predict_pick(shape, used, count, ask=ask, gpu_type=gpu_type, sockets=home)
        for home in homes
        for ask in Ask
    }
    return frozenset(found - {0})
