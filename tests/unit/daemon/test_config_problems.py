"""Every problem is named with file, key, cause and remedy; hostile text is escaped."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from slurm_ext.daemon.config import load
from slurm_ext.errors import ConfigError


@pytest.fixture
def main(tmp_path: Path) -> Path:
    (tmp_path / "conf.d").mkdir()
    return tmp_path / "s.toml"


def problems(
    main: Path, text: str | bytes, overrides: dict[str, object] | None = None
) -> list[str]:
    """Problems of a main file with this text, without the file name in front."""
    main.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load(main, overrides or {})
    return [p.removeprefix(f"{main}: ") for p in caught.value.problems]


KEYS = [
    # text, problem
    ("modee = 'order'", "modee: unknown key; did you mean 'mode'?; write mode = \"order\""),
    (
        "[levers]\nlaeder = 3",
        "levers.laeder: unknown key; did you mean 'ladder'?; write ladder = 3 (unit: jobs)",
    ),
    (
        "[levers]\nqqq = 3",
        "levers.qqq: unknown key; remove it; [levers] has defer, frontier, frontier_max_jobs, "
        "ladder, lease_s, pin, pin_ttl_s, renew_at, reserve_min_nodes, site_factor, "
        "start_grace_s, undo_notes, write_burst, write_tokens_per_s",
    ),
    ("[lever]\nlease_s = 5", "lever: unknown key; did you mean 'levers'?; write [levers]"),
    (
        "[partition.gpu]\nmode = 'order'",
        "partition: unknown key; did you mean 'partitions'?; write [partitions]",
    ),
    (
        "[policy.parameter]\nx = 1",
        "policy.parameter: unknown key; did you mean 'parameters'?; write [policy.parameters]",
    ),
    (
        "[cycle]\nmode = 'order'",
        "cycle.mode: unknown key; did you mean 'mode'?; "
        'write mode = "order" above the first [section]',
    ),
    (
        "[cycle]\nlease_s = 90",
        "cycle.lease_s: unknown key; did you mean 'levers.lease_s'?; "
        "write lease_s = 90 under [levers] (unit: seconds)",
    ),
    (
        "[partitions.gpu]\nmanage = true",
        "partitions.gpu.manage: unknown key; did you mean 'managed'?; write managed = …",
    ),
]


@pytest.mark.parametrize(("text", "problem"), KEYS)
def test_unknown_key(main: Path, text: str, problem: str) -> None:
    assert problems(main, text) == [problem]


UNITS = [
    (
        "cycle = 10",
        "cycle: must be a table (section), not an integer; did you mean 'cycle.interval_s'?; "
        "write interval_s = … under [cycle] (unit: seconds)",
    ),
    (
        "cycle_s = '10s'",
        "cycle_s: unknown key; did you mean 'cycle.interval_s'?; "
        "write interval_s = 10 under [cycle] (unit: seconds)",
    ),
    (
        "lease_min = 5",
        "lease_min: unknown key; did you mean 'levers.lease_s'?; "
        "write lease_s = 300 under [levers] (unit: seconds)",
    ),
    (
        "[levers]\nlease_min = 5",
        "levers.lease_min: unknown key; did you mean 'lease_s'?; "
        "write lease_s = 300 (unit: seconds)",
    ),
    (
        "[cycle]\ninterval = 10",
        "cycle.interval: unknown key; did you mean 'interval_s'?; "
        "write interval_s = … (unit: seconds)",
    ),
    (
        "[cycle]\ninterval = '2 min'",
        "cycle.interval: unknown key; did you mean 'interval_s'?; "
        "write interval_s = 120 (unit: seconds)",
    ),
    (
        "[cycle]\ninterval_ms = 1500",
        "cycle.interval_ms: unknown key; did you mean 'interval_s'?; "
        "write interval_s = 1.5 (unit: seconds)",
    ),
    (
        "[state]\nkeep_hours = 48",
        "state.keep_hours: unknown key; did you mean 'keep_days'?; "
        "write keep_days = 2 (unit: days)",
    ),
    (
        "[state]\nkeep_hours = 5",
        "state.keep_hours: unknown key; did you mean 'keep_days'?; "
        "write keep_days = … (unit: days)",
    ),
    (
        "[cycle]\ninterval_s = '10s'",
        "cycle.interval_s: must be a number, not a string; "
        "write interval_s = 10, a plain number of seconds without quotes",
    ),
    (
        "[levers]\nlease_s = '5m'",
        "levers.lease_s: must be an integer, not a string; "
        "write lease_s = 300, a plain whole number of seconds without quotes",
    ),
    (
        "[levers]\nlease_s = '300'",
        "levers.lease_s: must be an integer, not a string; "
        "write lease_s = 300, a plain whole number of seconds without quotes",
    ),
]


@pytest.mark.parametrize(("text", "problem"), UNITS)
def test_wrong_unit(main: Path, text: str, problem: str) -> None:
    assert problems(main, text) == [problem]


VALUES = [
    (
        "mode = 'enforced'",
        "mode: \"enforced\" is unknown; did you mean 'enforce'?; "
        'use "observe", "order" or "enforce"',
    ),
    (
        "[partitions.gpu]\nmode = 'Order'",
        "partitions.gpu.mode: \"Order\" is unknown; did you mean 'order'?; "
        'use "observe", "order" or "enforce"',
    ),
    (
        "mode = 3",
        'mode: must be a string, not an integer; write "observe", "order" or "enforce", in quotes',
    ),
    (
        "[levers]\npin = 'yes'",
        "levers.pin: must be a boolean, not a string; write pin = true, without quotes",
    ),
    (
        "[levers]\npin = 0",
        "levers.pin: must be a boolean, not an integer; write pin = false, without quotes",
    ),
    (
        "[levers]\nlease_s = 300.5",
        "levers.lease_s: must be an integer, not a float; "
        "write a whole number of seconds without quotes",
    ),
    (
        "[levers]\nlease_s = true",
        "levers.lease_s: must be an integer, not a boolean; "
        "write a whole number of seconds without quotes",
    ),
    (
        "[levers]\nrenew_at = 34",
        "levers.renew_at: 34 is more than 0.95; "
        "give 0.05 to 0.95 (unit: a fraction between 0 and 1)",
    ),
    (
        "[cycle]\ninterval_s = 0",
        "cycle.interval_s: 0 is less than 1; give 1 to 3600 (unit: seconds)",
    ),
    (
        "[cycle]\ninterval_s = nan",
        "cycle.interval_s: nan is not a number that can be used; write a finite number",
    ),
    (
        "[policy.parameters]\nx = -inf",
        "policy.parameters.x: -inf is not a number that can be used; write a finite number",
    ),
    (
        "[policy.parameters]\nx = [1]",
        "policy.parameters.x: must be a number, a string or a boolean, not an array; "
        "write a number, a text, true or false",
    ),
    (
        "[policy]\nname = 2026-01-01",
        "policy.name: must be a string, not a date or time; write a text in quotes",
    ),
    (
        "[state]\ndir = 'var'",
        'state.dir: "var" is not an absolute path; give state.dir an absolute path',
    ),
    (
        "[state]\nheartbeat = '../x'",
        'state.heartbeat: "../x" is not a file name without slashes; '
        "give state.heartbeat a file name without slashes",
    ),
    (
        "[guard]\nidle_waste_gpus = 0xffffffffffffffffffffffff",
        "guard.idle_waste_gpus: the number does not fit into 64 bits; write a smaller number",
    ),
    ("[[cycle]]\ninterval_s = 3", "cycle: arrays are nested; no key takes such a value, remove it"),
]


@pytest.mark.parametrize(("text", "problem"), VALUES)
def test_wrong_value(main: Path, text: str, problem: str) -> None:
    assert problems(main, text) == [problem]


RULES = [
    ("[levers]\nlease_s = 60", "levers.lease_s: a lease must outlast 3 cycles", "90 or more"),
    ("[cycle]\ninterval_s = 120", "cycle.interval_s: a lease must outlast", "to 360 or more"),
    ("[levers]\nrenew_at = 0.05", "levers.renew_at: a lease that is due", "to 0.1 or more"),
    ("[cycle]\nmin_interval_s = 40", "cycle.min_interval_s: the least time", "to 30 or less"),
    ("[cycle]\nstale_s = 10", "cycle.stale_s: an observation within", "to 20 or more"),
    ("[cycle]\nbackoff_max_s = 10", "cycle.backoff_max_s: the back-off", "to 30 or more"),
    ("[guard]\nmax_deferral_s = 100", "guard.max_deferral_s: one lease alone", "to 300 or more"),
    ('[slurm]\nbackend = "rest"', "slurm.backend: there is no slurmrestd", "set slurm.rest_url"),
    ('[slurm]\nrest_url = "http://h:1"', "slurm.rest_url: slurmrestd takes", "rest_token_file"),
    (
        '[slurm]\nrest_token_file = "/t"\nrest_token_command = "t"',
        "slurm.rest_token_file: the token can come from one place only",
        "leave slurm.rest_token_file or",
    ),
    ("[slurm]\nrest_token_command = 'a \"b'", "slurm.rest_token_command: the quotes", "close"),
]


@pytest.mark.parametrize(("text", "start", "remedy"), RULES)
def test_rules_between_keys(main: Path, text: str, start: str, remedy: str) -> None:
    found = problems(main, text)
    assert found[0].startswith(start)
    assert remedy in found[0]


def test_a_rule_names_the_file_of_the_value_that_was_written(main: Path) -> None:
    main.write_text("[levers]\nladder = 2\n")
    other = main.parent / "conf.d" / "x.toml"
    other.write_text("[cycle]\ninterval_s = 110\n")
    with pytest.raises(ConfigError) as caught:
        load(main)
    assert caught.value.problems[0].startswith(f"{other}: cycle.interval_s: ")
    assert "levers.lease_s = 300, default" in caught.value.problems[0]


def test_a_rule_is_silent_while_one_of_its_keys_is_wrong(main: Path) -> None:
    assert len(problems(main, "[levers]\nlease_s = 60\n[cycle]\ninterval_s = '5'\n")) == 1


def test_all_problems_of_all_files_come_at_once(main: Path) -> None:
    bad = {
        "a.toml": "[cycle",
        "b.toml": "[levers]\npin = 1\nladder = 'x'\n",
        "c.toml": "mode = 'no'",
    }
    for name, text in bad.items():
        (main.parent / "conf.d" / name).write_text(text)
    found = problems(main, "nope_ = 1\nmode = 'order'\n", {"cycle.interval_s": 0, "a b": 1})
    files = [problem.split(": ")[0].rsplit("/")[-1] for problem in found]
    assert sorted(files) == [
        "(command line)",
        "(command line)",
        "a.toml",
        "b.toml",
        "b.toml",
        "c.toml",
        "nope_",
    ]


def test_a_mistake_that_a_later_file_covers_is_still_named(main: Path) -> None:
    (main.parent / "conf.d" / "a.toml").write_text("[cycle]\ninterval_s = 30\n")
    assert problems(main, "cycle = 3")[0].startswith("cycle: must be a table")


SYNTAX = [
    (
        "x = 1\n[cycle]\ninterval_s = 10s",
        "line 3, column 16: ",
        "numbers are written without a unit",
    ),
    ("mode = observe", "line 1, column 8: ", 'texts are written in quotes: "observe"'),
    ("mode: observe", "line 1, column 5: ", "with an equals sign"),
    ("pin = True", "line 1, column 7: ", "true or false, in lower case"),
    ("a = 1\na = 2", "line 2, column 6: ", "only once in a file"),
    ("[cycle]\n[cycle]", "line 2, column 7: ", "only once in a file"),
    ("x = 1\na = [1,", "line 2, column 8: ", "write key = value"),
    (b"x = 1\ny = '\xff'", "line 2, column 6: byte 0xff is not UTF-8", "save the file as UTF-8"),
    ("x = " + "9" * 5000, "has a number or a nesting beyond reason", "shorten it"),
    ("x = " + "[" * 50000, "has a number or a nesting beyond reason", "shorten it"),
    ("x = '" + "y" * (1 << 20) + "'", "is larger than 1 MiB", "is it the right file?"),
]


@pytest.mark.parametrize(("text", "start", "remedy"), SYNTAX, ids=range(len(SYNTAX)))
def test_syntax_error_has_place_and_remedy(
    main: Path, text: str | bytes, start: str, remedy: str
) -> None:
    (problem,) = problems(main, text)
    assert problem.startswith(start)
    assert remedy in problem
    assert len(problem) < 400


def test_deep_tables_are_refused(main: Path) -> None:
    found = problems(main, ".".join(["a"] * 5000) + " = 1")
    assert "a.a.a.a.a.a: tables are nested too deeply; remove it" in found
    assert all(len(problem) < 400 for problem in found)


def test_a_directory_is_no_file(main: Path) -> None:
    (main.parent / "conf.d" / "d.toml").mkdir()
    (problem,) = problems(main, "")
    assert problem.endswith("d.toml: is not a regular file; move it out of conf.d")


def test_a_pipe_in_conf_d_does_not_block(main: Path) -> None:
    os.mkfifo(main.parent / "conf.d" / "p.toml")
    (problem,) = problems(main, "")
    assert "is not a regular file" in problem


def test_a_dangling_link_is_named(main: Path) -> None:
    (main.parent / "conf.d" / "l.toml").symlink_to("/nowhere/x")
    (problem,) = problems(main, "")
    assert "l.toml: cannot be read: No such file or directory" in problem


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
def test_unreadable_files_and_directories_are_named() -> None:
    with tempfile.TemporaryDirectory() as directory:
        main = Path(directory, "s.toml")
        main.touch(0o600)
        Path(directory).chmod(0o755)
        Path(directory, "conf.d").mkdir(0o700)
        os.seteuid(65534)
        try:
            with pytest.raises(ConfigError) as caught:
                load(main)
        finally:
            os.seteuid(0)
    what = "cannot be read: Permission denied; let the daemon's user read it, or name another file"
    assert caught.value.problems == [f"{directory}/conf.d: {what}", f"{main}: {what}"]


HOSTILE = ["\x1b[2J\x07", "\r\nfaked: line", "\x00", "\u202eevil", "\u2028", "\x7f\x9b31m"]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_keys_and_values_are_escaped(main: Path, text: str) -> None:
    escaped = "".join(f"\\u{ord(ch):04x}" for ch in text)
    lines = [
        f'"k{escaped}" = 1',
        f'mode = "{escaped}"',
        f'partitions."{escaped}".mode = "order"',
        f'state.dir = "{escaped}"',
        f'policy.parameters."{escaped}" = 1',
        f'cycle."{escaped}" = "{escaped}"',
    ]
    found = problems(main, "\n".join(lines))
    assert len(found) == len(lines)
    assert all(problem.isprintable() for problem in found)


def test_hostile_file_names_are_escaped(main: Path) -> None:
    name = os.fsdecode(b"x\x1b]0;\n\xff.toml")
    (main.parent / "conf.d" / name).write_text("[")
    (problem,) = problems(main, "")
    assert "/conf.d/x\\x1b]0;\\x0a\\udcff.toml: line 1" in problem
    assert problem.isprintable()


@pytest.mark.parametrize("key", ["", "a b", "cycle.", "a = 1\nb", "x" + ".y" * 3000])
def test_override_that_is_no_key(main: Path, key: str) -> None:
    assert all(problem.isprintable() for problem in problems(main, "", {key: 1}))


def test_override_with_bytes_that_are_not_text(main: Path) -> None:
    (problem,) = problems(main, "", {"slurm.bin_dir": "/x\udcff"})
    assert problem.endswith("is not valid text; write it as UTF-8")
