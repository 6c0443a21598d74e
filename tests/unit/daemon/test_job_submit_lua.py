"""job_submit.lua, run by a Lua interpreter with the little of Slurm it touches."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

import slurm_ext.slurm
from slurm_ext.model.ledger import parse_note

SCRIPT = Path(slurm_ext.slurm.__file__).parent / "lua" / "job_submit.lua"
LUAS = [name for name in ("lua5.1", "lua5.3", "lua5.4") if shutil.which(name)]

DRIVER = """
slurm = {{ SUCCESS = 0 }}
local source = io.open("{script}"):read("*a")
source = string.gsub(source, '"/run/slurm_ext/heartbeat"', '"{heartbeat}"')
assert((loadstring or load)(source))()
local job = {{ script = "#!/bin/sh", partition = "gpu", {fields} }}
local parts = {{ gpu = {{ flag_default = 1 }}, cpu = {{ flag_default = 0 }} }}
assert(slurm_job_submit(job, parts, 0) == 0)
io.write(tostring(job.begin_time), "\\n", tostring(job.admin_comment), "\\n")
"""

pytestmark = pytest.mark.skipif(not LUAS, reason="no Lua interpreter (apt-get install lua5.1)")


@pytest.fixture(params=LUAS)
def lua(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def submit(lua: str, tmp_path: Path, *, beat: str | None, fields: str = "") -> tuple[str, str]:
    heartbeat = tmp_path / "heartbeat"
    if beat is not None:
        heartbeat.write_text(beat)
    driver = tmp_path / "driver.lua"
    driver.write_text(DRIVER.format(script=SCRIPT, heartbeat=heartbeat, fields=fields))
    done = subprocess.run([lua, str(driver)], capture_output=True, text=True, check=True)
    begin, comment = done.stdout.splitlines()
    return begin, comment


def fresh() -> str:
    return f"{int(time.time())} 5 debug,gpu\n"


def test_a_new_job_gets_a_lease_with_a_note_we_can_read(lua: str, tmp_path: Path) -> None:
    begin, comment = submit(lua, tmp_path, beat=fresh())
    note = parse_note(comment)
    assert note is not None
    assert note.lease_until_s == int(float(begin))
    assert note.original_begin_s == 0
    assert 10 <= note.lease_until_s - time.time() <= 13


def test_foreign_text_stays(lua: str, tmp_path: Path) -> None:
    _, comment = submit(lua, tmp_path, beat=fresh(), fields='admin_comment = "theirs"')
    assert comment.startswith("theirs [slurm_ext;")


def test_without_a_name_the_default_partition_counts(lua: str, tmp_path: Path) -> None:
    begin, _ = submit(lua, tmp_path, beat=fresh(), fields="partition = false")
    assert begin != "nil"


@pytest.mark.parametrize(
    ("beat", "fields"),
    [
        pytest.param(None, "", id="no-daemon"),
        pytest.param("1000 5\n", "", id="stale-heartbeat"),
        pytest.param("99999999999 5\n", "", id="heartbeat-from-the-future"),
        pytest.param("garbage", "", id="damaged-heartbeat"),
        pytest.param("", "", id="empty-heartbeat"),
        pytest.param("observing", "", id="no-partition-in-mode-enforce"),
        pytest.param("fresh", 'partition = "cpu"', id="another-partition"),
        pytest.param("fresh", 'partition = "gpu,cpu"', id="partly-another-partition"),
        pytest.param("fresh", "begin_time = 123", id="own-begin"),
        pytest.param("fresh", 'reservation = "x"', id="reservation"),
        pytest.param("fresh", 'comment = "a slurm_ext:off"', id="opted-out"),
        pytest.param("fresh", "script = false", id="interactive"),
    ],
)
def test_left_alone(lua: str, tmp_path: Path, beat: str | None, fields: str) -> None:
    fields = fields.replace("script = false", 'script = ""')
    beats = {"fresh": fresh(), "observing": f"{int(time.time())} 5\n"}
    begin, comment = submit(lua, tmp_path, beat=beats.get(beat or "", beat), fields=fields)
    assert begin in ("nil", "123")
    assert comment == "nil"
