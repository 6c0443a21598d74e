"""The topology a configuration names: its files read, as one value for the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from slurm_ext.errors import ConfigError
from slurm_ext.files import read_up_to
from slurm_ext.topology.fabric import Fabric, Rates
from slurm_ext.topology.fabric_read import read_fabric
from slurm_ext.topology.findings import TopologyError
from slurm_ext.topology.gresconf import GresConf, parse_gres_conf
from slurm_ext.topology.lines import hosts
from slurm_ext.topology.nvsmi import parse_topo
from slurm_ext.topology.presets import PRESETS
from slurm_ext.topology.shape import SPEEDS, NodeShape
from slurm_ext.topology.site import NO_FABRIC, ShapeGroup, SiteTopology

from .config_sections import TopologyConfig
from .text import printable

MAX_BYTES = 64 << 20
_T = TypeVar("_T")


def read_topology(config: TopologyConfig) -> SiteTopology:
    """Links and switches as section ``topology`` names them; empty if it names nothing.

    Of several sources for a node, ``nvidia_smi`` counts before ``presets`` and these before
    ``gres_conf``, from which sockets and ``Links=`` are taken all the same: Slurm picks by them.

    :raises ConfigError: with every file that cannot be read and every unknown name.
    """
    problems: list[str] = []
    speeds = SPEEDS[config.speeds]

    def attempt(key: str, read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except TopologyError as error:
            problems.append(f"topology.{key}: {error}")
            return None

    conf = fabric = None
    if config.gres_conf:
        path = config.gres_conf
        conf = attempt("gres_conf", lambda: in_file(path, lambda t: parse_gres_conf(t, speeds)))
    if config.topology_conf:
        fabric = attempt("topology_conf", lambda: fabric_of(config))
    named: dict[str, NodeShape] = {}
    for pattern, name in config.presets.items():
        where = f'presets."{printable(pattern, 80)}"'
        names = attempt(where, partial(hosts, pattern, "topology", 0, "presets"))
        if name not in PRESETS:
            known = ", ".join(sorted(PRESETS))
            problems.append(f"topology.{where}: unknown preset {printable(name, 80)}; {known}")
        else:
            named |= dict.fromkeys(names or (), PRESETS[name].shape)
    for pattern, path in config.nvidia_smi.items():
        where = f'nvidia_smi."{printable(pattern, 80)}"'
        names = attempt(where, partial(hosts, pattern, "topology", 0, "nvidia_smi"))
        shape = attempt(where, partial(in_file, path, lambda text: parse_topo(text, speeds)))
        if shape is not None:
            named |= dict.fromkeys(names or (), shape)
    if problems:
        raise ConfigError(problems)
    return SiteTopology(_groups(named, conf), fabric or NO_FABRIC, _rates(config))


def _groups(named: Mapping[str, NodeShape], conf: GresConf | None) -> tuple[ShapeGroup, ...]:
    members: dict[int, tuple[NodeShape, list[str]]] = {}
    merged: dict[tuple[int, int], NodeShape] = {}
    for name, shape in named.items():
        slurm = conf.shape_of(name) if conf is not None else None
        key = (id(shape), id(slurm))
        if key not in merged:
            merged[key] = _as_slurm_sees(shape, slurm)
        members.setdefault(id(merged[key]), (merged[key], []))[1].append(name)
    found = [ShapeGroup(tuple(names), shape) for shape, names in members.values()]
    described = conf.groups if conf is not None else ()
    return (*found, *(ShapeGroup(g.nodes, g.shape) for g in described if g.shape is not None))


def _as_slurm_sees(shape: NodeShape, slurm: NodeShape | None) -> NodeShape:
    """Bandwidths of one source with the sockets, types and link counts of gres.conf."""
    if slurm is None or slurm.count != shape.count:
        return shape
    return replace(
        shape,
        locality=slurm.locality,
        types=slurm.types,
        slurm_links=slurm.slurm_links,
        source=f"{shape.source}, sockets from gres.conf",
    )


def _rates(config: TopologyConfig) -> Rates | None:
    if not config.node_gbps:
        return None
    return Rates(config.node_gbps, (config.oversubscription,), config.block_gbps)


def fabric_of(config: TopologyConfig) -> Fabric:
    """The fabric of ``topology_conf``.

    :raises TopologyError: a file that cannot be read or understood.
    """
    path = config.topology_conf
    return in_file(path, lambda text: read_fabric(text, path, config.topology_name))


def in_file(path: str | Path, parse: Callable[[str], _T]) -> _T:
    """What ``parse`` makes of the text of a file; errors name the file.

    :raises TopologyError: a file that cannot be read or understood.
    """
    name = printable(str(path), 400)
    try:
        data = read_up_to(path, MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise TopologyError(name, 0, what, "check the path and the permissions") from None
    if len(data) > MAX_BYTES:
        raise TopologyError(name, 0, "file too large", "is it the right file?")
    try:
        return parse(data.decode("utf-8", "replace"))
    except TopologyError as error:
        raise error.in_file(name) from None
