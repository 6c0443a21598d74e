"""Times, host lists, TRES, states, array task lists: one table each."""

from __future__ import annotations

import pytest

from slurm_ext.model.job import BaseState
from slurm_ext.slurm.arrays import Tasks, parse_tasks
from slurm_ext.slurm.hosts import expand, fold
from slurm_ext.slurm.states import (
    job_state_of_json,
    job_state_of_text,
    node_states_of_json,
    node_states_of_text,
)
from slurm_ext.slurm.times import Special, duration_s, moment_s, stamp
from slurm_ext.slurm.tres import mem_mib, parse_tres

HOUR, DAY = 3600, 86400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("30:00", 30 * 60, id="A15-thirty-minutes"),
        pytest.param("2-12", 60 * HOUR, id="A15-sixty-hours"),
        ("5", 300),
        ("1:00:00", HOUR),
        ("0:34", 34),
        ("1-12", 36 * HOUR),
        ("1-2:03", DAY + 2 * HOUR + 180),
        ("1-02:03:04", DAY + 2 * HOUR + 184),
        ("365-00:00:00", 365 * DAY),
        ("00:00:00", 0),
        ("UNLIMITED", Special.UNLIMITED),
        ("INFINITE", Special.UNLIMITED),
        ("-1", Special.UNLIMITED),
        ("NOT_SET", Special.UNSET),
        ("N/A", Special.UNSET),
        ("Unknown", Special.UNSET),
        ("None", Special.UNSET),
        ("NONE", Special.UNSET),
        ("INVALID", Special.UNSET),
        pytest.param("Partition_Limit", Special.UNSET, id="A13-partition-limit"),
        ("", Special.UNSET),
        ("1:2:3:4", Special.UNREADABLE),
        ("x", Special.UNREADABLE),
        ("٣", Special.UNREADABLE),
        ("-5", Special.UNREADABLE),
    ],
)
def test_duration(text: str, seconds: int | Special) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-02T00:00:00", DAY),
        ("2026-11-30T14:54:59", 1796050499),
        ("2026-11-30T14:54", 1796050440),
        ("Unknown", Special.UNSET),
        ("N/A", Special.UNSET),
        ("None", Special.UNSET),
        ("14:24:22", Special.UNREADABLE),
        ("2026-13-30T14:54:59", Special.UNREADABLE),
        ("2026-11-30 14:54:59", Special.UNREADABLE),
    ],
)
def test_moment(text: str, moment: int | Special) -> None:
    assert moment_s(text) == moment


def test_stamp_is_read_back() -> None:
    assert moment_s(stamp(1796050499)) == 1796050499


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        pytest.param(
            "ml-16-node-[001-002,004],ml-17-node-[001-003]",
            "ml-16-node-001 ml-16-node-002 ml-16-node-004 "
            "ml-17-node-001 ml-17-node-002 ml-17-node-003",
            id="A16",
        ),
        pytest.param(
            "nodeA,nodeB[001,003],nodeC", "nodeA nodeB001 nodeB003 nodeC", id="A16-twin-mixed"
        ),
        pytest.param("b04-[09-10]", "b04-09 b04-10", id="P77-padding"),
        pytest.param(
            "rack[0-1]_blade[0-1]",
            "rack0_blade0 rack0_blade1 rack1_blade0 rack1_blade1",
            id="P77-two-brackets",
        ),
        pytest.param("n[1-3]-ib0", "n1-ib0 n2-ib0 n3-ib0", id="P77-suffix"),
        ("n1", "n1"),
        ("", ""),
        ("(null)", ""),
        ("n[", None),
        ("n[3-1]", None),
        ("n[a-b]", None),
        ("n[1-99999999]", None),
    ],
)
def test_expand(text: str, hosts: str | None) -> None:
    assert expand(text) == (None if hosts is None else tuple(hosts.split()))


def test_expand_against_clustershell() -> None:
    nodeset = pytest.importorskip("ClusterShell.NodeSet")
    for text in ("n[1-3,07]-ib0", "a[1-2]b[3-4],c", "x[001-010]"):
        assert set(expand(text) or ()) == set(nodeset.NodeSet(text))


def test_fold() -> None:
    assert fold(["n1", "n2", "n3", "x"]) == "n[1-3],x"
    assert fold([]) == ""


@pytest.mark.parametrize(
    ("text", "gpus", "kind", "cpus", "mem"),
    [
        pytest.param("cpu=4,mem=32G,node=1,gres/gpu=1", 1, "", 4, 32768, id="A05"),
        pytest.param(
            "cpu=10,mem=100G,node=1,billing=10,gres/gpu=1,gres/gpu:a100=1", 1, "a100", 10, 102400,
            id="A07",
        ),
        pytest.param(
            "gres/gpu:nvidia_geforce_rtx_2080_ti=1", 1, "nvidia_geforce_rtx_2080_ti", 0, 0,
            id="A07-twin-typed-only",
        ),
        ("gres/gpu=3,gres/gpu:a=1,gres/gpu:b=2", 3, "", 0, 0),
        ("gres/gpu=3,gres/gpu:a=1", 3, "", 0, 0),
        ("cpu=1,mem=1.50G,node=1,billing=1", 0, "", 1, 1536),
        ("(null)", 0, "", 0, 0),
        ("", 0, "", 0, 0),
    ],
)  # fmt: skip
def test_tres(text: str, gpus: int, kind: str, cpus: int, mem: int) -> None:
    tres = parse_tres(text)
    assert (tres.gpus, tres.gpu_type, tres.cpus, tres.mem_mib) == (gpus, kind, cpus, mem)
    assert tres.unreadable == ()


