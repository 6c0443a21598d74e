"""What a client says of a daemon of another version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_ext import __version__
from slurm_ext.daemon.client import ask
from slurm_ext.daemon.httpd import Reply, UnixServer, as_json
from slurm_ext.daemon.publish import SOCKET_NAME
from slurm_ext.errors import SlurmExtError


def asked(run_dir: Path, reply: Reply, path: str = "/v1/status") -> Any:
    with UnixServer(run_dir / SOCKET_NAME, 0o600, lambda _: reply):
        return ask(run_dir, path)


@pytest.mark.parametrize(
    ("reply", "path"),
    [
        pytest.param(as_json(200, {"cycle": 3, "jobs": []}), "/v1/status", id="lacks-a-key"),
        pytest.param(as_json(404, {"error": "paths: /x"}), "/v1/status?limit=5", id="no-option"),
        pytest.param(as_json(404, {"error": "paths: /x"}), "/v1/cycles", id="no-path"),
    ],
)
def test_an_older_daemon_is_to_be_restarted(tmp_path: Path, reply: Reply, path: str) -> None:
    with pytest.raises(SlurmExtError, match=rf"older.*{__version__}.*restart the daemon"):
        asked(tmp_path, reply, path)


def test_a_daemon_without_a_cycle_is_not_older(tmp_path: Path) -> None:
    assert asked(tmp_path, as_json(200, {"cycle": 0})) == {"cycle": 0}


def test_a_job_that_is_not_there_is_no_matter_of_versions(tmp_path: Path) -> None:
    with pytest.raises(SlurmExtError, match="job 7 is not"):
        asked(tmp_path, as_json(404, {"error": "job 7 is not in the last cycle"}), "/v1/jobs/7")
