"""Where the history is, and tables of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from slurm_ext.daemon.config import Config

from .common import safe

if TYPE_CHECKING:
    from slurm_ext.accounting.store import Store

STORE = "history.db"


@contextmanager
def stored(config: Config, *, write: bool = False) -> Iterator[Store]:
    """The history in the state directory.

    :raises HistoryError: it cannot be used.
    """
    from slurm_ext.accounting.store import Store

    path = Path(config.state.dir, STORE)
    with (Store.open if write else Store.open_readonly)(path) as store:
        yield store


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Plain columns; cells are users' text and shown as such."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        made.add_column(head, no_wrap=True)
    for row in rows:
        made.add_row(*(safe(cell, 32) for cell in row))
    return made
