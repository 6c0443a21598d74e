"""The YAML subset: what is accepted, and that everything else is an error with its line."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_ext.topology.findings import TopologyError
from slurm_ext.topology.yaml_subset import Map, Scalar, Seq, Value, read_yaml


def plain(value: Value | None) -> Any:
    """Lists, dictionaries and text (what PyYAML's BaseLoader gives)."""
    match value:
        case Seq():
            return [plain(item) for item in value.items]
        case Map():
            return {key: plain(item) for key, item in value.items.items()}
        case Scalar():
            return value.text
        case _:
            return None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", {"a": "1"}),
        ("a:\n- 1\n- 2", {"a": ["1", "2"]}),
        ("a:\n  - 1\n  - 2\nb: x", {"a": ["1", "2"], "b": "x"}),
        ("- a: 1\n  b: 2\n- c", [{"a": "1", "b": "2"}, "c"]),
        ("- - 1\n  - 2\n- 3", [["1", "2"], "3"]),
        ("a: [1, 2]", {"a": ["1", "2"]}),
        ("a: []", {"a": []}),
        ("a: n[1-3,5]", {"a": "n[1-3,5]"}),
        ("a: 'x # y'  # z", {"a": "x # y"}),
        ('a: ""', {"a": ""}),
        ("a:\nb: 2", {"a": "", "b": "2"}),
        ("---\na: b # c", {"a": "b"}),
        ("a: b#c", {"a": "b#c"}),
        ("-\n  a: 1\n-", [{"a": "1"}, ""]),
        ("# only\n\n", None),
    ],
)
def test_accepted(text: str, value: object) -> None:
    assert plain(read_yaml(text, "t")) == value


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: &x 1", 1),
        ("a: 1\nb: *x", 2),
        ("a: !!int 1", 1),
        ("a: |\n  text", 1),
        ("a: {b: 1}", 1),
        ("a: 1\n\tb: 2", 2),
        ("a: 1\n---\nb: 2", 2),
        ("a: 1\na: 2", 2),
        ("a: one\n  two", 2),
        ("a:\n    b: 1\n  c: 2", 3),
        ("just text", 1),
        ("a: 'x' y", 1),
        ("a: b: c", 1),
        ("? a\n: b", 1),
        ("a: [x, [y]]", 1),
        ("a: [x", 1),
        ("a: \x00", 1),
        ("%YAML 1.2\n---\na: 1", 1),
        ("a: ,", 1),
    ],
)
def test_refused_with_line(text: str, line: int) -> None:
    with pytest.raises(TopologyError) as caught:
        read_yaml(text, "t")
    assert caught.value.line == line


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    with pytest.raises(TopologyError, match="nested too deeply"):
        read_yaml("- " * 5000 + "x", "t")
