"""Rendering a configuration and loading it again changes nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.daemon.config import load, render
from slurm_ext.daemon.config_hints import leaves
from slurm_ext.daemon.config_read import dotted
from slurm_ext.daemon.config_render import toml
from slurm_ext.errors import ConfigError

# tomllib is never handed surrogates; everything else may stand in a TOML string.
anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
plain = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)


def value_of(part: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "enum" in part:
        return st.sampled_from(part["enum"])
    if part["type"] == "boolean":
        return st.booleans()
    if part["type"] == "integer":
        return st.integers(part["minimum"], part["maximum"])
    if part["type"] == "number":
        return st.floats(part["minimum"], part["maximum"])
    if "absolute" in part["x-form"]:
        return plain.map("/".__add__)
    return plain if "control" in part["x-form"] else st.sampled_from(["a", "a.b-c_9"])


TIED = {"lease_s", "renew_at", "interval_s", "min_interval_s", "observe_timeout_s", "stale_s",
        "backoff_max_s", "max_deferral_s", "backend", "rest_url", "rest_token_file",
        "rest_token_command"}  # fmt: skip
keys = {
    dotted(path): value_of(dict(part)) for path, part in leaves().items() if path[-1] not in TIED
}
tied = st.fixed_dictionaries(
    {},
    optional={
        "cycle.interval_s": st.floats(1, 30),
        "cycle.min_interval_s": st.floats(0.1, 1),
        "cycle.observe_timeout_s": st.floats(1, 60),
        "cycle.backoff_max_s": st.floats(30, 86400),
        "levers.lease_s": st.integers(300, 21600),
        "levers.renew_at": st.floats(0.1, 0.95),
        "guard.max_deferral_s": st.integers(21600, 31536000),
        "slurm.backend": st.sampled_from(["auto", "cli"]),
        "slurm.rest_url": st.sampled_from(["", "unix:/run/rest.sock"]),
    },
)
partition = st.fixed_dictionaries(
    {},
    optional={"mode": st.sampled_from(["observe", "order", "enforce"]), "managed": st.booleans()},
)
partition_names = st.from_regex(r"\A[a-zA-Z0-9_.é#'\[-]{1,12}\Z")
parameters = st.dictionaries(
    st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_.-]{0,12}\Z"),
    st.booleans() | st.integers(-(10**15), 10**15) | st.floats(-1e15, 1e15) | anything,
    max_size=4,
)


@given(
    st.fixed_dictionaries({}, optional=keys),
    tied,
    st.dictionaries(partition_names, partition, max_size=3),
    parameters,
)
def test_rendered_configuration_loads_to_the_same(
    free: dict[str, object], tied: dict[str, object], partitions: Any, parameters: Any
) -> None:
    overrides = free | tied
    for name, table in partitions.items():
        overrides |= {f"partitions.{toml(name)}.{key}": value for key, value in table.items()}
    for name, value in parameters.items():
        overrides[f"policy.parameters.{toml(name)}"] = value
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "c.toml")
        file.write_text("")
        config = load(file, overrides)
        file.write_text(render(config), encoding="utf-8")
        again = load(file)
    assert again == config
    assert again.digest == config.digest


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*keys, "cycle", "partitions", "policy", "x"]), json_like))
def test_any_value_is_taken_or_refused_in_printable_words(overrides: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "c.toml")
        file.write_text("")
        problems: list[str] = []
        try:
            load(file, overrides)
        except ConfigError as error:
            problems = error.problems
    assert all(problem.isprintable() for problem in problems)
