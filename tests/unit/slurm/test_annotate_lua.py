"""The Lua files that put ##SLURM_EXT lines into comments, run by a Lua interpreter."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import slurm_ext.slurm
from slurm_ext.annotate.check import understand
from slurm_ext.annotate.schema import KEYS
from slurm_ext.annotate.script import read_script
from slurm_ext.sbatch_templates import names, text

LUA_DIR = Path(slurm_ext.slurm.__file__).parent / "lua"
LUAS = [name for name in ("lua5.1", "lua5.3", "lua5.4") if shutil.which(name)]

pytestmark = pytest.mark.skipif(not LUAS, reason="no Lua interpreter (apt-get install lua5.1)")

DRIVER = """
local function tell(form, ...) io.write("TOLD ", string.format(form, ...), "\\n") end
slurm = { SUCCESS = 0, log_user = tell, log_error = tell }
dofile(arg[1])
local source = io.open(arg[2]):read("*a")
local comment = arg[3] ~= "" and arg[3] or nil
local result
if slurm_job_submit then
    local job = { script = source, comment = comment, partition = "gpu" }
    assert(slurm_job_submit(job, {}, 0) == 0)
    result = job.comment
else
    local options = { type = arg[4] or "sbatch", argv = { arg[2], "x" }, comment = comment }
    assert(slurm_cli_pre_submit(options, 0) == 0)
    result = options.comment
end
io.write("COMMENT ", tostring(result), "\\n")
"""


@pytest.fixture(params=LUAS)
def lua(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["job_submit.lua", "cli_filter.lua"])
def plugin(request: pytest.FixtureRequest) -> Path:
    return LUA_DIR / str(request.param)


def run(
    lua: str, plugin: Path, tmp_path: Path, script: str, comment: str = "", kind: str = "sbatch"
) -> tuple[str, list[str]]:
    """The job's comment afterwards, and what the user was told."""
    driver, source = tmp_path / "driver.lua", tmp_path / "job.sh"
    driver.write_text(DRIVER)
    source.write_text(script)
    argv = [lua, str(driver), str(plugin), str(source), comment, kind]
    out = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    told = [line.removeprefix("TOLD ") for line in out if line.startswith("TOLD ")]
    return out[-1].removeprefix("COMMENT "), told


SCRIPT = """#!/bin/sh
#SBATCH -n1
##SLURM_EXT work=5 preemptible # why

##SLURM_EXT family=a-b
srun x
"""


def test_lines_become_part_of_the_comment(lua: str, plugin: Path, tmp_path: Path) -> None:
    comment, told = run(lua, plugin, tmp_path, SCRIPT, "mine")
    assert comment == "mine slurm_ext:work=5,preemptible=true,family=a-b"
    assert told == []


@pytest.mark.parametrize(
    ("script", "comment"),
    [
        pytest.param(SCRIPT, "slurm_ext:debug", id="annotated-already"),
        pytest.param(SCRIPT, "x slurm_ext:off", id="opted-out"),
        pytest.param("#!/bin/sh\nx\n##SLURM_EXT work=5\n", "", id="after-the-first-command"),
        pytest.param("#!/bin/sh\n # SLURM_EXT work=5\n##SLURM_EXTRA work=5\n", "", id="remarks"),
        pytest.param("", "", id="empty"),
        pytest.param("#\n" * 40_000 + "##SLURM_EXT work=5\n", "", id="beyond-the-head"),
    ],
)
def test_the_comment_stays(
    script: str, comment: str, lua: str, plugin: Path, tmp_path: Path
) -> None:
    assert run(lua, plugin, tmp_path, script, comment) == (comment or "nil", [])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("wrok=5", "line 2: unknown key wrok"),
        ("family=$(id)", "line 2: family=$(id) is not key=value"),
        ("family=a;b", "is not key=value"),
        ("=x", "is not key=value"),
        ("family=\x1b[31m", "line 2: family=?[31m is not key=value"),
        ("family=" + "x" * 1100, "longer than 1024 bytes"),
    ],
)
def test_what_is_wrong_is_told_and_the_job_is_plain(
    line: str, says: str, lua: str, plugin: Path, tmp_path: Path
) -> None:
    comment, told = run(lua, plugin, tmp_path, f"#!/bin/sh\n##SLURM_EXT {line}\n")
    assert comment == "nil"
    assert says in "\n".join(told)


def test_only_sbatch_is_filtered(lua: str, tmp_path: Path) -> None:
    assert run(lua, LUA_DIR / "cli_filter.lua", tmp_path, SCRIPT, "", "srun")[0] == "nil"


def test_without_its_neighbour_nothing_happens(lua: str, plugin: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(plugin, alone)
    assert run(lua, alone / plugin.name, tmp_path, SCRIPT, "mine") == ("mine", [])


@pytest.mark.parametrize("name", [n for n in names() if n != "trainer"])
def test_templates_mean_the_same_here_and_there(name: str, tmp_path: Path) -> None:
    comment, told = run(LUAS[0], LUA_DIR / "job_submit.lua", tmp_path, text(name))
    assert told == []
    assert understand(comment).annotation == read_script(text(name)).understood.annotation


def test_the_keys_are_those_of_the_schema(lua: str) -> None:
    code = f'for key in pairs(dofile("{LUA_DIR}/slurm_ext_annotate.lua").KEYS) do print(key) end'
    out = subprocess.run([lua, "-e", code], capture_output=True, text=True, check=True).stdout
    assert set(out.split()) == set(KEYS)
