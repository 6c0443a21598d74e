# SPDX-License-Identifier: GPL-2.0-or-later
"""The mini-Slurm launcher against the Slurm that is installed here."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

DOCKER = Path(__file__).resolve().parents[2] / "docker"
sys.path.insert(0, str(DOCKER))

from minislurm import (  # noqa: E402
    Cluster,
    ConflictError,
    MiniSlurmError,
    NodeGroup,
    Param,
    Partition,
    Spec,
    User,
    conf,
    run_cli,
)
from minislurm import cluster as cluster_module  # noqa: E402
from minislurm import spec as spec_module  # noqa: E402
from minislurm.layout import Layout  # noqa: E402
from minislurm.ports import Ports, pick_ports  # noqa: E402

from tests.live import wait_for  # noqa: E402

T = TypeVar("T")
SEARCH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def _missing(*programs: str) -> str:
    if os.geteuid() != 0:
        return "starts daemons that change user: needs root"
    absent = [name for name in programs if shutil.which(name, path=SEARCH) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


NO_SLURM = _missing("slurmctld", "slurmd", "munged", "squeue")
NO_ACCOUNTING = NO_SLURM or _missing("slurmdbd", "mariadbd", "sacct")
needs_slurm = [pytest.mark.slurm, pytest.mark.skipif(bool(NO_SLURM), reason=NO_SLURM or "-")]
needs_accounting = [
    pytest.mark.slurm,
    pytest.mark.skipif(bool(NO_ACCOUNTING), reason=NO_ACCOUNTING or "-"),
]


def slurm(*marks: pytest.MarkDecorator) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        for mark in marks:
            test = mark(test)
        return test

    return decorate


@pytest.fixture
def new_dir() -> Iterator[Callable[[], Path]]:
    """Short paths (Slurm's sockets) that other users may enter; stopped and deleted afterwards."""
    made: list[Path] = []

    def make() -> Path:
        made.append(Path(tempfile.mkdtemp(prefix="ms-t", dir="/tmp")))
        return made[-1]

    yield make
    for path in made:
        if (path / ".minislurm").exists():
            Cluster(path).down(purge=True, grace=0.0)
        shutil.rmtree(path, ignore_errors=True)


def until(look: Callable[[], T], what: str, timeout: float = 60.0) -> T:
    """Asks again and again until the answer is true."""
    return wait_for(look, timeout, what)


def client(cluster: Cluster, *argv: str, user: str = "") -> str:
    words = ["runuser", "-u", user, "--", *argv] if user else list(argv)
    done = subprocess.run(
        words, env={**os.environ, **cluster.env}, text=True, capture_output=True, timeout=60
    )
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def sbatch(cluster: Cluster, script: str, *options: str, user: str = "") -> str:
    argv = ["sbatch", "--parsable", "-D", "/tmp", "-o", "/dev/null", *options, "--wrap", script]
    return client(cluster, *argv, user=user)


def job_state(cluster: Cluster, job: str) -> str:
    return client(cluster, "squeue", "-h", "-t", "all", "-j", job, "-o", "%T")


def processes_of(root: Path) -> list[str]:
    """Independent of the launcher's own search: any mention in command line or environment."""
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == os.getpid():
            continue
        try:
            words = (path / "cmdline").read_bytes() + b"\0" + (path / "environ").read_bytes()
        except OSError:
            continue
        if any(
            word.endswith(str(root)) or f"{root}/" in word
            for word in words.decode(errors="replace").split("\0")
        ):
            found.append(path.name)
    return found


def pid_of(cluster: Cluster, name: str) -> int:
    rows = cluster.status()["daemons"]
    return next(row["pid"] for row in rows if row["name"] == name)


# ---- texts: no Slurm needed ----


def test_a_missing_program_is_one_line_that_installs_it(new_dir: Callable[[], Path]) -> None:
    root = new_dir() / "c"
    if os.geteuid() != 0:
        pytest.skip("needs root")
    env = {**os.environ, "MINISLURM_PATH": "/nonexistent"}
    done = run_cli("up", "--dir", str(root), "--accounting", env=env)
    assert done.returncode == 3
    assert done.stderr == (
        "apt-get install --no-install-recommends -y "
        "mariadb-server munge slurm-client slurmctld slurmd slurmdbd\n"
    )
    assert not root.exists()


def test_group_text() -> None:
    group = spec_module.parse_group(
        "name=a,count=2,type=a100:4+v100:4,sockets=2,cpus=64,mem=1000,features=nvlink,big,Weight=10"
    )
    assert group == NodeGroup(
        name="a",
        count=2,
        gpus=(("a100", 4), ("v100", 4)),
        mem=1000,
        features="nvlink,big",
        extra=(("Weight", "10"),),
    )


def test_partition_text_keeps_commas_of_node_lists() -> None:
    partition = spec_module.parse_partition("name=x,nodes=a[1,3],b1,max_time=60,default=yes")
    assert partition == Partition("x", "a[1,3],b1", "60", default=True)


@pytest.mark.parametrize("text", ["count", "name=a,colour=red", "name=a,count=-1", "type=a+b"])
def test_wrong_group_text_is_a_conflict(text: str) -> None:
    with pytest.raises(ConflictError):
        spec_module.parse_group(text)


def test_the_spec_survives_json() -> None:
    wish = Spec(
        groups=(NodeGroup(name="a", gpus=(("x", 1), ("y", 2)), extra=(("Weight", "3"),)),),
        partitions=(Partition("p", default=True, extra=(("State", "UP"),)),),
        users=(User("u", "acct"),),
        params=(Param("KillWait", "5"),),
    )
    assert Spec.from_json(json.loads(json.dumps(wish.to_json()))) == wish


def test_gpus_are_spread_over_the_sockets() -> None:
    group = NodeGroup(name="a", count=1, gpus=(("x", 3), ("y", 1)), cpus=8)
    lines = conf.gres_conf(Layout("/tmp/d"), Spec(groups=(group,))).splitlines()
    assert lines[1:] == [
        "NodeName=a1 Name=gpu Type=x File=/tmp/d/dev/gpu[0-1] Cores=0-3",
        "NodeName=a1 Name=gpu Type=x File=/tmp/d/dev/gpu2 Cores=4-7",
        "NodeName=a1 Name=gpu Type=y File=/tmp/d/dev/gpu3 Cores=4-7",
    ]


def test_params_replace_extend_and_never_drop_the_socket() -> None:
    params = (
        Param("killwait", "5"),
        Param("PriorityFlags", "CALCULATE_RUNNING", append=True),
        Param("AuthInfo", "cred_expire=10"),
        Param("maxjobcount", "7"),
    )
    text = conf.slurm_conf(Layout("/tmp/d"), Spec(params=params), Ports.block(10000))
    lines = text.splitlines()
    assert "killwait=5" in lines
    assert "PriorityFlags=ACCRUE_ALWAYS,CALCULATE_RUNNING" in lines
    assert "AuthInfo=socket=/tmp/d/run/munge.sock,cred_expire=10" in lines
    assert "MaxJobCount=7" in lines
    assert "MaxJobCount=50000" not in lines


@pytest.mark.parametrize(("version", "text"), [("22.05.8", ""), ("24.11.5", "disabled")])
def test_cgroup_conf_only_where_slurmd_asks_for_cgroups(version: str, text: str) -> None:
    assert text in conf.cgroup_conf(version)
    assert bool(conf.cgroup_conf(version)) == bool(text)


def test_too_long_or_odd_directories_are_refused() -> None:
    with pytest.raises(ConflictError, match="shorter --dir"):
        Layout("/tmp/" + "x" * 100).check_name("n1")
    with pytest.raises(ConflictError, match="letters, digits"):
        Layout("/tmp/a b").check_name("n1")


def test_a_directory_of_somebody_else_is_left_alone(new_dir: Callable[[], Path]) -> None:
    root = new_dir()
    (root / "precious").write_text("x")
    for argv in (["down", "--purge"], ["up"]):
        done = run_cli(*argv, "--dir", str(root))
        assert done.returncode in (1, 2, 3)
    assert run_cli("down", "--purge", "--dir", str(root)).returncode == 2
    assert [path.name for path in root.iterdir()] == ["precious"]


def test_down_where_nothing_is_succeeds(new_dir: Callable[[], Path]) -> None:
    assert run_cli("down", "--dir", str(new_dir() / "never")).returncode == 0


# ---- a real cluster ----


@slurm(*needs_slurm)
def test_up_and_down_leave_no_process(new_dir: Callable[[], Path]) -> None:
    root = new_dir()
    up = run_cli("up", "--dir", str(root), "--nodes", "2")
    assert up.returncode == 0, up.stderr
    cluster = Cluster(root)
    assert f"export SLURM_CONF={root}/etc/slurm.conf" in up.stdout
    assert run_cli("env", "--dir", str(root)).stdout in up.stdout
    status = json.loads(run_cli("status", "--json", "--dir", str(root)).stdout)
    assert status["nodes"] == {"n1": "idle", "n2": "idle"}
    assert all(row["alive"] for row in status["daemons"])

    job = sbatch(cluster, "sleep 600")
    stubborn = sbatch(cluster, "trap '' TERM; setsid sleep 600; sleep 600", "--export=NONE")
    for each in (job, stubborn):
        until(lambda each=each: job_state(cluster, each) == "RUNNING", f"job {each} runs")  # type: ignore[misc]
    assert len(processes_of(root)) > 4

    assert run_cli("down", "--grace", "2", "--dir", str(root)).returncode == 0
    assert processes_of(root) == []
    assert run_cli("down", "--purge", "--dir", str(root)).returncode == 0
    assert not root.exists()


@slurm(*needs_slurm)
def test_a_second_up_says_so_and_another_wish_is_refused(new_dir: Callable[[], Path]) -> None:
    root = new_dir()
    wish = Spec(groups=(NodeGroup(count=1),))
    assert Cluster(root, wish).up() is True
    before = pid_of(Cluster(root), "slurmctld")
    assert Cluster(root, wish).up() is False
    again = run_cli("up", "--dir", str(root), "--nodes", "1")
    assert again.returncode == 0
    assert "up already" in again.stdout
    other = run_cli("up", "--dir", str(root), "--nodes", "2")
    assert other.returncode == 2
    assert "down --purge" in other.stderr
    assert pid_of(Cluster(root), "slurmctld") == before


@slurm(*needs_slurm)
def test_two_instances_side_by_side(new_dir: Callable[[], Path]) -> None:
    roots = [new_dir(), new_dir()]
    starts = [
        subprocess.Popen(
            [sys.executable, str(DOCKER / "minislurm"), "up", "--dir", str(root), "--nodes", "2"],
            stdout=subprocess.DEVNULL,
        )
        for root in roots
    ]
    assert [start.wait(timeout=120) for start in starts] == [0, 0]
    one, two = (Cluster(root) for root in roots)
    job = sbatch(one, "sleep 600")
    until(lambda: job_state(one, job) == "RUNNING", "the job runs")
    assert client(two, "squeue", "-h") == ""
    one.down()
    assert processes_of(roots[0]) == []
    assert set(two.status()["nodes"].values()) == {"idle"}


@slurm(*needs_slurm)
def test_gpu_jobs_get_gpus_with_indices(new_dir: Callable[[], Path]) -> None:
    group = NodeGroup(name="a", count=1, gpus=(("a100", 4), ("v100", 4)))
    cluster = Cluster(new_dir(), Spec(groups=(group,)))
    cluster.up()
    assert "(S:0)" in client(cluster, "scontrol", "show", "node", "a1")
    jobs = {
        sbatch(cluster, "sleep 600", "--gpus=v100:2"): "GRES=gpu:v100:2(IDX:4-5)",
        sbatch(cluster, "sleep 600", "--gpus=a100:4"): "GRES=gpu:a100:4(IDX:0-3)",
    }
    for job, gres in jobs.items():
        until(
            lambda job=job, gres=gres: (  # type: ignore[misc]
                gres in client(cluster, "scontrol", "-d", "show", "job", job)
            ),
            gres,
        )
    seen = client(cluster, "srun", "--gpus=v100:1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert len(seen) == 1


@slurm(*needs_slurm)
def test_kill_and_restart_of_the_controller_and_of_a_node(new_dir: Callable[[], Path]) -> None:
    root = new_dir()
    cluster = Cluster(root, Spec(groups=(NodeGroup(count=2),)))
    cluster.up()
    job = sbatch(cluster, "sleep 600", "-w", "n1")
    until(lambda: job_state(cluster, job) == "RUNNING", "the job runs")
    assert run_cli("restart", "slurmctld", "--dir", str(root)).returncode == 0
    assert job_state(cluster, job) == "RUNNING"

    assert run_cli("kill", "slurmctld", "--dir", str(root)).returncode == 0
    until(lambda: any(not row["alive"] for row in cluster.status()["daemons"]), "it is dead")
    half_up = run_cli("up", "--dir", str(root), "--nodes", "2")
    assert half_up.returncode == 2
    assert "slurmctld" in half_up.stderr
    cluster.restart("slurmctld")
    assert job_state(cluster, job) == "RUNNING"

    old = pid_of(cluster, "node:n2")
    assert run_cli("kill", "node", "n2", "--signal", "STOP", "--dir", str(root)).returncode == 0
    assert run_cli("restart", "node", "n2", "--dir", str(root)).returncode == 0
    assert pid_of(cluster, "node:n2") != old
    assert cluster.status()["nodes"]["n2"] == "idle"
    assert run_cli("restart", "n9", "--dir", str(root)).returncode == 2


@slurm(*needs_slurm)
@pytest.mark.parametrize("victims", [["slurmctld"], ["munged"], ["munged", "slurmctld", "n1"]])
def test_down_after_kill_9(new_dir: Callable[[], Path], victims: list[str]) -> None:
    root = new_dir()
    cluster = Cluster(root, Spec(groups=(NodeGroup(count=2),)))
    cluster.up()
    job = sbatch(cluster, "sleep 600")
    until(lambda: job_state(cluster, job) == "RUNNING", "the job runs")
    for victim in victims:
        cluster.kill(victim)
    done = run_cli("down", "--dir", str(root), "--grace", "2")
    assert done.returncode == 0, done.stderr
    assert processes_of(root) == []


@slurm(*needs_slurm)
def test_up_again_after_a_crash_comes_to_idle_nodes(new_dir: Callable[[], Path]) -> None:
    cluster = Cluster(new_dir(), Spec(groups=(NodeGroup(count=1),)))
    cluster.up()
    job = sbatch(cluster, "sleep 600")
    until(lambda: job_state(cluster, job) == "RUNNING", "the job runs")
    cluster.down(grace=0.0)
    assert cluster.up() is True
    assert cluster.status()["nodes"] == {"n1": "idle"}


@slurm(*needs_slurm)
def test_a_wrong_setting_shows_the_log_and_leaves_nothing(new_dir: Callable[[], Path]) -> None:
    root = new_dir()
    done = run_cli("up", "--dir", str(root), "--nodes", "1", "--param", "NoSuchKey=1")
    assert done.returncode == 1
    assert "slurmctld ended by itself" in done.stderr
    assert "NoSuchKey" in done.stderr
    assert processes_of(root) == []
    corrected = run_cli("up", "--dir", str(root), "--nodes", "1", "--param", "KillWait=5")
    assert corrected.returncode == 0, corrected.stderr


@slurm(*needs_slurm)
def test_a_port_taken_meanwhile_is_replaced(
    new_dir: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = pick_ports(1)
    answers = [first]
    monkeypatch.setattr(
        cluster_module, "pick_ports", lambda nodes: answers.pop() if answers else pick_ports(nodes)
    )
    with socket.socket() as squatter:
        squatter.bind(("0.0.0.0", first.slurmctld))
        squatter.listen()
        cluster = Cluster(new_dir(), Spec(groups=(NodeGroup(count=1),)))
        cluster.up()
    assert cluster.status()["ports"]["slurmctld"] != first.slurmctld


@slurm(*needs_slurm)
def test_signals_while_starting_clean_up(new_dir: Callable[[], Path]) -> None:
    root = new_dir()
    argv = [sys.executable, str(DOCKER / "minislurm"), "up", "--dir", str(root), "--nodes", "40"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as start:
        until(lambda: len(processes_of(root)) > 3, "daemons of the cluster", 20)
        start.send_signal(signal.SIGINT)
        start.send_signal(signal.SIGTERM)
        start.communicate(timeout=60)
    # Already up when the signal came: then it must be whole.
    if start.returncode == 0:
        assert set(Cluster(root).status()["nodes"].values()) == {"idle"}
    else:
        assert start.returncode in (130, 143)
        assert processes_of(root) == []


@slurm(*needs_slurm)
def test_foreground_stays_until_sigterm(new_dir: Callable[[], Path]) -> None:
    root = new_dir()
    argv = [sys.executable, str(DOCKER / "minislurm"), "up", "--dir", str(root), "--nodes", "1"]
    with subprocess.Popen([*argv, "--foreground"], stdout=subprocess.PIPE, text=True) as start:
        assert start.stdout is not None
        assert "is up" in start.stdout.readline()
        start.send_signal(signal.SIGTERM)
        start.communicate(timeout=60)
    assert start.returncode == 0
    assert processes_of(root) == []


@slurm(*needs_slurm)
def test_partitions_params_and_job_submit_script(new_dir: Callable[[], Path]) -> None:
    lua = (
        "function slurm_job_submit(job, parts, uid)\n"
        "  job.comment = 'seen'\n  return slurm.SUCCESS\nend\n"
        "function slurm_job_modify(job, rec, parts, uid) return slurm.SUCCESS end\n"
    )
    groups = (NodeGroup(name="a", count=2), NodeGroup(name="c", count=1, gpus=()))
    partitions = (Partition("gpu", "a[1-2]", default=True), Partition("debug", "a1", "60"))
    params = (Param("KillWait", "5"), Param("AuthInfo", "cred_expire=10"))
    cluster = Cluster(
        new_dir(),
        Spec(
            groups=groups,
            partitions=partitions,
            params=params,
            sched="tuned",
            job_submit_lua=lua,
        ),
    )
    try:
        cluster.up()
    except MiniSlurmError as error:  # pragma: no cover - depends on the packages
        if error.code == 3:
            pytest.skip(str(error))
        raise
    assert client(cluster, "sinfo", "-h", "-o", "%P %l %D").splitlines() == [
        "gpu* infinite 2",
        "debug 1:00:00 1",
    ]
    # A node in no partition, which sinfo does not show.
    assert cluster.status()["nodes"]["c1"] == "idle"
    config = client(cluster, "scontrol", "show", "config")
    assert "cred_expire=10" in config
    assert "bf_interval=2" in config
    job = sbatch(cluster, "true", "-H")
    assert "Comment=seen" in client(cluster, "scontrol", "show", "job", job)


# ---- with accounting ----


@pytest.fixture(scope="module")
def bank() -> Iterator[Cluster]:
    root = Path(tempfile.mkdtemp(prefix="ms-t", dir="/tmp"))
    wish = Spec(
        name="bank",
        groups=(NodeGroup(count=1),),
        accounting=True,
        users=(User("ms-user1"), User("ms-user2", "physics")),
        operator="ms-oper",
    )
    cluster = Cluster(root, wish)
    existed = {name for name in ("ms-user1", "ms-user2", "ms-oper") if _has_user(name)}
    try:
        cluster.up(timeout=180)
        yield cluster
    finally:
        cluster.down(purge=True, grace=2.0)
        for name in {"ms-user1", "ms-user2", "ms-oper"} - existed:
            subprocess.run(["userdel", name], check=False, capture_output=True)
    assert processes_of(root) == []


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


@slurm(*needs_accounting)
def test_sacct_shows_a_finished_job_of_a_user(bank: Cluster) -> None:
    job = sbatch(bank, "true", "--gpus=a100:2", user="ms-user2")

    def row() -> str:
        argv = ["sacct", "-a", "-n", "-P", "-X", "-j", job, "-o", "State,User,Account,AllocTRES"]
        text = client(bank, *argv)
        return text if text.startswith("COMPLETED|") else ""

    state, user, account, tres = until(row, "the finished job in sacct").split("|")
    assert (state, user, account) == ("COMPLETED", "ms-user2", "physics")
    assert {"gres/gpu=2", "gres/gpu:a100=2"} <= set(tres.split(","))


@slurm(*needs_accounting)
def test_users_and_operator_exist(bank: Cluster) -> None:
    rows = client(bank, "sacctmgr", "-n", "-P", "show", "user", "format=User,AdminLevel")
    assert {"ms-user1|None", "ms-user2|None", "ms-oper|Operator"} <= set(rows.splitlines())
    job = sbatch(bank, "sleep 600", "-H", user="ms-user1")
    client(bank, "scontrol", "update", f"jobid={job}", "comment=by-operator", user="ms-oper")
    client(bank, "scancel", job, user="ms-oper")


@slurm(*needs_accounting)
def test_the_database_daemons_restart(bank: Cluster) -> None:
    for name in ("mariadb", "slurmdbd"):
        bank.kill(name)
        bank.restart(name)
    until(lambda: "bank" in client(bank, "sacctmgr", "-n", "show", "cluster"), "the cluster")
