"""The manual: generated pages are current, links lead somewhere, commands are right."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest

from slurm_ext.cli.help import walk
from slurm_ext.cli.main import build_parser, main
from tests.manual import FENCE, INLINE, PAGES, ROOT, commands, parse, shell_lines

LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
DOCS = ROOT / "docs"


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATED: dict[Path, str] = load_generator().pages()


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_a_generated_page_is_current(path: Path) -> None:
    assert path.read_text() == GENERATED[path], "run docs/generate.py"


@pytest.mark.parametrize("path", [p for p in GENERATED if p.parent.name == "man"])
@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_a_man_page_renders_without_warnings(path: Path, width: str) -> None:
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("needs man-db and groff")
    done = subprocess.run(
        ["man", "--warnings", "-l", str(path)], capture_output=True, text=True, check=True,
        env={**os.environ, "MANWIDTH": width, "LC_ALL": "C.UTF-8", "MANROFFOPT": ""},
    )  # fmt: skip
    assert done.stderr == ""
    assert "slurm-ext" in done.stdout


def anchors(page: str) -> set[str]:
    """What a heading can be reached by, as GitHub makes it."""
    found = set()
    for heading in re.findall(r"^#+ +(.+?) *$", FENCE.sub("", page), re.MULTILINE):
        words = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def broken(path: Path) -> list[str]:
    page = FENCE.sub("", path.read_text())
    page = INLINE.sub("", page)
    bad = []
    for match in LINK.finditer(page):
        target = unquote(match.group(1) or match.group(2))
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        there = path if not name else (path.parent / name)
        if not there.exists() or (
            anchor and there.suffix == ".md" and anchor not in anchors(there.read_text())
        ):
            bad.append(target)
    return bad


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    assert broken(path) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "p.md"
    page.write_text("# A b\n[x](#a-b) [y](#c) [z](gone.md) [`w`](p.md#a-b) `[v](gone)`\n")
    assert broken(page) == ["#c", "gone.md"]


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        path = todo.pop().resolve()
        if path in seen or path.suffix != ".md":
            continue
        seen.add(path)
        for match in LINK.finditer(path.read_text()):
            target = (match.group(1) or match.group(2)).partition("#")[0]
            if target and not target.startswith("http"):
                todo.append(path.parent / target)
    assert {p.resolve() for p in PAGES} <= seen


VERBS = {" ".join(words) for words, _ in walk(build_parser())}
SHOWN = commands([line for path in PAGES for line in shell_lines(path.read_text())])


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_a_command_of_the_manual_is_right(words: tuple[str, ...]) -> None:
    if " ".join(words) in VERBS:  # it is only named
        return
    if "--help" in words:
        with pytest.raises(SystemExit, match=r"^0$"):
            parse(words)
    else:
        parse(words)


def test_commands_are_found() -> None:
    lines = ["slurm-ext a b && sudo slurm-ext c > f # d", "x | slurm-ext e --f 'g h'"]
    assert commands(lines) == [("a", "b"), ("c",), ("e", "--f", "g h")]
    assert {("plan",), ("recover", "--fail-open"), ("policy", "list")} <= set(SHOWN)


OFFLINE = {
    ("annotate", "schema"), ("completion", "bash"), ("policy", "list"),
    ("policy", "show", "tiresias"), ("template", "list"), ("setup", "--dry-run"),
}  # fmt: skip
DEMO = ("sim", "compare", "--trace", "demo")
"""Commands that begin so run on the shipped trace."""


@pytest.mark.parametrize(
    "words",
    [w for w in SHOWN if w in OFFLINE or (w[:4] == DEMO and "--html" not in w)]
    + [w for w in SHOWN if w[:2] == ("template", "render")],
    ids=" ".join,
)
def test_a_command_that_needs_no_slurm_works(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    program = ("--program", "/usr/bin/slurm-ext") if words[0] == "setup" else ()
    assert main([*words, *program]) == 0
    assert capsys.readouterr().out


def test_all_of_those_are_in_the_manual() -> None:
    assert set(SHOWN) >= OFFLINE


def finding_codes() -> set[str]:
    """The second argument of every Finding(...) that doctor makes."""
    tree = ast.parse((ROOT / "slurm_ext" / "daemon" / "doctor.py").read_text())
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    return {
        call.args[1].value
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "Finding"
        and isinstance(call.args[1], ast.Constant)
    }  # fmt: skip


def test_every_finding_of_doctor_is_explained() -> None:
    page = (DOCS / "troubleshooting.md").read_text()
    table = page.partition("## Findings")[2].partition("\n## ")[0]
    first = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    explained = {code for cell in first for code in re.findall(r"`(\w+)`", cell)}
    assert explained == finding_codes()
    assert {"version", "history_drift"} <= explained
