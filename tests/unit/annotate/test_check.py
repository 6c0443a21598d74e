"""From a comment to an annotation, and what is said of a bad one."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from slurm_ext.annotate.check import understand
from slurm_ext.annotate.schema import KEYS, SCHEMA
from slurm_ext.annotate.text import find, render, with_annotation
from slurm_ext.model.annotation import Annotation, Checkpoint, Scaling, Sensitivity, Speed

EVERYTHING = {
    "version": 1,
    "scaling": "elastic",
    "gpus": "1..8",
    "sizes": "any",
    "logical_workers": 8,
    "signal": "SIGUSR1",
    "signal_to": "steps",
    "grace": "2m",
    "checkpoint_every": "01:30:00",
    "restart_cost": 45,
    "preemptible": True,
    "deadline": "2026-12-01T08:00:00Z",
    "family": "resnet-50",
    "work": "90k",
    "speed": {"2": 13.9, "1": 7.2},
    "sensitivity": "image",
    "cpus_per_gpu": 6,
    "mem_per_gpu": "1.5T",
    "communication": "heavy",
    "model_size": "400M",
    "locality": "island",
    "gpu_mem": "16G",
    "debug": False,
}
UNDERSTOOD = Annotation(
    scaling=Scaling("elastic", 1, 8, powers_of_two=False, logical_workers=8),
    checkpoint=Checkpoint("USR1", "steps", 120, 5400, 45),
    speed=Speed(table=((1, 7.2), (2, 13.9))),
    sensitivity=Sensitivity("image", 6, 1536 * 1024),
    preemptible=True,
    deadline_s=1796112000,
    family="resnet-50",
    work=90_000.0,
    communication="heavy",
    model_mib=400,
    locality="island",
    gpu_mem_mib=16 * 1024,
)


def annotation(body: str) -> Annotation:
    found = understand(f"slurm_ext:{body}")
    assert found.annotation is not None, found.problems
    return found.annotation


def test_json_and_shorthand_mean_the_same() -> None:
    assert annotation(json.dumps(EVERYTHING)) == UNDERSTOOD
    assert annotation(render(EVERYTHING)) == UNDERSTOOD


def test_the_example_names_every_key_but_the_other_curve() -> None:
    assert set(EVERYTHING) == set(KEYS) - {"theta"}


def test_the_defaults_are_those_of_a_plain_job() -> None:
    assert annotation("version=1") == Annotation()


def test_the_defaults_in_the_schema_are_those_of_the_model() -> None:
    given = {key: part["default"] for key, part in KEYS.items() if part["default"] != ""}
    del given["deadline"]  # 0 is no moment
    del given["debug"]
    assert annotation(render(given)) == Annotation()


def test_the_schema_is_a_schema_with_a_description_for_every_key() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert all(part["description"] and part["x-why"] for part in KEYS.values())


@pytest.mark.parametrize(
    ("body", "field", "value"),
    [
        ("grace=90,signal=USR1", "checkpoint.grace_s", 90),
        ("grace=1.5m,signal=USR1", "checkpoint.grace_s", 90),
        ("checkpoint_every=2h", "checkpoint.interval_s", 7200),
        ("checkpoint_every=1-00:00:01", "checkpoint.interval_s", 86401),
        ("restart_cost=0", "checkpoint.restart_s", 0),
        ("gpu_mem=512", "gpu_mem_mib", 512),
        ("gpu_mem=1k", "gpu_mem_mib", 1),
        ("gpu_mem=16GiB", "gpu_mem_mib", 16384),
        ("work=1.5M", "work", 1_500_000.0),
        ("deadline=1796112000", "deadline_s", 1796112000),
        ("deadline=2026-12-01T10:00:00+02:00", "deadline_s", 1796112000),
        ("scaling=moldable,gpus=4", "scaling.max_gpus", 4),
        ("theta=138/0/0/8.5", "speed.theta", (138.0, 0.0, 0.0, 8.5)),
        ("preemptible,checkpoint_every=1m", "preemptible", True),
        ("debug=yes", "debug", True),
        ('{"cpus_per_gpu": 4.0}', "sensitivity.cpus_per_gpu", 4),
        ('{"gpu_mem": 512.0}', "gpu_mem_mib", 512),
    ],
)
def test_human_forms(body: str, field: str, value: object) -> None:
    found: object = annotation(body)
    for name in field.split("."):
        found = getattr(found, name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ("scalling=elastic", "unknown_key", "did you mean scaling?"),
        ("min_gpus=1", "unknown_key", "did you mean gpus?"),
        ("xyzzy=1", "unknown_key", "keys are version, scaling"),
        ("scaling=elstic", "value", "did you mean elastic?"),
        ("grace=2hours,signal=USR1", "value", "90s, 30m, 2h"),
        ("grace=2d,signal=USR1", "range", "1 to 3600 seconds"),
        ("signal=KILL", "value", "can be caught"),
        ("signal=USR1&scontrol", "value", "can be caught"),
        ("gpus=1..8", "pointless", "scaling=elastic"),
        ("scaling=moldable", "missing", "gpus=MIN..MAX"),
        ("scaling=moldable,gpus=8..1", "range", "gpus=1..8"),
        ("scaling=moldable,gpus=0..8", "value", "1..8"),
        ("scaling=moldable,gpus=5..7", "no_count", "sizes=any"),
        ("scaling=moldable,gpus=3..8,logical_workers=3", "no_count", "sizes=any"),
        ("scaling=elastic,gpus=1..8", "missing", "signal=USR1"),
        ("speed=1:2,theta=1/0/0/0", "contradiction", "keep one"),
        ("speed=1:2/1:3", "value", "1:7.2/2:13.9"),
        ("speed=1:0", "value", "1:7.2/2:13.9"),
        ("speed=1:1e999", "value", "1:7.2/2:13.9"),
        ("theta=0/0/0/0", "value", "not all 0"),
        ("theta=nan/0/0/0", "value", "not all 0"),
        ("deadline=tomorrow", "value", "2026-12-01T08:00"),
        ("deadline=2026-13-01", "value", "2026-12-01T08:00"),
        ("deadline=0001-01-01", "value", "2026-12-01T08:00"),
        ("family=$(id)", "value", "letters, digits"),
        ("work=-5", "value", "90000"),
        ("version=2", "value", "write 1"),
        ("debug=perhaps", "value", "true or false"),
        ("grace", "pair", "key=value"),
        ("", "empty", "key=value"),
        (",".join(f"k{i}=1" for i in range(33)), "too_many", "32 keys"),
        (json.dumps({f"k{i}": 1 for i in range(33)}), "too_many", "32 keys"),
        ("debug,debug", "repeated", "keep one"),
        ('{"debug": true,}', "json", "double quotes"),
        ('{"debug": true', "json", "double quotes"),
        ('{"debug": "true"}', "value", "true or false"),
        ('{"work": NaN}', "number", "finite"),
        ('{"work": 1e999}', "value", "90000"),
        ('{"work": true}', "value", "90000"),
        ('{"debug": true, "debug": true}', "repeated", "keep one"),
        ('{"speed": {"1": {"2": 3}}}', "too_deep", "2 levels"),
        ("{" * 900, "too_deep", "2 levels"),
        ("{}", "empty", "key=value"),
        ('{"family": "\\u001b[31m"}', "value", "letters"),
        ("family=" + "x" * 1100, "too_long", "shorten"),
    ],
)
def test_a_bad_annotation_is_named_and_not_used(body: str, code: str, says: str) -> None:
    found = understand(f"slurm_ext:{body}")
    assert found.annotation is None
    assert code in [p.code for p in found.errors]
    assert any(says in str(p) for p in found.errors), [str(p) for p in found.errors]


def test_every_fault_is_named_at_once_where_it_is() -> None:
    comment = "x slurm_ext:scalling=elastic,grace=soon"
    places = {p.key: comment[p.at :] for p in understand(comment).errors}
    assert places == {"scalling": "scalling=elastic,grace=soon", "grace": "grace=soon"}


def test_json_faults_have_a_place_too() -> None:
    comment = 'x slurm_ext:{"work": 5, "debgu": true}'
    (problem,) = understand(comment).errors
    assert comment[problem.at :].startswith('"debgu"')


@pytest.mark.parametrize(
    "body", ["preemptible=true", "debug=true,grace=1m", "debug=true,sizes=any"]
)
def test_warnings_leave_it_in_use(body: str) -> None:
    found = understand(f"slurm_ext:{body}")
    assert found.annotation is not None
    assert [p.error for p in found.problems] == [False]


@pytest.mark.parametrize(
    ("comment", "body"),
    [
        ("slurm_ext:debug", "debug"),
        ("project x, slurm_ext:debug=true;other", "debug=true"),
        ("(slurm_ext:debug)", "debug"),
        ('a slurm_ext:{"family": "}x\\"{", "work": 1} b', '{"family": "}x\\"{", "work": 1}'),
        ("slurm_ext:off slurm_ext:debug", "debug"),
    ],
)
def test_foreign_text_is_not_read(comment: str, body: str) -> None:
    found = find(comment)
    assert found.body == body
    assert with_annotation(comment, "work=1") == comment.replace(body, "work=1")


@pytest.mark.parametrize("comment", ["", "plain", "myslurm_ext:debug", "slurm_ext", "slurm_ext;x"])
def test_a_comment_without_one_is_plain(comment: str) -> None:
    assert understand(comment).problems == ()
    assert understand(comment).annotation is None


def test_two_annotations_are_one_too_many() -> None:
    assert [p.code for p in understand("slurm_ext:debug slurm_ext:work=1").errors] == ["twice"]


def test_the_opt_out_is_no_annotation() -> None:
    found = understand("x slurm_ext:off")
    assert found.off
    assert found.problems == ()


def test_an_annotation_is_added_after_foreign_text() -> None:
    assert with_annotation("mine", "debug=true") == "mine slurm_ext:debug=true"
    assert with_annotation(" ", "debug=true") == "slurm_ext:debug=true"