def test_tres_names_what_it_cannot_read() -> None:
    tres = parse_tres("cpu=x,mem=,gres/gpu=2,what,fs/disk=1G")
    assert tres.unreadable == ("cpu=x", "mem=", "what")
    assert tres.gpus == 2
    assert tres.other == (("fs/disk", 2**30),)


@pytest.mark.parametrize(
    ("text", "mib"), [("500000M", 500000), ("100", 100), ("1T", 2**20), ("512K", 1), ("x", None)]
)
def test_mem(text: str, mib: int | None) -> None:
    assert mem_mib(text) == mib


@pytest.mark.parametrize(
    ("text", "base", "flags"),
    [
        ("RUNNING", "RUNNING", ""),
        ("PD", "PENDING", ""),
        ("COMPLETING", "UNKNOWN", "COMPLETING"),
        ("CG", "UNKNOWN", "COMPLETING"),
        ("CONFIGURING", "RUNNING", "CONFIGURING"),
        ("SPECIAL_EXIT", "PENDING", "SPECIAL_EXIT"),
        ("REQUEUE_HOLD", "PENDING", "REQUEUE_HOLD"),
        ("STAGE_OUT", "UNKNOWN", "STAGE_OUT"),
        pytest.param("CANCELLED by 1000", "CANCELLED", "", id="A14"),
        ("CANCELLED+", "CANCELLED", ""),
        ("EXPEDITING", "UNKNOWN", "EXPEDITING"),
        ("SOMETHING_NEW", "UNKNOWN", "SOMETHING_NEW"),
        ("", "UNKNOWN", ""),
    ],
)
def test_job_state_text(text: str, base: str, flags: str) -> None:
    state = job_state_of_text(text)
    assert (state.base.value, " ".join(sorted(state.flags))) == (base, flags)


@pytest.mark.parametrize(
    ("value", "base", "busy"),
    [
        pytest.param("RUNNING", BaseState.RUNNING, True, id="A10-string"),
        pytest.param(["RUNNING"], BaseState.RUNNING, True, id="A10-list"),
        pytest.param(["COMPLETED", "COMPLETING"], BaseState.COMPLETED, True, id="A10-completing"),
        (["COMPLETING", "PENDING"], BaseState.PENDING, True),
        (["PENDING", "REQUEUED"], BaseState.PENDING, False),
        ("COMPLETING", BaseState.UNKNOWN, True),
        (["NEWSTATE"], BaseState.UNKNOWN, True),
        ([], BaseState.UNKNOWN, True),
        (None, BaseState.UNKNOWN, True),
        ({"odd": 1}, BaseState.UNKNOWN, True),
        ([1, None], BaseState.UNKNOWN, True),
    ],
)
def test_job_state_json(value: object, base: BaseState, busy: bool) -> None:
    state = job_state_of_json(value)
    assert state.base is base
    assert state.occupies is busy


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("IDLE", "IDLE"),
        ("MIXED+RESERVED", "MIXED RESERVED"),
        ("IDLE+DRAIN", "DRAIN IDLE"),
        pytest.param("drained*", "DRAINED NOT_RESPONDING", id="A24-drained"),
        ("DOWN*+DRAIN", "DOWN DRAIN NOT_RESPONDING"),
        ("idle~", "IDLE POWERED_DOWN"),
        ("idle#", "IDLE POWERING_UP"),
        ("idle%", "IDLE POWERING_DOWN"),
        ("idle!", "IDLE POWER_DOWN"),
        ("idle$", "IDLE MAINT"),
        ("idle@", "IDLE REBOOT_ISSUED"),
        ("idle^", "IDLE REBOOT"),
        ("mix-", "MIXED PLANNED"),
        ("drng", "DRAINING"),
        ("NEWSTATE+OTHER", "NEWSTATE OTHER"),
        ("", ""),
    ],
)
def test_node_states(text: str, states: str) -> None:
    assert " ".join(sorted(node_states_of_text(text))) == states


def test_node_states_json() -> None:
    assert node_states_of_json("mixed", ["RESERVED"]) == {"MIXED", "RESERVED"}
    assert node_states_of_json(["MIXED", "PLANNED"]) == {"MIXED", "PLANNED"}
    assert node_states_of_json(None, 3) == frozenset()


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("N/A", Tasks()),
        ("4294967294", Tasks()),
        ("", Tasks()),
        ("0", Tasks(task=0)),
        ("17", Tasks(task=17)),
        ("0-9%2", Tasks(tasks="0-9%2", count=10, throttle=2)),
        ("2-6,8-9%2", Tasks(tasks="2-6,8-9%2", count=7, throttle=2)),
        pytest.param("[0-467]", Tasks(tasks="[0-467]", count=468), id="A08"),
        ("[2-5%2]", Tasks(tasks="[2-5%2]", count=4, throttle=2)),
        ("0-10:2", Tasks(tasks="0-10:2", count=6)),
        ("1,3,5,...", Tasks(tasks="1,3,5,...", count=None)),
        ("1-...%5", Tasks(tasks="1-...%5", count=None, throttle=5)),
        ("9-1", Tasks(tasks="9-1", count=None)),
        ("x", Tasks(tasks="x", count=None)),
    ],
)
def test_tasks(text: str, tasks: Tasks) -> None:
    assert parse_tasks(text) == tasks
