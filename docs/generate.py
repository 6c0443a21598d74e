#!/usr/bin/env python3
"""Writes the pages of the manual that follow from the program: ``docs/generate.py [--check]``.

``--check`` only says which are out of date, and exits with 1 if there is one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

import dashboard  # noqa: E402
import manpages  # noqa: E402

from slurm_ext.daemon.config_hints import SCHEMA, unit_of  # noqa: E402
from slurm_ext.daemon.config_render import allowed, toml  # noqa: E402
from slurm_ext.daemon.metrics import Metrics  # noqa: E402
from slurm_ext.daemon.metrics_calls import LABELS, Calls  # noqa: E402

Plain = dict[str, Any]
NOTE = "<!-- Written by docs/generate.py: change what it is made from, not this page. -->\n"

CONFIGURATION = """\
# Configuration reference

`/etc/slurm_ext/slurm_ext.toml`, then `/etc/slurm_ext/conf.d/*.toml` in the order of their names,
then `--set KEY=VALUE`; later ones win, key by key. Another file: `--config FILE`, with its own
`conf.d` beside it. No file at all is a valid configuration: all defaults.

`slurm-ext config check` reports every problem at once, `slurm-ext config show` prints what is in
force with its origin, `slurm-ext reload` (or SIGHUP) lets a running daemon take it between two
cycles. A file with an error changes nothing. Sections `state`, `slurm`, `status` and `metrics` and
the time-outs in `cycle` need a restart.

Numbers are in the unit their key ends in.
"""


def configuration() -> str:
    """The reference of the configuration, from its schema."""
    top = {n: p for n, p in SCHEMA["properties"].items() if p["type"] != "object"}
    out = [NOTE + CONFIGURATION, "## At the top of the file\n", *_table(top)]
    for name, part in SCHEMA["properties"].items():
        if part["type"] != "object":
            continue
        inner = part.get("properties")
        if inner is None:
            inner = part["additionalProperties"]["properties"]
            out.append(f"\n## `[{name}.NAME]`\n\n{part['description']}\n")
        else:
            out.append(f"\n## `[{name}]`\n\n{part['description']}\n")
        out += _table({n: p for n, p in inner.items() if p["type"] != "object"})
        for sub, free in inner.items():
            if free["type"] == "object":
                out.append(f"\n### `[{name}.{sub}]`\n\n{free['description']}\n")
    return "\n".join(out) + "\n"


def _table(keys: dict[str, Plain]) -> list[str]:
    lines = ["| key | default | allowed | |", "|---|---|---|---|"]
    for name, part in keys.items():
        default = f"`{toml(part['default'])}`" if "default" in part else "not set"
        what = allowed(part) or {"boolean": "true, false"}.get(part["type"], "text")
        if "minimum" not in part and unit_of(part):
            what += f" ({unit_of(part)})"
        cells = (f"`{name}`", default, what, part["description"])
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return lines


METRICS = """\
# Metrics

Of `/metrics`, see [monitoring](monitoring.md). Sizes are classes of GPUs of a job. Histograms also
have `_bucket`, `_sum` and `_count`. A labelled series appears when it is first counted.

| metric | kind | labels | |
|---|---|---|---|
"""


def metrics() -> str:
    """The list of all metrics, from the registry."""
    found = {}
    for collector in Metrics().registry._collector_to_names:
        labels = LABELS if isinstance(collector, Calls) else collector._labelnames
        for family in collector.collect():
            found[family.name] = (family.type, labels, family.documentation)
    lines = []
    for name, (kind, labels, text) in sorted(found.items()):
        shown = f"{name}_total" if kind == "counter" else f"{name}_info" if kind == "info" else name
        marks = ", ".join(f"`{label}`" for label in labels)
        lines.append(f"| `{shown}` | {kind} | {marks} | {text} |")
    return NOTE + METRICS + "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    """Every generated file with what it should hold."""
    return {
        DOCS / "configuration.md": configuration(),
        DOCS / "metrics.md": metrics(),
        DOCS / "monitoring" / "dashboard.json": dashboard.dashboard(),
        DOCS / "man" / "slurm-ext.1": manpages.commands(),
        DOCS / "man" / "slurm_ext.toml.5": manpages.configuration(),
    }


def main() -> int:
    stale = {p: text for p, text in pages().items() if not p.exists() or p.read_text() != text}
    for path, text in stale.items():
        print(f"{path.relative_to(DOCS.parent)}: {'out of date' if _checks() else 'written'}")
        if not _checks():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    return 1 if stale and _checks() else 0


def _checks() -> bool:
    return "--check" in sys.argv[1:]


if __name__ == "__main__":
    sys.exit(main())
