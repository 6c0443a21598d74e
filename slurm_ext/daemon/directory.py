"""The daemon's own directories."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_ext.errors import SlurmExtError


def make_directory(path: Path) -> None:
    """Create a directory that others may look into, whatever the umask: slurmctld, another user,
    reads the heartbeat there.

    :raises SlurmExtError: it cannot be made or written.
    """
    try:
        if not path.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o755)
    except OSError as error:
        raise SlurmExtError(
            f"{path}: {error.strerror}; create it, owned by the daemon's user, or set state.dir "
            "and state.run_dir to directories it may write"
        ) from error
    if not os.access(path, os.W_OK):
        raise SlurmExtError(f"{path}: not writable; give it to the daemon's user")
