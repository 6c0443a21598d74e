"""Snapshots without names: nothing is forgotten, nothing shines through, the plan is the same."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings

from slurm_ext.daemon.anonymise import KEEP, NOTE, ROLES, Renaming, anonymise
from slurm_ext.daemon.capture import Capture, load, save
from slurm_ext.engine.cycle import decide
from slurm_ext.engine.policy import Policy
from slurm_ext.engine.settings import Context, Memory
from slurm_ext.errors import SlurmExtError
from slurm_ext.model.annotation import Annotation
from slurm_ext.model.decision import Mode, Plan
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import JobKey, Request
from slurm_ext.model.ledger import LedgerEntry, UndoNote, with_note
from slurm_ext.model.observation import Observation, Partition, Reservation
from slurm_ext.model.plain import to_plain
from slurm_ext.topology.fabric import Rates
from slurm_ext.topology.fabric_text import parse_topology
from slurm_ext.topology.presets import PRESETS
from slurm_ext.topology.site import ShapeGroup, SiteTopology
from tests.builders import NOW, context, job, node, observation
from tests.property.test_decide import clusters

# -- every field ---------------------------------------------------------------------------


def is_record(hint: Any) -> bool:
    return isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields"))


def kinds_in(hint: Any) -> Iterator[type]:
    """Classes with fields that a hint can hold, and ``str`` for any text."""
    if get_origin(hint) in (Union, types.UnionType) or get_args(hint):
        for inner in get_args(hint):
            yield from kinds_in(inner)
    elif hint is str or (is_record(hint) and hint is not Policy):
        yield hint


def texts() -> set[tuple[str, str]]:
    """(class, field) of every field that can hold a text, from the roots down.

    The engine knows the topology as a protocol only, so it is a root of its own.
    """
    found, todo, done = set(), [Observation, Context, SiteTopology], set()
    while todo:
        kind = todo.pop()
        if kind in done:
            continue
        done.add(kind)
        given = {f.name for f in fields(kind) if f.init} if is_dataclass(kind) else None
        for name, hint in get_type_hints(kind).items():
            if given is not None and name not in given:
                continue  # worked out from the others
            for inner in kinds_in(hint):
                if inner is str:
                    found.add((kind.__name__, name))
                else:
                    todo.append(inner)
    return found


def test_every_text_has_a_role_and_every_role_a_text() -> None:
    assert set(ROLES) == texts()


def test_a_text_without_a_role_is_an_error() -> None:
    renaming = Renaming(roles={k: r for k, r in ROLES.items() if k != ("Job", "name")})
    with pytest.raises(SlurmExtError, match="without a role"):
        renaming.learn(observation([], [job(1)]))


# -- nothing shines through ----------------------------------------------------------------


def rich() -> tuple[Observation, Context]:
    """Every kind of name once, each holding the word ``secret``."""
    pinned = with_note("secret text", UndoNote(pinned="secret-n[1-2]", lease_until_s=NOW + 100))
    first = job(
        1, gpus=8, name="secret-job", user="secret-user", account="secret-account", qos="secret-q",
        partitions=("secret-part", "gpu"), comment="secret slurm_ext:off", admin_comment=pinned,
        reason_text="(ReqNodeNotAvail, UnavailableNodes:secret-n1)", dependency="afterok:secret",
        begin=NOW + 100,
    )  # fmt: skip
    second = job(
        2, partitions=("secret-part",),
        request=Request(gpus_per_node=2, features="secret-f&!other", required_nodes=("secret-n2",),
                        excluded_nodes=("secret-n1",)),
    )  # fmt: skip
    running = job(3, gpus=2, on={"secret-n1": 2}, reservation="secret-resv", uid=1234)
    nodes = [
        replace(node("secret-n1", used=range(2), features=["secret-f"]), reason="secret",
                partitions=("secret-part", "gpu"), reservation="secret-resv"),
        replace(node("secret-n2", features=["secret-f"]), partitions=("secret-part",)),
    ]  # fmt: skip
    obs = observation(
        nodes, [first, second, running],
        partitions=[Partition("secret-part", ("secret-n1", "secret-n2")),
                    Partition("gpu", ("secret-n1",))],
        reservations=[Reservation("secret-resv", NOW, NOW + 9, ("secret-n1",), users=("secret-u",),
                                  accounts=("secret-a",), partition="secret-part"),
                      Reservation("slurm_ext_2_9", NOW, NOW + 9, ("secret-n1",))],
        config={"slurmuser": "secret", "slurmctldhost": "secret"},
    )  # fmt: skip
    entry = LedgerEntry(first.key, "1", NOW + 100, pinned=("secret-n1", "secret-n2"),
                        planned_nodes=("secret-n1",))  # fmt: skip
    ctx = context(
        "multifactor", ledger={entry.key: entry}, partition_modes={"secret-part": Mode.ENFORCE},
        unmanaged_partitions=frozenset({"secret-other"}),
        memory=Memory(waste={"secret-part": 1}, broken={"gpu": NOW}, wanting={first.key: NOW}),
        annotations={second.key: Annotation(family="secret-family")},
        estimates={second.key: Estimate(1.0, 2.0, 3.0, 2.0, 5, "user")},
        topology=site("secret-n"),
    )  # fmt: skip
    return obs, ctx


def test_no_name_is_left() -> None:
    obs, ctx, _ = anonymise(*rich())
    text = json.dumps([to_plain(obs), to_plain(replace(ctx, policy=None))])  # type: ignore[arg-type]
    assert "secret" not in text
    assert "1234" not in text


def test_what_decides_is_left() -> None:
    obs, _, _ = anonymise(*rich())
    by_id = {j.job_id: j for j in obs.jobs}
    assert by_id[1].comment == "slurm_ext:off"
    assert by_id[2].request.features == "feature2&!feature1"
    assert by_id[2].request.required_nodes == ("node2",)
    assert {r.name for r in obs.reservations} == {"reservation1", "slurm_ext_2_9"}


# -- the same plan ---------------------------------------------------------------------------

PLAN_ROLES = {
    **ROLES,
    ("Plan", "policy"): KEEP,
    ("Plan", "unreserve"): "reservation",
    ("Plan", "modes"): "partition",
    ("Plan", "stats"): KEEP,
    ("Term", "name"): KEEP,
    ("Reason", "code"): KEEP,
    ("Reason", "facts"): KEEP,
    ("Reason", "would_change"): KEEP,
    ("JobPatch", "address"): KEEP,
    ("JobPatch", "required_nodes"): "node",
    ("JobPatch", "excluded_nodes"): "node",
    ("JobPatch", "admin_comment"): NOTE,
    ("JobPatch", "why"): KEEP,
    ("ReservationSpec", "name"): "reservation",
    ("ReservationSpec", "nodes"): "node",
    ("ReservationSpec", "users"): "user",
    ("ReservationSpec", "flags"): KEEP,
    ("Victim", "address"): KEEP,
    ("Victim", "nodes"): "node",
}


def numbers_only(plan: Plan) -> Plan:
    """Facts that are texts hold names; the codes and numbers are compared."""
    decisions = {
        key: replace(d, reasons=tuple(
            replace(r, facts=tuple(f for f in r.facts if not isinstance(f[1], str)))
            for r in d.reasons
        ))
        for key, d in plan.decisions.items()
    }  # fmt: skip
    return replace(plan, decisions=decisions)


def renamed(plan: Plan, names: Mapping[str, Mapping[str, str]]) -> Plan:
    found = Renaming(roles=PLAN_ROLES, names={k: dict(v) for k, v in names.items()})
    return numbers_only(found.apply(plan))


def same_names(names: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {c: {new: new for new in found.values()} for c, found in names.items()}


def assert_the_same_plan(obs: Observation, ctx: Context) -> None:
    masked_obs, masked_ctx, renaming = anonymise(obs, ctx)
    wanted = renamed(decide(obs, ctx).plan, renaming.names)
    found = renamed(decide(masked_obs, masked_ctx).plan, same_names(renaming.names))
    assert found == wanted


def test_a_rich_queue_is_decided_alike() -> None:
    assert_the_same_plan(*rich())


@settings(max_examples=80)
@given(clusters())
def test_any_queue_is_decided_alike(obs: Observation) -> None:
    assert_the_same_plan(obs, context("multifactor"))


# -- snapshots carry every field ---------------------------------------------------------------


def sample(hint: Any) -> Any:
    """A value of the type that is no default."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return sample(next(i for i in inner if i is not type(None)))
    if origin is tuple:
        return tuple(sample(i) for i in inner if i is not Ellipsis)
    if origin is frozenset:
        return frozenset({sample(inner[0])})
    if origin is not None and issubclass(origin, Mapping):
        return {sample(inner[0]): sample(inner[1])}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return list(hint)[-1]
    if is_record(hint):
        return hint(**{n: sample(h) for n, h in get_type_hints(hint).items()})
    return {bool: True, int: 7, float: 0.5, str: "x"}[hint]


