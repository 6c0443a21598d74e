"""The page on annotations names every key."""

from __future__ import annotations

import re
from pathlib import Path

from slurm_ext.annotate.check import understand
from slurm_ext.annotate.schema import KEYS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "annotations.md").read_text()


def test_every_key_has_a_row_in_the_order_of_the_schema() -> None:
    section = PAGE.partition("## Keys")[2].partition("## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(KEYS)


def test_the_examples_are_valid() -> None:
    found = re.findall(r"^#SBATCH --comment=([\"'])(.*?)\1 ", PAGE, re.MULTILINE)
    assert [understand(text).problems for _, text in found] == [(), ()]
