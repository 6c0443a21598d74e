"""Host lists (``n[01-03,7]-ib0``) through python-hostlist, with errors as values."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import lru_cache

import hostlist

_NOTHING = frozenset({"", "(null)", "N/A", "None", "None assigned", "n/a"})


@lru_cache(maxsize=2048)
def expand(text: str) -> tuple[str, ...] | None:
    """The host names in the order given; None if the list cannot be read.

    Names are interned: the same few thousand names occur in every look.
    """
    if text in _NOTHING:
        return ()
    try:
        names = hostlist.expand_hostlist(text)
    # The library also lets ValueError and IndexError out on some malformed lists.
    except (hostlist.BadHostlist, ValueError, IndexError, RecursionError):
        return None
    return tuple(sys.intern(name.strip()) for name in names)


def names(text: str) -> tuple[str, ...]:
    """Like :func:`expand`; a list that cannot be read counts as empty."""
    return expand(text) or ()


def fold(hosts: Iterable[str]) -> str:
    """The short form of some host names; the names themselves if the library cannot fold them."""
    given = list(hosts)
    try:
        return str(hostlist.collect_hostlist(given))
    except (hostlist.BadHostlist, ValueError, IndexError):
        return ",".join(given)