def filled() -> Context:
    hints = get_type_hints(Context)
    values = {n: sample(h) for n, h in hints.items() if n not in ("policy", "topology")}
    return Context(policy=context("multifactor").policy, topology=site("n"), **values)


def site(name: str) -> SiteTopology:
    """Two nodes with islands of NVLinks, each under a switch of its own."""
    switches = "\n".join(
        [f"SwitchName={name}-s1 Nodes={name}1", f"SwitchName={name}-s2 Nodes={name}2",
         f"SwitchName={name}-top Switches={name}-s1,{name}-s2"]
    )  # fmt: skip
    shape = replace(PRESETS["dgx1-v100"].shape, source="secret")
    return SiteTopology((ShapeGroup((f"{name}1", f"{name}2"), shape),), parse_topology(switches),
                        Rates())  # fmt: skip


def test_every_field_of_the_context_is_in_the_snapshot(tmp_path: Any) -> None:
    ctx = filled()
    plain = Context(policy=ctx.policy)
    for f in fields(Context):
        if f.name != "policy":
            assert getattr(ctx, f.name) != getattr(plain, f.name), f"no sample for {f.name}"
    save(Capture(observation([node("n1")], [job(1)]), ctx), tmp_path / "s.json")
    assert load(tmp_path / "s.json").context == ctx


def test_parameters_of_the_policy_are_in_the_snapshot(tmp_path: Any) -> None:
    policy = context("multifactor").policy.with_parameters(
        {"weight_age": 9.0, "lane_gpus": 2, "count_on_signal": False}
    )
    ctx = replace(context("multifactor"), policy=policy)
    save(Capture(observation([node("n1")], [job(1)]), ctx), tmp_path / "s.json")
    assert load(tmp_path / "s.json").context.policy == policy


def test_estimates_and_attained_service_decide_again_alike(tmp_path: Any) -> None:
    obs = observation([node("n1")], [job(i, gpus=8, limit=9000) for i in (1, 2, 3)])
    known = Estimate(60.0, 60.0, 60.0, 60.0, 5, "user")
    ctx = context("multifactor", estimates={obs.jobs[2].key: known},
                  attained_gpu_s={JobKey(1, NOW - 1000): 5.0})  # fmt: skip
    save(Capture(obs, ctx), tmp_path / "s.json.gz")
    found = load(tmp_path / "s.json.gz")
    assert found.decide().plan == decide(obs, ctx).plan
    assert found.decide().plan.order[0].job_id == 3
