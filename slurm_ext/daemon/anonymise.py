"""Replacing names and texts in an observation and its context so that the plan stays the same.

Every text field has a role in :data:`ROLES`; one without is an error, so a new field cannot leak
(a test goes through all of them). Names are numbered in their own order: what is sorted by name
stays sorted alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from hostlist import BadHostlist, expand_hostlist

from slurm_ext.engine.reserve import PREFIX
from slurm_ext.engine.settings import Context
from slurm_ext.errors import SlurmExtError
from slurm_ext.model.ledger import parse_note, with_note
from slurm_ext.model.node import natural
from slurm_ext.model.observation import Observation

KEEP = "keep"
TEXT = "text"
MASKED = "masked"
TOKEN = "token"
NOTE = "note"
COMMENT = "comment"
EXPRESSION = "expression"
CONFIG = "config"
VALUES = "values"
CATEGORIES = (
    "user", "account", "job", "node", "partition", "reservation", "qos", "feature", "family",
    "switch",
)  # fmt: skip
"""Roles of names: each is replaced by the category and a number."""

CONFIG_KEPT = ("priority", "select", "scheduler", "preempt")
"""Keys of the controller's configuration that begin so are kept; the others name hosts and paths.

None of theirs holds a name of a user, node or job (slurm.conf(5))."""

ROLES: Mapping[tuple[str, str], str] = {
    ("Job", "name"): "job",
    ("Job", "user"): "user",
    ("Job", "account"): "account",
    ("Job", "partitions"): "partition",
    ("Job", "qos"): "qos",
    ("Job", "reason"): TOKEN,
    ("Job", "reason_text"): TEXT,
    ("Job", "array_tasks"): KEEP,
    ("Job", "reservation"): "reservation",
    ("Job", "dependency"): MASKED,
    ("Job", "comment"): COMMENT,
    ("Job", "admin_comment"): NOTE,
    ("Job", "ran_on"): "node",
    ("JobState", "flags"): KEEP,
    ("Request", "gpu_type"): KEEP,
    ("Request", "features"): EXPRESSION,
    ("Request", "required_nodes"): "node",
    ("Request", "excluded_nodes"): "node",
    ("Request", "unplannable"): KEEP,
    ("NodeShare", "node"): "node",
    ("NodeShare", "gpu_type"): KEEP,
    ("Node", "name"): "node",
    ("Node", "states"): KEEP,
    ("Node", "features"): "feature",
    ("Node", "partitions"): "partition",
    ("Node", "reservation"): "reservation",
    ("Node", "other_gres"): KEEP,
    ("Node", "reason"): TEXT,
    ("GpuGroup", "type"): KEEP,
    ("Partition", "name"): "partition",
    ("Partition", "nodes"): "node",
    ("Partition", "oversubscribe"): KEEP,
    ("Reservation", "name"): "reservation",
    ("Reservation", "nodes"): "node",
    ("Reservation", "flags"): KEEP,
    ("Reservation", "users"): "user",
    ("Reservation", "accounts"): "account",
    ("Reservation", "partition"): "partition",
    ("Controller", "cluster"): MASKED,
    ("Controller", "config"): CONFIG,
    ("Problem", "kind"): KEEP,
    ("Problem", "subject"): TEXT,
    ("Problem", "detail"): TEXT,
    ("LedgerEntry", "address"): KEEP,
    ("LedgerEntry", "pinned"): "node",
    ("LedgerEntry", "original_required"): "node",
    ("LedgerEntry", "excluded"): "node",
    ("LedgerEntry", "original_excluded"): "node",
    ("LedgerEntry", "planned_nodes"): "node",
    ("LedgerEntry", "surrendered"): KEEP,
    ("Progress", "problem"): TEXT,
    ("Restart", "address"): KEEP,
    ("Restart", "outcome"): KEEP,
    ("Restart", "detail"): TEXT,
    ("Memory", "waste"): "partition",
    ("Memory", "broken"): "partition",
    ("BackfillSettings", "kind"): KEEP,
    ("BackfillSettings", "durations"): KEEP,
    ("BackfillSettings", "late"): KEEP,
    ("LeverSettings", "defer"): KEEP,
    ("LeverSettings", "frontier"): KEEP,
    ("JobSettings", "optout"): KEEP,
    ("JobSettings", "interactive"): KEEP,
    ("Estimate", "level"): KEEP,
    ("Scaling", "kind"): KEEP,
    ("Checkpoint", "signal"): KEEP,
    ("Checkpoint", "to"): KEEP,
    ("Sensitivity", "kind"): KEEP,
    ("Annotation", "family"): "family",
    ("Annotation", "communication"): KEEP,
    ("Annotation", "locality"): KEEP,
    ("Context", "partition_modes"): "partition",
    ("Context", "unmanaged_partitions"): "partition",
    ("Context", "gpu_speeds"): KEEP,
    ("Context", "bad_annotations"): VALUES,
    ("ShapeGroup", "nodes"): "node",
    ("NodeShape", "types"): KEEP,
    ("NodeShape", "affinity"): KEEP,
    ("NodeShape", "source"): TEXT,
    ("Fabric", "name"): MASKED,
    ("Unit", "name"): "switch",
    ("Unit", "nodes"): "node",
    ("Unit", "children"): "switch",
    ("Finding", "code"): KEEP,
    ("Finding", "subject"): TEXT,
    ("Finding", "detail"): TEXT,
    ("Finding", "remedy"): TEXT,
}
"""(class, field) -> role of all texts in it; of a mapping, of its keys."""

_WORD = re.compile(r"[^\s&|!()\[\]*,]+")


@dataclass(slots=True)
class Renaming:
    """From names to numbered ones, by category. ``optout`` stays in comments that hold it."""

    optout: str = ""
    roles: Mapping[tuple[str, str], str] = field(default_factory=lambda: ROLES)
    names: dict[str, dict[str, str]] = field(default_factory=dict)

    def learn(self, *values: object) -> None:
        """Collect all names in these values and number them."""
        seen: dict[str, set[str]] = {c: set() for c in CATEGORIES}

        def note(category: str, name: str) -> str:
            seen[category].add(name)
            return name

        for value in values:
            _Walk(self, note).value(value)
        for category, found in seen.items():
            ordered = sorted(found, key=lambda name: (natural(name), name))  # as the pool has them
            width = len(str(len(found)))
            self.names[category] = {
                name: f"{category}{number:0{width}d}" for number, name in enumerate(ordered, 1)
            }

    def apply(self, value: Any) -> Any:
        """The value with every name replaced.

        :raises SlurmExtError: a text field without a role, or a name that was not learnt.
        """
        return _Walk(self, self._replaced).value(value)

    def _replaced(self, category: str, name: str) -> str:
        try:
            return self.names[category][name]
        except KeyError:
            raise SlurmExtError(f"a {category} name without replacement") from None


class _Walk:
    """One pass over a value; ``name`` is called for every name met."""

    def __init__(self, renaming: Renaming, name: Callable[[str, str], str]) -> None:
        self._renaming = renaming
        self._name = name

    def value(self, value: Any) -> Any:
        if isinstance(value, Enum):
            return value
        if is_dataclass(value) and not isinstance(value, type):
            changes = {f.name: self._field(value, f.name) for f in fields(value) if f.init}
            return replace(value, **changes)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self._field(value, name) for name in value._fields))
        if isinstance(value, Mapping):
            return {self.value(k): self.value(v) for k, v in value.items()}
        if isinstance(value, tuple):
            return tuple(self.value(v) for v in value)
        if isinstance(value, frozenset) and all(isinstance(v, int) for v in value):
            return value
        if isinstance(value, str | frozenset):
            raise SlurmExtError("a text without a role in daemon.anonymise.ROLES")
        return value

    def _field(self, owner: Any, name: str) -> Any:
        value = getattr(owner, name)
        kind = (type(owner).__name__, name)
        if kind == ("Job", "uid"):
            return -1
        role = self._renaming.roles.get(kind)
        if role is None:
            return self.value(value)
        if role == VALUES:
            return dict.fromkeys(value, MASKED)
        if role == CONFIG:
            return {k: v for k, v in value.items() if k.startswith(CONFIG_KEPT)}
        return self._all(value, role)

    def _all(self, value: Any, role: str) -> Any:
        """The role applied to every text inside."""
        if role == KEEP:
            return value
        if isinstance(value, str):
            return self._text(value, role) if value else value
        if isinstance(value, frozenset):
            return frozenset(self._text(v, role) for v in value)
        if isinstance(value, Mapping):
            return {self._all(k, role): v for k, v in value.items()}
        if isinstance(value, tuple):
            return tuple(self._all(v, role) for v in value)
        return value

    def _text(self, value: str, role: str) -> str:
        if role in CATEGORIES:
            ours = role == "reservation" and value.startswith(PREFIX)
            return value if ours else self._name(role, value)
        if role == TOKEN:
            found = re.match(r"\w*", value, re.ASCII)
            return found.group() if found else ""
        if role == EXPRESSION:
            return _WORD.sub(lambda m: self._word(m.group()), value)
        if role == NOTE:
            return self._note(value)
        if role == COMMENT:
            optout = self._renaming.optout
            return optout if optout and optout in value else ""
        return "masked" if role == MASKED else ""

    def _word(self, word: str) -> str:
        return word if word.isdigit() else self._name("feature", word)

    def _note(self, value: str) -> str:
        """Only our own note stays, with its host lists renamed."""
        note = parse_note(value)
        if note is None:
            return ""
        renamed = replace(
            note,
            pinned=self._hosts(note.pinned),
            original_required=self._hosts(note.original_required),
            excluded=self._hosts(note.excluded),
            original_excluded=self._hosts(note.original_excluded),
        )
        return with_note("", renamed)

    def _hosts(self, text: str) -> str:
        try:
            names = expand_hostlist(text) if text else []
        except BadHostlist:
            names = []
        return ",".join(self._name("node", name) for name in names)


def anonymise(obs: Observation, ctx: Context) -> tuple[Observation, Context, Renaming]:
    """Observation and context without names, and the renaming that was made.

    :raises SlurmExtError: a text field without a role.
    """
    renaming = Renaming(ctx.jobs.optout)
    obs = replace(obs, problems=())
    bare = replace(ctx, policy=None)  # type: ignore[arg-type]  # the policy names nobody
    renaming.learn(obs, bare)
    return renaming.apply(obs), replace(renaming.apply(bare), policy=ctx.policy), renaming
