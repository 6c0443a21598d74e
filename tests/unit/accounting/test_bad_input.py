"""Everything bad in one dump, through the program: what is good is kept, what is not is counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_ext.accounting.schema import MIGRATIONS
from slurm_ext.accounting.store import Store
from slurm_ext.cli.main import main
from tests.unit.accounting.helpers import T0, ran, row

BAD = {
    "unknown state": ran(11, T0, 60, State="WHATEVER"),
    "unreadable submit time": ran(12, T0, 60, Submit="Unknown"),
    "impossible elapsed time": ran(13, T0, 60, ElapsedRaw="-5"),
    "ends before it starts": ran(14, T0, 60, End=str(T0 - 100)),
    "unreadable job id": ran(15, T0, 60, JobIDRaw="x15"),
}


def run(state: Path, *words: str) -> int:
    (state / "empty.toml").touch()
    options = ["--config", str(state / "empty.toml"), "--set", f'state.dir="{state}"']
    return main(["history", *words, *options])


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    good = [
        ran(1, T0, 60),
        ran(1, T0 + 9000, 70, User="eve"),  # the id again, after a wrap
        ran(2, T0, 80, JobName="a|b|c"),  # separators inside the last column
        ran(3, T0, 90, JobName="\x1b[31m\x00'; DROP TABLE attempt; --"),
        ran(3, T0, 90),  # the same row twice
    ]
    lines = ["|".join(row()), *("|".join(r.values()) for r in (*good, *BAD.values()))]
    path = tmp_path / "dump"
    path.write_text("\n".join([*lines, "cut|off|in the mid"]))
    return path


def test_good_rows_are_kept_bad_ones_counted_by_reason(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "sync", "--dump", str(dump), "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["read"], said["new"]) == (5, 4)
    assert said["skipped"] == {**dict.fromkeys(BAD, 1), "wrong number of fields": 1}
    with Store.open_readonly(tmp_path / "history.db") as store:
        kept = {(a.job_id, a.user, a.name) for a in store.attempts()}
    assert {(1, "ann", "train"), (1, "eve", "train"), (2, "ann", "a|b|c")} <= kept


def test_what_a_user_wrote_reaches_no_terminal(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, "sync", "--dump", str(dump))
    run(tmp_path, "report", "--days", "3650")
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spoil", "words", "code"),
    [
        (lambda p: None, ["report"], 8),
        (lambda p: None, ["fit"], 8),
        (lambda p: None, ["predict", "--user=ann"], 8),
        (lambda p: None, ["predict"], 2),
        (lambda p: None, ["sync", "--since=yesterday"], 2),
        (lambda p: None, ["sync", "--dump=/nowhere/dump"], 8),
        (lambda p: (p / "history.db").write_bytes(b"not a database" * 99), ["report"], 8),
        (lambda p: (p / "durations.npz").write_bytes(b"PK\x03\x04"), ["predict", "--user=a"], 8),
    ],
)  # fmt: skip
def test_exit_codes(
    tmp_path: Path,
    spoil: object,
    words: list[str],
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert callable(spoil)
    spoil(tmp_path)
    assert run(tmp_path, *words) == code
    assert capsys.readouterr().err.strip()


def test_database_of_a_later_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.open(tmp_path / "history.db") as store:
        store._db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    assert run(tmp_path, "report") == 8
    assert f"knows up to {len(MIGRATIONS)}" in capsys.readouterr().err
