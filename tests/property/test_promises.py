"""Promises, played forward: what decide() starts, starts; jobs end at their limit or before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.engine.cycle import Step, decide
from slurm_ext.engine.settings import BackfillSettings, Context, Memory
from slurm_ext.model.decision import Mode, Plan, Verdict
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import BaseState, Job, JobKey, JobState
from slurm_ext.model.node import Node
from slurm_ext.model.observation import Observation
from slurm_ext.model.units import mask_of
from tests.builders import NOW, context, job, node, observation

STEP_S = 10
RUNNING = JobState(BaseState.RUNNING)


@dataclass
class Play:
    """A cluster whose jobs do what they are told; one cycle each ``STEP_S``.

    ``runs``: true run time of each job, at most its limit.
    """

    nodes: list[Node]
    waiting: list[Job]
    runs: dict[JobKey, int]
    ctx: Context
    running: dict[JobKey, Job] = field(default_factory=dict)
    now_s: int = NOW
    started: dict[JobKey, int] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    seen: Observation = field(init=False)

    def cycle(self) -> Step:
        for key, one in list(self.running.items()):
            assert one.start_s is not None
            if one.start_s + self.runs[key] <= self.now_s:
                del self.running[key]
        obs = self.seen = self.look()
        step = decide(obs, replace(self.ctx, memory=self.memory))
        self.memory = step.memory
        for key, decision in step.plan.decisions.items():
            if decision.verdict is Verdict.START:
                assert decision.placement is not None
                self.start(key, decision.placement.shares)
        self.now_s += STEP_S
        return step

    def look(self) -> Observation:
        used = {n.name: [0, 0, 0, 0] for n in self.nodes}
        for one in self.running.values():
            for share in one.alloc:
                here = used[share.node]
                here[0] |= share.gpu_mask
                here[1] += share.cpus
                here[2] += share.mem_mib
        nodes = [
            replace(n, gpu_used=used[n.name][0], gpu_used_count=used[n.name][0].bit_count(),
                    cpus_alloc=used[n.name][1], mem_alloc_mib=used[n.name][2])
            for n in self.nodes
        ]  # fmt: skip
        return observation(nodes, [*self.running.values(), *self.waiting], now=self.now_s)

    def start(self, key: JobKey, shares: Iterable) -> None:  # type: ignore[type-arg]
        one = next(j for j in self.waiting if j.key == key)
        self.waiting.remove(one)
        assert one.limit_s is not None
        self.running[key] = replace(one, state=RUNNING, alloc=tuple(shares), start_s=self.now_s,
                                    end_s=self.now_s + one.limit_s)  # fmt: skip
        self.started[key] = self.now_s
        for share in shares:
            assert share.gpu_mask == 0 or not share.gpu_mask & ~mask_of(range(8))

    def play(self, cycles: int = 60) -> list[Plan]:
        plans = []
        while self.waiting and len(plans) < cycles:
            plans.append(self.cycle().plan)
        return plans


@st.composite
def plays(draw: st.DrawFn, kinds: Sequence[str], newcomers: bool = False) -> Play:
    """Full cluster, a queue of all sizes; times are multiples of the step, as limits are."""
    nodes = [node(f"n{i}", gpus=4, cpus=8, mem=800) for i in range(draw(st.integers(1, 3)))]
    jobs, runs = [], {}
    for i in range(1, draw(st.integers(3, 14)) + 1):
        limit = STEP_S * draw(st.integers(1, 12))
        wide = draw(st.integers(1, len(nodes)))
        jobs.append(
            job(i, gpus=draw(st.integers(0, 4)), nodes=wide, cpus=wide * draw(st.integers(1, 6)),
                mem=draw(st.sampled_from([10, 300])), limit=limit, submit=NOW - 100 + i)
        )  # fmt: skip
        early = draw(st.booleans())
        runs[jobs[-1].key] = STEP_S * draw(st.integers(1, limit // STEP_S)) if early else limit
    kind = draw(st.sampled_from(list(kinds)))
    backfill = BackfillSettings(kind=kind, fences=draw(st.integers(1, 4)), depth=20, max_slip_s=40)
    return Play(nodes, jobs, runs, context(mode=Mode.OBSERVE, backfill=backfill))


@settings(max_examples=60)
@given(plays(["easy", "conservative", "slack"]))
def test_no_promise_is_broken_while_limits_hold(play: Play) -> None:
    """Jobs may end early; nobody comes in between. The bound with slack is the latest start."""
    promised: dict[JobKey, int] = {}
    for plan in play.play():
        for fence in plan.fences:
            promised[fence.key] = min(fence.held_s, promised.get(fence.key, fence.held_s))
    late = {k: (play.started[k], s) for k, s in promised.items() if play.started.get(k, 0) > s}
    assert not late


@settings(max_examples=40)
@given(plays(["conservative"]), st.integers(0, 5), st.integers(1, 4))
def test_conservative_delays_nobody_for_a_newcomer(play: Play, at: int, gpus: int) -> None:
    """Not even for one that the policy puts in front."""
    promised: dict[JobKey, int] = {}
    for number in range(60):
        if number == at:
            urgent = job(99, gpus=gpus, limit=70, submit=NOW - 9999)
            play.waiting.append(urgent)
            play.runs[urgent.key] = 70
        for fence in play.cycle().plan.fences:
            promised[fence.key] = min(fence.held_s, promised.get(fence.key, fence.held_s))
        if not play.waiting:
            break
    assert {k: s for k, s in promised.items() if play.started.get(k, 0) > s} == {}


def without_mix(ctx: Context) -> Context:
    """Placement that does not go by the mix of jobs, to which the last one belongs, too."""
    return replace(ctx, policy=ctx.policy.with_parameters({"placement.fragmentation.weight": 0.0}))


@settings(max_examples=40)
@given(plays(["easy", "conservative"]))
def test_whoever_is_behind_changes_nothing_ahead(play: Play) -> None:
    """One decision of all kinds: the queue cut off after each job decides the same for those left.

    With easy only ahead of the last promise, since only so many jobs get one. The mix of jobs, in
    which those behind count as well, is left out of the placement.
    """
    play.ctx = without_mix(play.ctx)
    whole = decide(play.look(), play.ctx).plan
    for count in range(1, len(play.waiting)):
        part = decide(replace(play, waiting=play.waiting[:count]).look(), play.ctx).plan
        for one in play.waiting[:count]:
            assert part.decisions[one.key].start_s == whole.decisions[one.key].start_s


@settings(max_examples=40)
@given(plays(["easy", "conservative", "slack"]), st.data())
def test_nothing_is_oversubscribed_at_any_time(play: Play, data: st.DataObject) -> None:
    """All that runs, starts and is promised, second by second of the plan."""
    for _ in range(data.draw(st.integers(1, 6))):
        plan = play.cycle().plan
        obs = play.seen
        jobs = {j.key: j for j in obs.jobs}
        spans = [(j.alloc, j.start_s, j.end_s) for j in obs.jobs if j.state.occupies]
        for key, decision in plan.decisions.items():
            if decision.verdict is Verdict.START:
                assert decision.placement is not None
                spans.append((decision.placement.shares, obs.now_s, obs.now_s + jobs[key].limit_s))  # type: ignore[operator]
        for key, promise in play.memory.promises.items():
            if any(f.key == key for f in plan.fences):
                held_s = max(promise.held_s, obs.now_s)
                spans.append((promise.shares, held_s, held_s + jobs[key].limit_s))  # type: ignore[operator]
        for at_s in {start for _, start, _ in spans if start is not None}:
            for n in play.nodes:
                here = [s for shares, start, end in spans if start <= at_s < end  # type: ignore[operator]
                        for s in shares if s.node == n.name]  # fmt: skip
                assert sum(s.gpus for s in here) <= n.gpu_count
                assert sum(s.cpus for s in here) <= n.cpus
                assert sum(s.mem_mib for s in here) <= n.mem_mib


def predicted(play: Play, durations: str) -> Play:
    """With predictions of a tenth of the limits, in whole steps: cycles come only then."""
    estimates = {}
    for one in play.waiting:
        assert one.limit_s is not None
        low = float(STEP_S * -(-one.limit_s // (10 * STEP_S)))
        estimates[one.key] = Estimate(low / 2, low, 2 * low, low, 5, "user")
    backfill = replace(play.ctx.backfill, durations=durations)
    play.ctx = replace(play.ctx, estimates=estimates, backfill=backfill)
    return play


@settings(max_examples=40)
@given(plays(["easy", "conservative", "slack"]), st.sampled_from(["p50", "p90"]))
def test_predictions_never_starve_a_promised_job(play: Play, durations: str) -> None:
    """However wrong they are, everybody has started when all limits in a row have passed."""
    work_s = sum(j.limit_s or 0 for j in play.waiting)
    predicted(play, durations).play(work_s // STEP_S + 1)
    assert not play.waiting


@settings(max_examples=60)
@given(plays(["easy", "conservative", "slack"]), st.sampled_from(["p50", "p90"]))
def test_all_who_pass_together_put_nobody_off_beyond_the_slip(play: Play, durations: str) -> None:
    """However many pass and however wrong the predictions are, a job starts by its bound."""
    predicted(play, durations)
    bounds: dict[JobKey, int] = {}
    while play.waiting:
        play.cycle()
        for key, promise in play.memory.promises.items():
            assert promise.bound_s
            bounds.setdefault(key, promise.bound_s)
    assert {k: (play.started[k], s) for k, s in bounds.items() if play.started[k] > s} == {}


@settings(max_examples=20)
@given(plays(["easy", "conservative", "slack"]), st.sampled_from(["p50", "p90"]))
def test_the_bound_is_the_slip_or_what_runs_already(play: Play, durations: str) -> None:
    """When the first promise is made: no later than the slip, or than all that runs at its limit
    allows."""
    predicted(play, durations)
    seen: set[JobKey] = set()
    while play.waiting:
        head = {f.key for f in play.cycle().plan.fences[:1]}
        for key in head & (play.memory.promises.keys() - seen):
            promise = play.memory.promises[key]
            ends = [j.end_s for j in play.running.values() if j.end_s is not None]
            slipped = max(promise.held_s, promise.first_s + play.ctx.backfill.max_slip_s)
            assert slipped <= promise.bound_s <= max([slipped, *ends])
        seen |= play.memory.promises.keys()


@settings(max_examples=100)
@given(plays(["easy", "conservative"]), st.data())
def test_asking_for_less_never_starts_later(play: Play, data: st.DataObject) -> None:
    """For the last job of the queue: nobody behind it could be helped by its asking for more.

    With the mix of jobs in the placement it can: who asks for less changes where others are put.
    """
    last = play.waiting[-1]
    request = last.request
    assert last.limit_s is not None
    nodes = data.draw(st.integers(1, request.nodes_min))
    less = replace(
        request,
        nodes_min=nodes, nodes_max=nodes, tasks=nodes,
        gpus_per_node=data.draw(st.integers(0, request.gpus_per_node)),
        cpus=nodes * data.draw(st.integers(1, request.cpus // request.nodes_min)),
        mem_per_node_mib=data.draw(st.integers(1, request.mem_per_node_mib)),
    )  # fmt: skip
    limit_s = data.draw(st.integers(1, last.limit_s))
    other = replace(last, request=less, limit_s=limit_s)
    # Everybody is promised a start, so that also jobs that wait have one to compare.
    ctx = replace(without_mix(play.ctx), backfill=replace(play.ctx.backfill, fences=20))
    asked = decide(play.look(), ctx).plan.decisions[last.key]
    changed = replace(play, waiting=[*play.waiting[:-1], other])
    found = decide(changed.look(), ctx).plan.decisions[last.key]
    assert asked.start_s is not None
    assert found.start_s is not None
    assert found.start_s <= asked.start_s
