"""Any text that describes a fabric, whatever its form."""

from __future__ import annotations

from .fabric import Fabric
from .fabric_text import parse_topology
from .fabric_yaml import parse_topology_yaml


def read_fabric(text: str, file: str, name: str = "") -> Fabric:
    """The fabric of a topology.conf, a topology.yaml or ``scontrol show topology``.

    ``file`` tells YAML by its ending, else the text does; ``name`` picks one topology of a
    topology.yaml.

    :raises TopologyError: it cannot be understood.
    """
    plain = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    is_yaml = file.endswith((".yaml", ".yml")) or (bool(plain) and plain[0].startswith("-"))
    return parse_topology_yaml(text).pick(name) if is_yaml else parse_topology(text)
