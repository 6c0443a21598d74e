"""Journal rows to values and back. Node lists and free values are JSON in the file."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, get_type_hints

from slurm_ext.model.decision import Decision, JobPatch, Shape, Stage, Verdict
from slurm_ext.model.job import JobKey
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.restart import Restart, RestartStage
from slurm_ext.model.units import EpochS

from .records import Action, Change, CycleRecord, StartRecord

Row = tuple[Any, ...]

_FIELDS = [f.name for f in fields(LedgerEntry) if f.name != "key"]
_HINTS = get_type_hints(LedgerEntry)
_LISTS = {name for name in _FIELDS if _HINTS[name] == tuple[str, ...]}
_SHAPES = {name for name in _FIELDS if _HINTS[name] == Shape | None}
_FLAGS = {name for name in _FIELDS if _HINTS[name] is bool}

ENTRY_COLUMNS = ("job_id", "submit_s", *_FIELDS)
"""Columns of ``entry``: one a field of LedgerEntry, under the same name."""


def text(value: str) -> str:
    """Text SQLite can hold: lone surrogates (bytes that were not UTF-8) become escapes."""
    return value.encode("utf-8", "backslashreplace").decode()


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def entry_row(entry: LedgerEntry) -> Row:
    """An entry in the order of ENTRY_COLUMNS."""
    row: list[Any] = [entry.key.job_id, entry.key.submit_s]
    for name in _FIELDS:
        value = getattr(entry, name)
        as_json = name in _LISTS or (name in _SHAPES and value is not None)
        row.append(_dump(value) if as_json else text(value) if isinstance(value, str) else value)
    return tuple(row)


def entry(row: Row) -> LedgerEntry:
    """The entry of a row in the order of ENTRY_COLUMNS."""
    values = dict(zip(_FIELDS, row[2:], strict=True))
    for name in _LISTS:
        values[name] = tuple(json.loads(values[name])) if values[name] != "[]" else ()
    for name in _SHAPES:
        values[name] = None if values[name] is None else Shape(*json.loads(values[name]))
    for name in _FLAGS:
        values[name] = bool(values[name])
    return LedgerEntry(key=JobKey(row[0], row[1]), **values)


def action_row(patch: JobPatch, cycle: int, now_s: EpochS) -> Row:
    """cycle, at_s, job_id, submit_s, lever, why, patch."""
    known = ("key", "lever", "why")
    values = {f.name: getattr(patch, f.name) for f in fields(patch) if f.name not in known}
    body = _dump({name: value for name, value in values.items() if value is not None})
    key = patch.key
    return (cycle, now_s, key.job_id, key.submit_s, str(patch.lever), text(patch.why), body)


def action(row: Row) -> Action:
    """From id, cycle, at_s, job_id, submit_s, lever, why, state, detail, patch."""
    number, cycle_number, at_s, job_id, submit_s, lever, why, state, detail, body = row
    key = JobKey(job_id, submit_s)
    return Action(
        number, cycle_number, at_s, key, lever, why, state, detail, values=json.loads(body)
    )


def cycle_row(record: CycleRecord) -> Row:
    """In the order of the table's columns."""
    maps = (record.durations_s, record.counts, record.rpc)
    return (
        record.cycle,
        record.at_s,
        text(record.policy),
        text(record.config_digest),
        *(_dump(dict(values)) for values in maps),
        text(record.error),
    )


def cycle(row: Row) -> CycleRecord:
    """From the table's columns."""
    number, at_s, policy, digest, durations, counts, rpc, error = row
    maps = (json.loads(durations), json.loads(counts), json.loads(rpc))
    return CycleRecord(number, at_s, policy, digest, *maps, error=error)


def restart_row(one: Restart) -> Row:
    """In the order of the table's columns."""
    known = ("key", "stage", "begun_s", "since_s", "outcome")
    body = {f.name: getattr(one, f.name) for f in fields(one) if f.name not in known}
    body |= {"address": text(one.address), "detail": text(one.detail)}
    return (
        one.key.job_id, one.key.submit_s, one.begun_s, str(one.stage), one.since_s, one.outcome,
        _dump(body),
    )  # fmt: skip


def restart(row: Row) -> Restart:
    """From the table's columns."""
    job_id, submit_s, begun_s, stage, since_s, outcome, body = row
    values = json.loads(body)
    values["shape"] = Shape(*values["shape"]) if values["shape"] else None
    values["gainer"] = JobKey(*values["gainer"]) if values["gainer"] else None
    return Restart(
        key=JobKey(job_id, submit_s), stage=RestartStage(stage), begun_s=begun_s,
        since_s=since_s, outcome=outcome, **values,
    )  # fmt: skip


def start_row(record: StartRecord) -> Row:
    """job_id … why, as the table has them after its id."""
    return (
        record.key.job_id,
        record.key.submit_s,
        text(record.user),
        text(record.policy),
        record.planned_rank,
        _dump(record.planned_nodes),
        _dump(record.actual_nodes),
        record.planned_s,
        record.start_s,
        int(record.same_nodes),
        text(record.why),
    )


def change_row(decision: Decision, now_s: EpochS) -> Row:
    """job_id … start_s, as the table has them after its id."""
    reason = decision.reasons[0] if decision.reasons else None
    key = decision.key
    return (
        key.job_id,
        key.submit_s,
        now_s,
        str(decision.verdict),
        text(reason.code) if reason else "",
        str(reason.stage) if reason else "",
        _dump(reason.facts if reason else ()),
        text(reason.would_change) if reason else "",
        decision.rank,
        decision.start_s,
    )


def change(row: Row) -> Change:
    """From at_s, verdict, code, stage, facts, would_change, rank, start_s."""
    at_s, verdict, code, stage, facts, would_change, rank, start_s = row
    pairs = tuple(
        (name, tuple(value) if isinstance(value, list) else value)
        for name, value in json.loads(facts)
    )
    where = Stage(stage) if stage else None
    return Change(at_s, Verdict(verdict), code, where, pairs, would_change, rank, start_s)
