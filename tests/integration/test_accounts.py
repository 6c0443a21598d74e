"""Beside accounting: the daemon as an Operator, as an ordinary user, and limits of a QOS."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from pwd import getpwnam
from typing import Any

import pytest
from minislurm import NodeGroup, Param, Spec, User

from slurm_ext.slurm.accounts import add_operator, remove_operator
from slurm_ext.slurm.probe import probe
from slurm_ext.slurm.run import Runner
from tests.live import soon

from .conftest import running
from .harness import Daemon, Slurm, share_line, wait_for
from .training import ELASTIC, ON, Trainer, growing, outcome

pytestmark = pytest.mark.slurm

OPERATOR, USER, OTHER = "ms-oper", "ms-user1", "ms-user2"
SPEC = Spec(
    name="accounts",
    groups=(NodeGroup(count=2),),
    accounting=True,
    sched="tuned",
    users=(User(USER), User(OTHER)),
    operator=OPERATOR,
    params=(
        Param("AccountingStorageEnforce", "associations,limits,qos"),
        Param("Licenses", "rare:1"),
        Param("PriorityCalcPeriod", "1"),  # minutes; the least
    ),
)
SMALL = ("--gpus-per-node=1", "--cpus-per-task=1", "--mem=100")


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


def crowd(slurm: Slurm, gate: Path) -> list[int]:
    """Jobs of an ordinary user: a filler until ``gate`` appears, and what waits."""
    whole = ("--nodes=2", "--cpus-per-task=1", "--mem=100")
    filler = slurm.submit(*whole, "--gpus-per-node=6", "--time=4", until=gate, user=USER)
    slurm.wait_state([filler], {"RUNNING"}, 20)
    jobs = [slurm.submit(*whole, "--gpus-per-node=8", soon(2), user=USER)]
    jobs += [slurm.submit(*SMALL, soon(2), f"--time={n}", user=USER) for n in (12, 11, 10, 9)]
    return [filler, *jobs]


def test_operator_steers_without_root(cluster: Slurm, directory: dict[str, Path]) -> None:
    gate = directory[USER].parent / "gate"
    with Daemon(cluster, directory[OPERATOR], user=OPERATOR, policy__name="sjf") as daemon:
        jobs = crowd(cluster, gate)
        wait_for(
            lambda: "lease" in {a["lever"] for a in daemon.actions()}, 20, "a lease", daemon.log
        )
        gate.touch()
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
    gate = directory[USER].parent / "gate"
    with Daemon(cluster, directory[USER], user=USER, mode="observe") as daemon:
        jobs = crowd(cluster, gate)
        daemon.wait_seen(jobs)
        gate.touch()
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


@pytest.fixture(params=["qos", "association"])
def tiny(request: pytest.FixtureRequest, cluster: Slurm) -> str:
    """A QOS or an account of two GPUs in all that the user may use, or the only licence."""
    cluster.clean()
    if request.param == "licence":
        return "--licenses=rare:1"
    if request.param == "qos":
        return qos(cluster, "tiny", "GrpTRES=gres/gpu=2")
    cluster.run(
        "sacctmgr", "-i", "add", "account", "tight", "GrpTRES=gres/gpu=2", check=False
    )  # it may be there already
    cluster.run("sacctmgr", "-i", "add", "user", USER, "account=tight", check=False)
    wait_for(
        lambda: f"UserName={USER}" in cluster.run(
            "scontrol", "show", "assoc_mgr", "accounts=tight", "flags=assoc").stdout,
        20, "slurmctld knows the association",
    )  # fmt: skip
    return "--account=tight"


def qos(cluster: Slurm, name: str, *settings: str) -> str:
    """A QOS that the user may use, as an option of sbatch."""
    cluster.run("sacctmgr", "-i", "add", "qos", name, *settings, check=False)
    cluster.run("sacctmgr", "-i", "modify", "user", USER, "set", f"qos+={name}", check=False)
    wait_for(
        lambda: name in cluster.run("scontrol", "show", "assoc_mgr", "flags=qos").stdout,
        20, "slurmctld knows the QOS",
    )  # fmt: skip
    return f"--qos={name}"


def test_slurms_own_factors_rank_one_by_one(cluster: Slurm, tmp_path: Path) -> None:
    """By the factor of its QOS the urgent job goes first, and ``why`` says so."""
    cluster.clean()
    urgent = qos(cluster, "urgent", "Priority=100")
    weights = {"weight_priority": 0, "weight_age": 0, "weight_short": 0, "weight_lane": 0}
    parameters = weights | {"weight_deadline": 0, "weight_qos": 2, "weight_fair_share": 1}
    daemon = Daemon(
        cluster, tmp_path / "d", mode="observe", policy__name="multifactor",
        **{f"policy__parameters__{key}": value for key, value in parameters.items()},
    )  # fmt: skip
    whole = ("--nodes=2", "--gpus-per-node=8", "--cpus-per-task=1", "--mem=100")
    filler = cluster.submit(*whole, run_s=300, user=USER)
    cluster.wait_state([filler], {"RUNNING"}, 20)
    plain, first = cluster.submit(*whole, user=USER), cluster.submit(urgent, *whole, user=USER)
    cluster.wait_state([plain, first], {"PENDING"}, 20)

    def told() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(daemon.command("why", str(first), "--json").stdout)
        return found

    # slurmctld works the factors out every PriorityCalcPeriod and when a job is submitted.
    why = wait_for(lambda: (one := told())["rank"] == 0 and one, 20, "the urgent job is first")
    values = {f["name"]: (f["value"], f["contribution"]) for f in why["factors"]}
    print(f"\n{values}")
    assert values["qos"] == (1.0, 2.0)
    assert 0 < values["fair_share"][0] <= 1
    assert why["behind"]["id"] == str(plain)
    assert why["behind"]["decided_by"]["factor"] == "qos"


@pytest.mark.slow
def test_who_has_used_less_goes_first(cluster: Slurm, tmp_path: Path) -> None:
    """By the fair-share factor of Slurm, which counts usage once in PriorityCalcPeriod."""
    cluster.clean()
    weights = {"priority": 0, "age": 0, "short": 0, "lane": 0, "deadline": 0, "fair_share": 1}
    daemon = Daemon(
        cluster, tmp_path / "d", mode="observe", policy__name="multifactor",
        **{f"policy__parameters__weight_{key}": value for key, value in weights.items()},
    )  # fmt: skip
    whole = ("--nodes=2", "--gpus-per-node=8", "--cpus-per-task=1", "--mem=100")
    filler = cluster.submit(*whole, run_s=600, user=USER)
    cluster.wait_state([filler], {"RUNNING"}, 20)
    greedy, modest = cluster.submit(*whole, user=USER), cluster.submit(*whole, user=OTHER)

    def told() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(daemon.command("why", str(modest), "--json").stdout)
        return found

    why = wait_for(lambda: (one := told())["rank"] == 0 and one, 150, "the usage is counted")
    print(f"\n{why['factors']}")
    assert why["behind"]["id"] == str(greedy)
    assert why["behind"]["decided_by"]["factor"] == "fair_share"


@pytest.mark.parametrize("tiny", ["qos", "association", "licence"], indirect=True)
def test_what_slurm_refuses_blocks_nobody(cluster: Slurm, tiny: str, tmp_path: Path) -> None:
    """First in line, let go, refused by its QOS or account or for want of a licence: its room goes
    to others until Slurm takes it."""
    one = ("--cpus-per-task=1", "--mem=100", "--begin=now+2")
    with Daemon(cluster, tmp_path / "d", policy__name="fifo", backfill__kind="none") as daemon:
        first = cluster.submit(tiny, *one, "--gpus-per-node=2", run_s=300, user=USER)
        cluster.wait_state([first], {"RUNNING"}, 20)
        refused = cluster.submit(tiny, *one, "--gpus-per-node=1", run_s=1, user=USER)
        others = [cluster.submit(*one, f"--gpus-per-node={n}", run_s=60, user=USER) for n in (8, 6)]
        # Sixteen GPUs: two run, one is refused, and fourteen only fit if it holds no room.
        cluster.wait_state(others, {"RUNNING"}, 40)
        levers = [a["lever"] for a in daemon.actions(refused)]
        seen = daemon.decisions()[str(refused)]
        print(f"\nrefused job: {levers}, {cluster.show(refused, 'Reason')}, {seen['reasons']}")
        assert "release" in levers
        assert seen["verdict"] == "ineligible"
        assert [r["code"] for r in seen["reasons"]] == ["limit_in_slurm"]
        cluster.run("scancel", str(first))
        cluster.wait_completed([refused], 40)
        assert daemon.errors() == []


def test_a_job_whose_qos_forbids_the_larger_size_returns_to_its_own(
    cluster: Slurm, tiny: str, directory: dict[str, Path], tmp_path: Path
) -> None:
    trainer = Trainer(cluster, directory[USER], USER)
    grows = trainer.submit(tiny, annotation=ELASTIC, gpus=2, work=200)
    trainer.wait_working(grows)
    daemon = Daemon(cluster, tmp_path / "d", **ON)
    daemon.program = growing(4)
    with daemon:
        assert outcome(daemon, grows, 60) == "old_shape"
        cluster.wait_completed([grows], 60)
    reports = trainer.progress(grows).reports
    assert {(r.run, r.gpus) for r in reports} == {(0, 2), (1, 2)}


def test_a_job_whose_qos_forbids_the_size_it_is_given_starts_as_submitted(
    cluster: Slurm, tiny: str, directory: dict[str, Path], tmp_path: Path
) -> None:
    words = ("--comment=slurm_ext:scaling=moldable,gpus=1..8,speed=1:1/8:8", soon(4))
    job = cluster.submit(tiny, "--gpus-per-node=2", "-N1", *words, user=USER)
    with Daemon(cluster, tmp_path / "d", policy__name="doubling") as daemon:
        cluster.wait_completed([job], 60)
        shapes = [row["patch"]["shape"] for row in daemon.actions(job) if row["patch"].get("shape")]
    assert [shape[:2] for shape in shapes] == [[1, 8], [1, 2]]
