"""load(): what is read, in which order, and what the values are."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import get_type_hints

import pytest
from jsonschema import Draft202012Validator

from slurm_ext.daemon import config as module
from slurm_ext.daemon.config import Config, load, render
from slurm_ext.daemon.config_hints import SCHEMA, leaves
from slurm_ext.errors import ConfigError
from slurm_ext.model.decision import Mode


@pytest.fixture
def main(tmp_path: Path) -> Path:
    file = tmp_path / "slurm_ext.toml"
    file.write_text("")
    (tmp_path / "conf.d").mkdir()
    return file


def drop_in(main: Path, name: str, text: str) -> Path:
    file = main.parent / "conf.d" / name
    file.write_text(text)
    return file


def test_schema_is_a_valid_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", leaves(), ids=".".join)
def test_every_key_has_description_default_and_unit(path: tuple[str, ...]) -> None:
    part = leaves()[path]
    assert part["description"].endswith(".")
    assert Draft202012Validator(part).is_valid(part["default"])
    if part["type"] in ("integer", "number"):
        assert part["x-unit"]
        assert part["minimum"] < part["maximum"]
        assert path[-1].endswith("_s") == (part["x-unit"] in ("s", "updates/s"))


def test_classes_mirror_the_schema() -> None:
    names = [f.name for f in dataclasses.fields(Config) if f.compare]
    assert sorted(names) == sorted(SCHEMA["properties"])
    types = {"integer": int, "number": float, "string": str, "boolean": bool}
    for path, part in leaves().items():
        owner: type = Config
        for name in path[:-1]:
            owner = get_type_hints(owner)[name]
        wanted = Mode if path[-1] == "mode" else types[part["type"]]
        assert get_type_hints(owner)[path[-1]] is wanted, path


def test_without_any_file_the_defaults_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DEFAULT_PATH", tmp_path / "nothing" / "slurm_ext.toml")
    config = load()
    assert config.mode is Mode.OBSERVE
    assert (config.levers.lease_s, config.cycle.interval_s, config.files) == (300, 30.0, ())


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"slurm_ext\.toml: cannot be read: No such file.*create"):
        load(tmp_path / "slurm_ext.toml")


def test_drop_ins_count_without_a_main_file(main: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main.unlink()
    monkeypatch.setattr(module, "DEFAULT_PATH", main)
    drop_in(main, "a.toml", 'mode = "order"')
    assert load().mode is Mode.ORDER


def test_later_files_win_key_by_key(main: Path) -> None:
    main.write_text("[levers]\nlease_s = 400\nladder = 3\n")
    drop_in(main, "20-b.toml", "[levers]\nlease_s = 600\n")
    drop_in(main, "10-a.toml", "[levers]\nlease_s = 500\npin = false\n")
    levers = load(main).levers
    assert (levers.lease_s, levers.ladder, levers.pin) == (600, 3, False)


def test_overrides_win_over_files(main: Path) -> None:
    main.write_text("[cycle]\ninterval_s = 40\n")
    overrides = {"cycle.interval_s": 50, 'partitions."a.b".mode': "order"}
    config = load(main, overrides)
    assert config.cycle.interval_s == 50.0
    assert config.mode_of("a.b") is Mode.ORDER


@pytest.mark.parametrize("name", [".hidden.toml", "x.toml.rpmsave", "x.toml~", "README"])
def test_other_files_in_conf_d_are_not_read(main: Path, name: str) -> None:
    drop_in(main, name, "nonsense")
    assert load(main).mode is Mode.OBSERVE


def test_byte_order_mark_is_accepted(main: Path) -> None:
    main.write_bytes(b'\xef\xbb\xbfmode = "order"\n')
    assert load(main).mode is Mode.ORDER


def test_origin_of_each_value_is_kept(main: Path) -> None:
    main.write_text("[cycle]\ninterval_s = 40\nstale_s = 90\n")
    other = drop_in(main, "a.toml", "[cycle]\nstale_s = 80\n")
    origins = load(main, {"mode": "order"}).origins
    assert origins == {
        ("cycle", "interval_s"): str(main),
        ("cycle", "stale_s"): str(other),
        ("mode",): "(command line)",
    }


def test_partitions_override_the_mode(main: Path) -> None:
    main.write_text(
        'mode = "order"\n[partitions.gpu]\nmode = "enforce"\n[partitions.debug]\nmanaged = false\n'
    )
    config = load(main)
    assert [config.mode_of(p) for p in ("gpu", "debug", "cpu")] == ["enforce", "order", "order"]
    assert [config.manages(p) for p in ("gpu", "debug", "cpu")] == [True, False, True]


def test_partitions_the_cluster_lacks_are_named(main: Path) -> None:
    main.write_text('[partitions.gpuu]\nmode = "order"\n[partitions.cpu]\nmanaged = false\n')
    assert load(main).unknown_partitions(["gpu", "cpu"]) == [
        f"{main}: partitions.gpuu: the cluster has no such partition; did you mean 'gpu'?"
    ]


def test_policy_parameters_of_a_part_may_be_dotted_or_quoted(main: Path) -> None:
    main.write_text(
        "[policy.parameters]\nordering.beta = 2\n'placement.mode' = 'pack'\nquick = true\nx = 1.5\n"
    )
    assert load(main).policy.parameters == {
        "ordering.beta": 2,
        "placement.mode": "pack",
        "quick": True,
        "x": 1.5,
    }


def test_digest_follows_values_not_spelling(main: Path) -> None:
    plain = load(main).digest
    main.write_text("[cycle]\ninterval_s = 30.0 # the default\n[levers]\nlease_s = 300.0\n")
    assert load(main).digest == plain
    main.write_text("[cycle]\ninterval_s = 31\n")
    assert load(main).digest != plain


def test_configuration_cannot_be_changed(main: Path) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        load(main).cycle.interval_s = 1.0  # type: ignore[misc]


def test_paths_of_the_state_files(main: Path) -> None:
    main.write_text('[state]\ndir = "/a"\nrun_dir = "/b"\nheartbeat = "hb"\n')
    state = load(main).state
    paths = (state.journal_path, state.lock_path, state.heartbeat_path)
    assert [str(p) for p in paths] == ["/a/journal.db", "/a/daemon.lock", "/b/hb"]


def test_rendering_says_what_a_value_means_and_where_it_comes_from(main: Path) -> None:
    main.write_text("[cycle]\ninterval_s = 40\n")
    lines = " ".join(line.lstrip("# ") for line in render(load(main)).splitlines())
    assert (
        "Time between two cycles when nothing asks for an earlier one. "
        f"1 to 3600 seconds; default: 30; from {main} interval_s = 40 "
    ) in lines
