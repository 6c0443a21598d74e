"""Foreign text made fit for a terminal, a log line or an error message."""

from __future__ import annotations


def printable(text: str, limit: int = 200) -> str:
    """``text`` with everything that is not printable escaped, cut to ``limit`` characters.

    Control, bidirectional and private characters and lone surrogates (file names that are
    not UTF-8) come out as ``\\xNN``, ``\\uNNNN`` or ``\\UNNNNNNNN``.
    """
    shown = "".join(ch if ch.isprintable() else _escaped(ord(ch)) for ch in text[: limit + 1])
    return shown if len(text) <= limit else shown[: limit - 1] + "…"


def _escaped(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
