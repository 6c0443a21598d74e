"""Steps that put the daemon on a host, each of which knows how to be taken back.

What a step has made is written to a manifest, so that taking back removes that and nothing else:
a file that was changed since is left, and said so.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from slurm_ext.errors import SlurmExtError

from .text import printable

MANIFEST = "setup.json"
COMMAND_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things go. ``root`` is put before every path (for images and tests)."""

    root: Path
    user: str
    program: str
    config: Path = Path("/etc/slurm_ext/slurm_ext.toml")
    units: Path = Path("/etc/systemd/system")

    def at(self, path: Path) -> Path:
        """The path below ``root``."""
        return self.root / path.relative_to("/")

    @property
    def manifest(self) -> Path:
        return self.at(self.config.parent / MANIFEST)


def units(layout: Layout) -> dict[str, str]:
    """Unit files by name, filled in."""
    filled = {}
    for entry in sorted(files("slurm_ext.units").iterdir(), key=lambda e: e.name):
        if entry.name.endswith((".service", ".timer")):
            text = entry.read_text()
            for mark, value in (
                ("@PROGRAM@", layout.program), ("@USER@", layout.user),
                ("@CONFIG@", str(layout.config)),
            ):  # fmt: skip
                text = text.replace(mark, value)
            filled[entry.name] = text
    return filled


class Installer:
    """Does steps, or with ``dry_run`` only says them through ``say``."""

    def __init__(self, layout: Layout, say: Callable[[str], None], *, dry_run: bool) -> None:
        self.layout, self._say, self.dry_run = layout, say, dry_run
        self.made: dict[str, str] = self._read_manifest()

    def _read_manifest(self) -> dict[str, str]:
        try:
            found = json.loads(self.layout.manifest.read_text())
            return {str(k): str(v) for k, v in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError) as error:
            raise SlurmExtError(
                f"{self.layout.manifest}: {error}; move it away: then only the paths named by "
                "--dry-run can be removed by hand"
            ) from error

    # -- making ----------------------------------------------------------------------------

    def user(self) -> None:
        """A system user without a login."""
        name = self.layout.user
        try:
            pwd.getpwnam(name)
            self._say(f"user {name}: exists")
            return
        except KeyError:
            pass
        command = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir",
                   "/nonexistent", "--shell", "/usr/sbin/nologin", name]  # fmt: skip
        self.run(command)
        self._note(f"user:{name}", "")

    def file(self, path: Path, text: str, mode: int = 0o644) -> bool:
        """A file of ours; one that stands there with other content is kept. Whether it is new."""
        where = self.layout.at(path)
        if where.exists():
            same = where.read_text(errors="replace") == text
            known = self.made.get(f"file:{path}") == _digest(where.read_bytes())
            if same or not known:
                self._say(f"{path}: {'is as it should be' if same else 'exists, kept as it is'}")
                return False
        self._say(f"{path}: written")
        if not self.dry_run:
            where.parent.mkdir(parents=True, exist_ok=True)
            fresh = where.with_name(f".{where.name}.new")
            fresh.write_text(text)
            fresh.chmod(mode)
            fresh.replace(where)
            self._note(f"file:{path}", _digest(text.encode()))
        return True

    def run(self, command: Sequence[str], *, needed: bool = True) -> bool:
        """A command of the system; whether it went well.

        :raises SlurmExtError: it failed and is ``needed``.
        """
        self._say(f"run: {' '.join(command)}")
        if self.dry_run:
            return True
        if shutil.which(command[0]) is None:
            said = "not found"
        else:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace",
                timeout=COMMAND_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            if done.returncode == 0:
                return True
            said = printable(done.stderr.strip() or done.stdout.strip(), 300)
        if needed:
            raise SlurmExtError(f"{command[0]}: {said}; what was done so far: --undo takes it back")
        self._say(f"  did not work: {said}")
        return False

    def noted(self, key: str) -> None:
        """Remember something made that is neither a file nor a user."""
        if not self.dry_run:
            self._note(key, "")

    def _note(self, key: str, value: str) -> None:
        if self.dry_run:
            return
        self.made[key] = value
        self._write_manifest()

    def _write_manifest(self) -> None:
        where = self.layout.manifest
        where.parent.mkdir(parents=True, exist_ok=True)
        fresh = where.with_name(f".{where.name}.new")
        fresh.write_text(json.dumps(self.made, indent=1, sort_keys=True) + "\n")
        fresh.replace(where)

    # -- taking back -----------------------------------------------------------------------

    def undo(self, others: Callable[[str], bool]) -> bool:
        """Take back everything in the manifest; ``others`` handles what is no file and no user.

        Whether all of it is gone.
        """
        left = {}
        for key, value in reversed(self.made.items()):
            kind, _, name = key.partition(":")
            if kind == "file":
                gone = self._remove(Path(name), value)
            elif kind == "user":
                gone = self.run(["userdel", name], needed=False)
            else:
                gone = others(key)
            if not gone:
                left[key] = value
        if self.dry_run:
            return True
        self.made = left
        if left:
            self._write_manifest()
        else:
            self.layout.manifest.unlink(missing_ok=True)
            self._rmdir(self.layout.manifest.parent)
        return not left

    def _remove(self, path: Path, digest: str) -> bool:
        where = self.layout.at(path)
        if not where.exists():
            return True
        if _digest(where.read_bytes()) != digest:
            self._say(f"{path}: changed since, left")
            return False
        self._say(f"{path}: removed")
        if not self.dry_run:
            where.unlink()
        return True

    def _rmdir(self, path: Path) -> None:
        if not any(path.iterdir()):
            path.rmdir()


def may_install(layout: Layout) -> None:
    """:raises SlurmExtError: the paths are not ours to write."""
    if layout.root == Path("/") and os.geteuid() != 0:
        raise SlurmExtError("setup writes system files: run it as root, or see --dry-run")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
