"""From job patches to ``scontrol`` commands, and from what it says back to outcomes. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from slurm_ext.model.decision import JobPatch, ReservationSpec, Shape
from slurm_ext.model.job import Job, Request
from slurm_ext.model.reshape import bound_in, shape_of, unshapeable
from slurm_ext.model.restart import JobSignal
from slurm_ext.slurm.batch import safe_word
from slurm_ext.slurm.hosts import fold
from slurm_ext.slurm.times import stamp

RESERVATION_PREFIX = "slurm_ext_"
SIGNALS = frozenset({"USR1", "USR2", "TERM", "INT", "HUP"})
_ADDRESS = re.compile(r"\d{1,10}(?:[_+]\d{1,10})?", re.ASCII)
_TASK_LIST = re.compile(r"[\d,:-]{1,20000}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_NODES = re.compile(r"[A-Za-z0-9_.,\[\]-]*", re.ASCII)
_FOR_JOB = re.compile(r" for job \d\S*$", re.ASCII)
_PREFIX = re.compile(r"^(?:slurm_\w+ error: |scontrol: error: )")
_TASKS = re.compile(r"^\d+_\[?[\d,:%-]+(?:\.\.\.)?\]?: (.*)$")
_LONG_AGO_S = 1_000_000_000

BENIGN = (
    "Job is no longer pending execution",
    "Job has already finished",
    "Job/step already completing or completed",
    "Invalid job id specified",
    "Job is pending execution",
)
"""Answers that mean: the job has started, ended or gone meanwhile."""


@dataclass(frozen=True, slots=True)
class Command:
    """One scontrol command as words; ``stdin`` tells whether it may go into a batch."""

    words: tuple[str, ...]

    @property
    def stdin(self) -> bool:
        return all(safe_word(word) for word in self.words)

    @property
    def line(self) -> str:
        return " ".join(self.words)


def address_error(address: str) -> str:
    """Why an address must not be sent, or empty. It must name one job or array task."""
    return "" if _ADDRESS.fullmatch(address) else f"not a job address: {address!r}"


def begin_word(begin_s: int) -> str:
    """``StartTime=``: an absolute UTC timestamp (scontrol runs with TZ=UTC), 0 for now.

    ``1970-01-01T00:00:00`` and small numbers would be "No changes specified".
    """
    return "StartTime=now" if begin_s < _LONG_AGO_S else f"StartTime={stamp(begin_s)}"


def start_guard(job: Job) -> str | None:
    """A word that makes slurmctld refuse the whole update of a job that has started.

    ``ReqNodeList=`` on a running job shrinks it, even beside keywords that are refused with "no
    longer pending". Only the partition is checked before that: the job's own partition with a
    comma appended is another string (refused on a running job) and the same partition (nothing
    changes on a pending one). With several partitions it would not be the same: None.
    """
    if len(job.partitions) != 1 or not _NAME.fullmatch(job.partitions[0]):
        return None
    return f"Partition={job.partitions[0]},"


def shape_words(shape: Shape, request: Request) -> tuple[str, ...]:
    """What turns the request into that shape, in one update; only what differs.

    GPUs are named as the job named them. NumCPUs alone would leave the CPUs of a task as they
    were, and beside ``--cpus-per-gpu`` make a job that never starts (22.05).

    :raises ValueError: Slurm cannot do that to this request.
    """
    why = unshapeable(request, shape)
    if why:
        raise ValueError(f"cannot be reshaped: {why}")
    now, words = shape_of(request), []
    if shape.nodes != now.nodes:
        words.append(f"NumNodes={shape.nodes}-{shape.nodes}")  # one number sets the minimum only
    if shape.tasks != now.tasks:
        words.append(f"NumTasks={shape.tasks}")
    if request.gpus_per_node and shape.gpus_per_node != now.gpus_per_node:
        words.append(f"Gres={_gpu_words(request)}:{shape.gpus_per_node}")
    if not request.gpus_per_node and request.gpus_total and shape.gpus != now.gpus:
        # "gres/gpu:N" is accepted and shown on 22.05, but the old number is allocated.
        words.append(f"TresPerJob=gres:{_gpu_words(request)}:{shape.gpus}")
    if (shape.cpus, shape.tasks) != (now.cpus, now.tasks):
        each = shape.cpus // shape.tasks
        words += [f"CPUsPerTask={each}", f"NumCPUs={shape.cpus}"]
        if (bound := bound_in(request, each)) != request.min_cpus_node:
            words.append(f"MinCPUsNode={bound}")
    if shape.mem_node_mib not in (0, now.mem_node_mib):
        words.append(f"MinMemoryNode={shape.mem_node_mib}")
    return tuple(words)


def _gpu_words(request: Request) -> str:
    if request.gpu_type and not _NAME.fullmatch(request.gpu_type):
        raise ValueError(f"not a GPU type: {request.gpu_type!r}")
    return f"gpu:{request.gpu_type}" if request.gpu_type else "gpu"


def patch_commands(
    patch: JobPatch, guard: str | None, request: Request | None = None, tasks: str = ""
) -> tuple[Command, ...]:
    """The commands of one patch: update, then hold or release; values are absolute.

    ``request``: what the job asks for at this moment, needed for another shape. ``tasks``: the
    tasks of an array that are meant, where its plain id would reach others, too.

    :raises ValueError: an address or node list that is not one, or a shape that cannot be.
    """
    error = address_error(patch.address)
    if error:
        raise ValueError(error)
    if tasks and not _TASK_LIST.fullmatch(tasks):
        raise ValueError(f"not a task list: {tasks[:200]!r}")
    address = f"{patch.address}_[{tasks}]" if tasks else patch.address
    words = [] if guard is None else [guard]
    if patch.site_factor is not None:
        words.append(f"SiteFactor={patch.site_factor}")
    if patch.begin_s is not None:
        words.append(begin_word(patch.begin_s))
    for keyword, nodes in (
        ("ReqNodeList", patch.required_nodes),
        ("ExcNodeList", patch.excluded_nodes),
    ):
        if nodes is not None:
            words.append(f"{keyword}={_node_list(nodes)}")
    if patch.shape is not None:
        if request is None:
            raise ValueError("cannot be reshaped: the job was not seen")
        if patch.nodes and request.nodes_max is None and request.gpus_per_node:
            request = replace(request, nodes_min=patch.nodes, nodes_max=patch.nodes)
        words += shape_words(patch.shape, request)
    if patch.admin_comment is not None:
        words.append(f"AdminComment={patch.admin_comment}")
    commands: list[Command] = []
    if len(words) > (guard is not None):
        commands.append(Command(("update", f"JobId={address}", *words)))
    if patch.hold is True:
        # After the note: a note too many is harmless, a hold without one may never be undone.
        commands.append(Command(("hold", address)))
    if patch.hold is False:
        commands.append(Command(("release", address)))
    return tuple(commands)


def _node_list(nodes: Sequence[str]) -> str:
    folded = fold(nodes)
    if not _NODES.fullmatch(folded):
        raise ValueError(f"not a node list: {folded!r}")
    return folded


def signal_words(one: JobSignal) -> tuple[str, ...]:
    """The words of ``scancel --signal``; ``--state`` keeps it from a job that waits again.

    Raises ValueError for an address that is none, and for a signal that is not one of
    :data:`SIGNALS` (scancel(1): KILL would end the job).
    """
    if error := address_error(one.address):
        raise ValueError(error)
    if one.signal not in SIGNALS or one.to not in ("batch", "steps"):
        raise ValueError(f"not a checkpoint signal: {one.signal!r} to {one.to!r}")
    to = ("--batch",) if one.to == "batch" else ()
    return ("scancel", f"--signal={one.signal}", *to, "--state=RUNNING", one.address)


def reservation_words(spec: ReservationSpec) -> tuple[str, ...]:
    """The words of ``scontrol create reservation``.

    Raises ValueError unless the name is ours, there are nodes and users, and all are plain words.
    """
    if not spec.name.startswith(RESERVATION_PREFIX) or not _NAME.fullmatch(spec.name):
        raise ValueError(f"not a reservation name of ours: {spec.name!r}")
    if not spec.nodes or not spec.users or spec.duration_s <= 0:
        raise ValueError(f"{spec.name}: nodes, users and a duration are needed")
    for word in (*spec.users, *spec.flags):
        if not _NAME.fullmatch(word):
            raise ValueError(f"{spec.name}: not a plain word: {word!r}")
    flags = dict.fromkeys((*spec.flags, "NO_HOLD_JOBS_AFTER"))
    minutes = -(-spec.duration_s // 60)
    return (
        "create",
        "reservation",
        f"ReservationName={spec.name}",
        begin_word(spec.start_s),
        f"Duration={minutes}",
        f"Nodes={_node_list(spec.nodes)}",
        f"Users={','.join(spec.users)}",
        f"Flags={','.join(flags)}",
    )


@dataclass(frozen=True, slots=True)
class Said:
    """What scontrol said to one command.

    ``partial``: it names tasks of an array that have started or ended, and says nothing of others.
    """

    ok: bool
    benign: bool = False
    detail: str = ""
    partial: bool = False


def read_answer(text: str) -> Said:
    """Judge the lines scontrol printed for one update, hold, release or requeue.

    An array answers per task ("47_2-9: No error"): it is a success if any task took the change
    and the others have started or ended. 25.11 leaves the tasks out that took it.
    """
    messages: list[str] = []
    done = False
    named = True
    for line in text.split("\n"):
        stripped = line.strip()
        if not stripped or (line.startswith("scontrol: ") and "error:" not in line):
            continue
        tasks = _TASKS.match(stripped)
        said = tasks[1] if tasks else _FOR_JOB.sub("", _PREFIX.sub("", stripped))
        if said == "No error":
            done = True
        else:
            messages.append(said)
            named = named and tasks is not None
    detail = "; ".join(dict.fromkeys(messages))
    benign = all(said.startswith(BENIGN) for said in messages)
    if not messages or (done and benign):
        return Said(True, detail=detail)
    return Said(False, benign, detail, named and benign)


def join(said: Sequence[Said]) -> Said:
    """One verdict for all commands of a patch."""
    failed = [one for one in said if not one.ok]
    detail = "; ".join(dict.fromkeys(one.detail for one in said if one.detail))
    return Said(
        not failed,
        bool(failed) and all(one.benign for one in failed),
        detail,
        bool(failed) and all(one.partial for one in failed),
    )
