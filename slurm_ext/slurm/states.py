"""Job and node states, as text and as JSON, from any Slurm version."""

from __future__ import annotations

import re
from functools import lru_cache

from slurm_ext.model.job import BaseState, JobState

_BASES = {state.value: state for state in BaseState}

_COMPACT = {
    "PD": "PENDING", "R": "RUNNING", "S": "SUSPENDED", "CD": "COMPLETED", "CA": "CANCELLED",
    "F": "FAILED", "TO": "TIMEOUT", "NF": "NODE_FAIL", "PR": "PREEMPTED", "BF": "BOOT_FAIL",
    "DL": "DEADLINE", "OOM": "OUT_OF_MEMORY", "CG": "COMPLETING", "CF": "CONFIGURING",
    "SE": "SPECIAL_EXIT", "RQ": "REQUEUED", "RH": "REQUEUE_HOLD", "RD": "RESV_DEL_HOLD",
    "RS": "RESIZING", "SI": "SIGNALING", "SO": "STAGE_OUT", "ST": "STOPPED", "RV": "REVOKED",
}  # fmt: skip

# Text shows only the first flag. These flags occur on pending jobs only, so the base is known.
_PENDING_FLAGS = frozenset({"SPECIAL_EXIT", "REQUEUE_HOLD", "RESV_DEL_HOLD", "REQUEUE_FED"})
_RUNNING_FLAGS = frozenset({"CONFIGURING", "RESIZING", "SIGNALING", "POWER_UP_NODE"})
_SPELLINGS = {"REQUEUED": "REQUEUED", "COMPLETING": "COMPLETING", "EXPEDITED": "EXPEDITING"}

_NODE_SUFFIX = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "%": "POWERING_DOWN",
    "!": "POWER_DOWN",
    "$": "MAINT",
    "@": "REBOOT_ISSUED",
    "^": "REBOOT",
    "-": "PLANNED",
}
_NODE_SHORT = {
    "ALLOC": "ALLOCATED", "MIX": "MIXED", "COMP": "COMPLETING", "DRNG": "DRAINING",
    "DRAIN": "DRAIN", "UNK": "UNKNOWN", "NO_RESPOND": "NOT_RESPONDING", "RESV": "RESERVED",
    "FUTR": "FUTURE", "PLND": "PLANNED", "FAILG": "FAILING", "POW_UP": "POWERING_UP",
}  # fmt: skip
_NODE_SPLIT = re.compile(r"[+,\s]+")


@lru_cache(maxsize=512)
def job_state_of_text(text: str) -> JobState:
    """State from squeue/scontrol text: the first flag hides the base (then UNKNOWN).

    ``CANCELLED by 1000`` and ``CANCELLED+`` are CANCELLED.
    """
    word = text.strip().split(" ", 1)[0].rstrip("+").upper()
    return _job_state((_COMPACT.get(word, word),))


def job_state_of_json(state: object, flags: object = None) -> JobState:
    """State from JSON: a string (22.05, 23.02) or a list of base and flags in any order."""
    words: list[str] = []
    for value in (state, flags):
        if isinstance(value, str):
            words.append(value)
        elif isinstance(value, (list, tuple)):
            words.extend(item for item in value if isinstance(item, str))
    return _job_state(tuple(word.strip().upper() for word in words if word.strip()))


@lru_cache(maxsize=512)
def _job_state(words: tuple[str, ...]) -> JobState:
    bases = [_BASES[word] for word in words if word in _BASES]
    flags = frozenset(_SPELLINGS.get(word, word) for word in words if word not in _BASES)
    if bases:
        return JobState(bases[0], flags)
    if flags & _PENDING_FLAGS:
        return JobState(BaseState.PENDING, flags)
    if flags & _RUNNING_FLAGS:
        return JobState(BaseState.RUNNING, flags)
    return JobState(BaseState.UNKNOWN, flags)


@lru_cache(maxsize=1024)
def node_states_of_text(text: str) -> frozenset[str]:
    """States from ``IDLE+DRAIN``, ``DOWN*``, ``mix-`` (suffixes as in sinfo(1))."""
    states: set[str] = set()
    for word in _NODE_SPLIT.split(text.strip().upper()):
        while word and word[-1] in _NODE_SUFFIX:
            states.add(_NODE_SUFFIX[word[-1]])
            word = word[:-1]
        if word:
            states.add(_NODE_SHORT.get(word, word))
    return frozenset(states)


def node_states_of_json(state: object, flags: object = None) -> frozenset[str]:
    """States from JSON: a string with ``state_flags`` (22.05) or one list."""
    states: set[str] = set()
    for value in (state, flags):
        for word in (
            (value,) if isinstance(value, str) else value if isinstance(value, list) else ()
        ):
            if isinstance(word, str):
                states |= node_states_of_text(word)
    return frozenset(states)
