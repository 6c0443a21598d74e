"""The catalogue of sentences, and the account of a job."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from string import Formatter

import pytest
from hypothesis import given, settings

import slurm_ext
from slurm_ext.engine.account import decisive, factors, shapes
from slurm_ext.engine.cycle import Step, decide
from slurm_ext.engine.explain import SENTENCES, sentence
from slurm_ext.engine.settings import Context
from slurm_ext.model.decision import Decision, Reason, Stage
from slurm_ext.model.job import Request
from slurm_ext.model.observation import Observation
from tests.builders import NOW, context, job, node, observation
from tests.property.test_decide import clusters

ROOT = Path(slurm_ext.__file__).parent
SOURCES = sorted([*(ROOT / "engine").rglob("*.py"), *(ROOT / "daemon").glob("*.py")])

FACTS_OF_VARIABLE_CODES = {
    # view._special and preempt._why choose among codes, and give all of these facts
    "view.py": {"detail", "reason"},
    "preempt.py": {"victims", "cost_gpu_s", "gain_gpu_s", "min_gain"},
}


def calls() -> Iterator[tuple[str, str | None, set[str]]]:
    """(file, code or None if it is no literal, names of the facts given)."""
    for path in SOURCES:
        for found in ast.walk(ast.parse(path.read_text())):
            if not isinstance(found, ast.Call) or not isinstance(found.func, ast.Name):
                continue
            if found.func.id in ("reason", "_reason") and found.args:
                first = found.args[0]
                code = first.value if isinstance(first, ast.Constant) else None
                yield path.name, code, {k.arg for k in found.keywords if k.arg}


def needed(code: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(SENTENCES[code]) if name}


LITERAL = [c for c in calls() if c[1] is not None]


@pytest.mark.parametrize(("file", "code", "given_facts"), LITERAL)
def test_every_code_has_a_sentence_and_all_its_facts(
    file: str, code: str, given_facts: set[str]
) -> None:
    assert code in SENTENCES, f"{file}: {code}"
    assert needed(code) <= given_facts


def test_every_sentence_is_used_and_its_facts_exist_somewhere() -> None:
    literal = {code for _, code, _ in LITERAL}
    texts: dict[str, set[str]] = {}
    for path in SOURCES:
        if path.name != "explain.py":
            for found in ast.walk(ast.parse(path.read_text())):
                if isinstance(found, ast.Constant) and isinstance(found.value, str):
                    texts.setdefault(found.value, set()).add(path.name)
    for code in set(SENTENCES) - literal:
        files = texts.get(code, set()) & set(FACTS_OF_VARIABLE_CODES)
        assert files, f"{code} is never used"
        assert any(needed(code) <= FACTS_OF_VARIABLE_CODES[f] for f in files)


@pytest.mark.parametrize("code", sorted(SENTENCES))
def test_a_sentence_reads_as_one(code: str) -> None:
    facts = dict.fromkeys(needed(code), 7)
    text = sentence(Reason(code, Stage.VIEW, tuple(facts.items())))
    assert "{" not in text
    assert text.strip() == text
    assert not text.endswith(".")


def test_a_missing_fact_never_raises() -> None:
    assert "gpus_busy" in sentence(Reason("gpus_busy", Stage.PLACE))
    assert sentence(Reason("no_such_code", Stage.PLACE)) == "no_such_code"


@settings(max_examples=150)
@given(clusters())
def test_every_decision_can_be_told(obs: Observation) -> None:
    for decision in decide(obs, context("multifactor")).plan.decisions.values():
        for why in decision.reasons:
            assert needed(why.code) <= set(dict(why.facts))


# -- neighbours --------------------------------------------------------------------------


def ranked(obs: Observation, ctx: Context) -> tuple[Step, list[Decision]]:
    step = decide(obs, ctx)
    return step, [step.plan.decisions[k] for k in step.plan.order]


def test_the_factor_that_decides_is_named() -> None:
    jobs = [job(1, gpus=8, limit=90_000, submit=NOW - 5000), job(2, gpus=1, limit=60)]
    obs, ctx = observation([node("n1")], jobs), context("multifactor")
    step, (first, second) = ranked(obs, ctx)
    made_of = factors(obs, ctx, step.plan.order)
    found = decisive(first, second, made_of)
    assert (first.key.job_id, found.term, found.factor) == (2, "neg_score", "short")
    assert found.ahead > found.behind


def test_the_term_that_decides_is_named_where_nothing_is_summed() -> None:
    jobs = [job(1, limit=90), job(2, limit=60)]
    obs, ctx = observation([node("n1")], jobs), context("sjf")
    step, (first, second) = ranked(obs, ctx)
    assert factors(obs, ctx, step.plan.order) == {}
    assert decisive(first, second, {}).term == "expected_s"


def test_equal_jobs_go_by_id() -> None:
    obs, ctx = observation([node("n1")], [job(1), job(2)]), context("fifo")
    _, (first, second) = ranked(obs, ctx)
    assert decisive(first, second, {}).term == "job"


@settings(max_examples=100)
@given(clusters())
def test_factors_explain_the_order_they_are_shown_for(obs: Observation) -> None:
    ctx = context("multifactor")
    step, decisions = ranked(obs, ctx)
    made_of = factors(obs, ctx, step.plan.order)
    scores = [sum(f.contribution for f in made_of[d.key]) for d in decisions]
    assert scores == pytest.approx([-dict(d.terms)["neg_score"] for d in decisions])
    assert scores == sorted(scores, reverse=True)


# -- room by kind of node ----------------------------------------------------------------


def test_room_is_told_by_kind_of_node() -> None:
    nodes = [
        node("n1", used=range(6), cpus_used=6), node("n2"), node("n3", gpus=4, type="v100"),
        node("n4", states=("DOWN",)),
    ]  # fmt: skip
    jobs = [job(9, on={"n1": 6}, cpus=6), job(1, gpus=8, submit=NOW - 2000), job(2, gpus=4)]
    obs, ctx = observation(nodes, jobs), context("fifo")
    step = decide(obs, ctx)
    found = {tuple(s.gpus): s for s in shapes(obs, ctx, step.plan, jobs[2])}
    big, small = found[("a100",)], found[("v100",)]
    assert (big.nodes, big.usable, big.fit, big.could, big.best_gpus) == (3, 2, 0, 3, 2)
    assert (small.nodes, small.fit, small.could) == (1, 1, 1)


def test_a_type_the_job_does_not_ask_for_could_never_hold_it() -> None:
    nodes = [node("n1"), node("n2", gpus=4, type="v100")]
    obs, ctx = observation(nodes, [job(1, gpus=2, type="a100")]), context("fifo")
    found = shapes(obs, ctx, decide(obs, ctx).plan, obs.jobs[0])
    assert [(s.fit, s.could) for s in found] == [(1, 1), (0, 0)]


def test_gathered_gpus_are_looked_for_in_even_shares() -> None:
    nodes = [node("n1", used=range(3), cpus_used=3), node("n2")]
    waiting = job(1, request=Request(gpus_total=12, nodes_max=None))
    obs = observation(nodes, [job(9, on={"n1": 3}, cpus=3), waiting])
    ctx = replace(context("fifo"))
    (found,) = shapes(obs, ctx, decide(obs, ctx).plan, waiting)
    assert (found.fit, found.could) == (1, 2)
