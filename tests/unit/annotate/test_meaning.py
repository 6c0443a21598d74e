"""What an annotation means, key by key."""

from __future__ import annotations

from slurm_ext.annotate.check import understand
from slurm_ext.annotate.meaning import meanings
from slurm_ext.annotate.schema import KEYS


def test_defaults_are_filled_in_and_told_apart() -> None:
    rows = {m.key: (m.value, m.given) for m in meanings(understand("slurm_ext:signal=SIGUSR1"))}
    assert rows["signal"] == ("USR1", True)
    assert rows["grace"] == ("60 s", False)
    assert rows["preemptible"] == ("false", False)
    assert rows["work"] == ("-", False)
    assert set(rows) == set(KEYS) - {"version"}


def test_values_are_shown_in_plain_units() -> None:
    text = "slurm_ext:scaling=moldable,gpus=1..4,speed=1:2/2:3.5,gpu_mem=16G,work=90k,debug"
    rows = {m.key: m.value for m in meanings(understand(text))}
    assert rows["gpus"] == "1..4"
    assert rows["speed"] == "1: 2/s, 2: 3.5/s"
    assert rows["gpu_mem"] == "16384 MiB"
    assert rows["work"] == "90000"
    assert rows["debug"] == "true"
