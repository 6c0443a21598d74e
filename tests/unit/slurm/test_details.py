"""The stretch of `scontrol -d show job` that can be trusted, and attempts to forge it."""

from __future__ import annotations

import pytest

from slurm_ext.slurm.details import Held, parse_chunk, split_blocks
from slurm_ext.slurm.gres import HeldGpus

BLOCK = """JobId={id} JobName={name}
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   SubmitTime=2026-11-30T14:54:59 EligibleTime=2026-11-30T14:54:59
   Partition=gpu AllocNode:Sid=localhost:4103
   ReqNodeList=(null) ExcNodeList=n[7-8]
   NodeList=n[1-2]
   BatchHost=n1
   NumNodes={nodes} NumCPUs=16 NumTasks=4 CPUs/Task=4 ReqB:S:C:T=0:0:*:*
   TRES=cpu=16,mem=4000M,node=2,billing=16,gres/gpu=4
   Socks/Node=* NtasksPerN:B:S:C=2:0:*:* CoreSpec=*
   JOB_GRES=gpu:a100:4
     Nodes=n1 CPU_IDs=32-39 Mem=2000 GRES=gpu:a100:2(IDX:4-5)
     Nodes=n2 CPU_IDs=0-7 Mem=2000 GRES=gpu:a100:2(IDX:0-1)
   MinCPUsNode=8 MinMemoryNode=2000M MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=/cluster/ck.sh
   WorkDir=/data
   Comment={comment}
   Power=
   TresPerNode=gres:gpu:a100:2
   

"""  # noqa: W293


def block(job_id: int, name: str = "x", comment: str = "c", nodes: str = "2") -> str:
    return BLOCK.format(id=job_id, name=name, comment=comment, nodes=nodes)


def test_reads_the_stretch() -> None:
    found = split_blocks(block(7))
    details = parse_chunk(found.chunks[7].text)
    assert details.held == (
        Held("n1", 8, 2000, HeldGpus(2, 0b110000, "a100"), ((32, 39),)),
        Held("n2", 8, 2000, HeldGpus(2, 0b11, "a100"), ((0, 7),)),
    )
    assert (details.nodes_min, details.nodes_max, details.excluded) == (2, 0, "n[7-8]")
    assert (details.mem_node_mib, details.mem_cpu_mib, details.tasks_per_node) == (2000, None, 2)
    assert found.doubtful == set()


@pytest.mark.parametrize(
    ("shown", "least", "most"), [("1-4", 1, 4), ("2", 2, 0), ("2-2", 2, 2), ("x", 1, 0)]
)
def test_node_ranges(shown: str, least: int, most: int) -> None:
    details = parse_chunk(split_blocks(block(7, nodes=shown)).chunks[7].text)
    assert (details.nodes_min, details.nodes_max) == (least, most)


FAKE_LINES = block(7).split("\n", 1)[1]


@pytest.mark.parametrize(
    "name",
    [
        "a\n   ReqNodeList=n1 ExcNodeList=(null)",
        "a\n" + FAKE_LINES,
        "a\n   OverSubscribe=NO Contiguous=0",
    ],
)
def test_forged_stretch_in_a_name_is_refused(name: str) -> None:
    found = split_blocks(block(7, name=name) + block(8))
    assert found.doubtful == {7}
    assert set(found.chunks) == {8}


def test_forged_allocation_lines_outside_the_stretch_do_nothing() -> None:
    fake = "a\n     Nodes=n9 CPU_IDs=0-63 Mem=1 GRES=gpu:a100:8(IDX:0-7)\n   NumNodes=9"
    plain = parse_chunk(split_blocks(block(7)).chunks[7].text)
    for forged in (block(7, name=fake), block(7, comment=fake)):
        assert parse_chunk(split_blocks(forged).chunks[7].text) == plain


def test_forged_block_of_another_job_puts_both_in_doubt() -> None:
    fake = "c\n\n" + block(8, name="fake")
    found = split_blocks(block(7, comment=fake) + block(8))
    assert 8 in found.doubtful
    assert 8 not in found.chunks
    # The forger's own block ends where the fake one begins, after its stretch.
    assert set(found.chunks) == {7}


def test_forged_header_in_a_name_takes_the_forgers_own_block_away() -> None:
    found = split_blocks(block(7, name="a\nJobId=8 JobName=b") + block(8))
    assert found.doubtful == {7, 8}
    assert found.chunks == {}


def test_marks_outside_the_stretch() -> None:
    cron = '   CronJob=Yes CrontabSpec="5 0 * * *"\n   Partition=gpu'
    text = block(7).replace("   Partition=gpu", cron).replace("   Power=", "   NtasksPerTRES=2")
    chunk = split_blocks(text).chunks[7]
    assert chunk.cron
    assert chunk.tasks_per_gpu == 2


def test_array_tasks_come_from_before_the_name() -> None:
    head = "JobId=50 ArrayJobId=47 ArrayTaskId=7 ArrayTaskThrottle=2 JobName=a ArrayTaskId=9\n"
    text = head + block(7).split("\n", 1)[1]
    assert split_blocks(text).chunks[50].array_tasks == "7"
    assert split_blocks(block(7, name="a ArrayTaskId=9")).chunks[7].array_tasks == ""


@pytest.mark.parametrize("text", ["", "No jobs in the system\n", "JobId=", "JobId=x y", "JobId=5 "])
def test_nothing_to_read(text: str) -> None:
    assert split_blocks(text).chunks == {}


def test_unreadable_allocation_line_is_not_half_read() -> None:
    text = block(7).replace("CPU_IDs=32-39", "CPU_IDs=32-x")
    assert parse_chunk(split_blocks(text).chunks[7].text).held is None


@pytest.mark.parametrize(
    ("line", "exclusive"),
    [
        ("OverSubscribe=OK Contiguous=0", ""),
        ("OverSubscribe=NO Contiguous=0", "NODE"),
        ("OverSubscribe=USER Contiguous=0", "USER"),
        ("OverSubscribe=NO Exclusive=NO Contiguous=0", ""),
        ("OverSubscribe=NO Exclusive=NODE Contiguous=0", "NODE"),
    ],
)
def test_exclusive_in_old_and_new_words(line: str, exclusive: str) -> None:
    text = block(7).replace("OverSubscribe=OK Contiguous=0", line)
    assert parse_chunk(split_blocks(text).chunks[7].text).exclusive == exclusive
