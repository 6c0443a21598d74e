"""The daemon as an Operator without root, and as an ordinary user in mode observe."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from pwd import getpwnam

import pytest
from minislurm import NodeGroup, Spec, User

from slurm_ext.slurm.accounts import add_operator, remove_operator
from slurm_ext.slurm.probe import probe
from slurm_ext.slurm.run import Runner

from .conftest import running
from .harness import Daemon, Slurm, share_line

pytestmark = pytest.mark.slurm

OPERATOR, USER = "ms-oper", "ms-user1"
SPEC = Spec(
    name="accounts",
    groups=(NodeGroup(count=2),),
    accounting=True,
    sched="tuned",
    users=(User(USER),),
    operator=OPERATOR,
)
SMALL = ("--gpus-per-node=1", "--cpus-per-task=1", "--mem=100", "--begin=now+2")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    with running(SPEC) as slurm:
        yield slurm


@pytest.fixture
def directory(cluster: Slurm) -> Iterator[dict[str, Path]]:
    """A directory for each account, reachable by it."""
    cluster.clean()
    base = Path(tempfile.mkdtemp(prefix="it-", dir="/tmp"))
    base.chmod(0o755)
    found = {}
    for name in (OPERATOR, USER):
        found[name] = base / name
        found[name].mkdir()
        os.chown(found[name], getpwnam(name).pw_uid, -1)
    yield found
    shutil.rmtree(base)


def crowd(slurm: Slurm) -> list[int]:
    """Jobs of an ordinary user: a filler, a whole-cluster job, and small ones behind it."""
    whole = ("--nodes=2", "--cpus-per-task=1", "--mem=100")
    filler = slurm.submit(*whole, "--gpus-per-node=6", run_s=5, user=USER)
    slurm.wait_state([filler], {"RUNNING"}, 20)
    jobs = [slurm.submit(*whole, "--gpus-per-node=8", "--begin=now+2", user=USER)]
    jobs += [slurm.submit(*SMALL, f"--time={n}", user=USER) for n in (12, 11, 10, 9)]
    return [filler, *jobs]


def test_operator_steers_without_root(cluster: Slurm, directory: dict[str, Path]) -> None:
    with Daemon(cluster, directory[OPERATOR], user=OPERATOR, policy__name="sjf") as daemon:
        jobs = crowd(cluster)
        cluster.wait_completed(jobs, 60)
        daemon.wait_cycles(2)
        actions = daemon.actions()
        levers = {a["lever"] for a in actions if a["state"] == "ok"}
        print(f"\noperator: {share_line(daemon.starts())}; "
              f"{[(a['lever'], a['why'], a['state']) for a in actions]}")  # fmt: skip
        assert daemon.errors() == []
        assert {"lease", "release"} <= levers
        assert any(a["patch"].get("site_factor") is not None for a in actions)
        assert [a for a in actions if a["patch"].get("admin_comment") is not None] == []
        comments = {cluster.show(job, "AdminComment")["AdminComment"] for job in jobs}
        assert comments <= {"", "(null)"}


def test_doctor_knows_the_operator(cluster: Slurm, directory: dict[str, Path]) -> None:
    daemon = Daemon(cluster, directory[OPERATOR], user=OPERATOR)
    done = daemon.command("doctor", check=False)
    print(f"\n{done.stdout}{done.stderr}")
    assert done.returncode == 0
    assert "Operator" in done.stdout


def test_ordinary_user_observes(cluster: Slurm, directory: dict[str, Path]) -> None:
    with Daemon(cluster, directory[USER], user=USER, mode="observe") as daemon:
        jobs = crowd(cluster)
        cluster.wait_completed(jobs, 60)
        daemon.wait_cycles(2)
        assert daemon.actions() == []
        assert {row["job_id"] for row in daemon.starts()} >= set(jobs[1:])


def test_doctor_warns_an_ordinary_user_in_enforce(
    cluster: Slurm, directory: dict[str, Path]
) -> None:
    daemon = Daemon(cluster, directory[USER], user=USER, mode="enforce")
    done = daemon.command("doctor", check=False)
    print(f"\n{done.stdout}{done.stderr}")
    assert done.returncode == 1


def test_setup_makes_an_operator_and_takes_it_back(cluster: Slurm) -> None:
    runner = Runner(environ={**os.environ, **cluster.env})
    assert add_operator(runner, "nobody")
    assert not add_operator(runner, "nobody"), "the second time there is nothing to do"
    assert probe(runner, user="nobody", uid=65534, slurm_user="root").admin_level == "Operator"
    remove_operator(runner, "nobody")
    assert probe(runner, user="nobody", uid=65534, slurm_user="root").admin_level == "None"
