"""The token for slurmrestd: renewed in time, and never shown."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.slurm.rest_token import (
    UNDATED_S,
    Token,
    checked,
    expiry_s,
    from_command,
    from_file,
)
from slurm_ext.slurm.run import Runner


def jwt(claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"eyJ.{body}.sig"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("token", "end"),
    [
        (jwt({"exp": 5000, "sun": "root"}), 5000),
        (jwt({"exp": 5000.5}), 5000.5),
        (jwt({}), None),
        (jwt({"exp": True}), None),
        (jwt({"exp": "5000"}), None),
        (jwt([1]), None),
        ("a.!!!.c", None),
        ("plain", None),
    ],
)
def test_expiry(token: str, end: float | None) -> None:
    assert expiry_s(token) == end


@given(st.text())
def test_expiry_of_anything(text: str) -> None:
    expiry_s(text)
    expiry_s(f"a.{text}.c")


@pytest.mark.parametrize(
    ("token", "renewed_at_s"), [(jwt({"exp": 1600}), 1300), ("undated", 1000 + UNDATED_S)]
)
def test_renewed_at_half_life(token: str, renewed_at_s: float) -> None:
    clock, given_out = Clock(), [token, "next"]
    one = Token(lambda: given_out.pop(0), "u", clock)
    for clock.now in (1000, renewed_at_s - 1):
        assert one.headers()["X-SLURM-USER-TOKEN"] == token
    clock.now = renewed_at_s
    assert one.headers() == {"X-SLURM-USER-NAME": "u", "X-SLURM-USER-TOKEN": "next"}


def test_a_token_that_has_ended_already_is_asked_for_each_time() -> None:
    given_out = [jwt({"exp": 10}), "next"]
    one = Token(lambda: given_out.pop(0), "u", Clock())
    one.headers()
    assert one.headers()["X-SLURM-USER-TOKEN"] == "next"


def test_a_refused_token_is_replaced() -> None:
    given_out = ["one", "two"]
    token = Token(lambda: given_out.pop(0), "u", Clock())
    token.headers()
    token.refused()
    assert token.headers()["X-SLURM-USER-TOKEN"] == "two"


def test_the_token_is_not_in_its_repr() -> None:
    token = Token(lambda: "secret", "u")
    token.headers()
    assert "secret" not in repr(token)


@pytest.mark.parametrize("text", ["a.b.c", " a.b.c\n", "SLURM_JWT=a.b.c\n"])
def test_forms_of_a_token(text: str) -> None:
    assert checked(text) == "a.b.c"


@pytest.mark.parametrize(
    "text", ["", "\n", "secret\r\nX-Evil: 1", "secret\x00", "sécret", "secret two", "secret" * 9999]
)
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(SlurmUnavailableError) as caught:
        checked(text)
    assert "cret" not in str(caught.value)


def test_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    read = from_file(str(file))
    with pytest.raises(SlurmUnavailableError, match=r"rest_token_file"):
        read()
    file.write_text("one\n")
    assert checked(read()) == "one"
    file.write_text("two\n")
    assert checked(read()) == "two"


def test_from_a_command() -> None:
    runner = Runner(timeout_s=20)
    assert checked(from_command(runner, ["echo", "SLURM_JWT=a.b.c"])()) == "a.b.c"
    with pytest.raises(SlurmUnavailableError, match=r"exit status 3") as caught:
        from_command(runner, ["sh", "-c", "echo secret; echo secret >&2; exit 3"])()
    assert "secret" not in str(caught.value)
    with pytest.raises(SlurmUnavailableError, match=r"not found"):
        from_command(runner, ["no-such-program"])()
