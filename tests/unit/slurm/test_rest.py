"""Looks through slurmrestd: recorded answers of each version, and a server that misbehaves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.model.job import JobKey, SlurmFactors
from slurm_ext.model.observation import Observation
from slurm_ext.slurm import json_nodes
from slurm_ext.slurm.cli import CliSlurm
from slurm_ext.slurm.json import parse_jobs
from slurm_ext.slurm.priorities import ARGUMENTS
from slurm_ext.slurm.rest import RestOptions, RestSlurm
from slurm_ext.slurm.rest_token import Token
from slurm_ext.slurm.run import Answer, Runner

from .recorded import VERSIONS, document, text
from .restd import Behaviour, Request, Restd, Send, api, reply, serving

API = {"22.05": 38, "24.11": 42, "25.11": 44, "26.05": 44}
NOW = 1796050557
PARTITION = "PartitionName=gpu\n   MaxTime=UNLIMITED\n   Nodes=n[1-2]\n   State=UP\n"


class Commands(Runner):
    """What the API lacks, recorded."""

    def __init__(self, version: str = "22.05") -> None:
        super().__init__(environ={})
        self.version = version

    def run(self, argv: Sequence[str], **_: Any) -> Answer:
        said = {
            ("show", "config"): text(self.version, "scontrol-config.txt"),
            ("show", "partition"): PARTITION,
            ("show", "reservation"): text(self.version, "scontrol-reservation.txt"),
            ARGUMENTS[-2:]: "13 500 0 0.25 0 0 0 0\n",
        }[tuple(argv[-2:])]  # type: ignore[index]
        return Answer(said, "", 0, 0.0)


def diag(jobs: int = 9, at_s: int = NOW, **more: Any) -> dict[str, Any]:
    return {"statistics": {"req_time": at_s, "jobs_pending": jobs, "jobs_running": 0, **more}}


def tables(version: str = "22.05") -> dict[str, Any]:
    """The last parts of the paths, and what the recordings of that version answer there."""
    nodes = "sinfo.json" if version == "22.05" else "scontrol-node.json"
    found = {
        "diag": diag(),
        "jobs": document(version, "squeue.json"),
        "nodes": document(version, nodes),
    }
    if version != "22.05":
        found["partitions"] = document(version, "scontrol-partition.json")
        found["reservations"] = document(version, "scontrol-reservation.json")
    return found


class Site:
    """A slurmrestd and the adapter that asks it; each token given out is another one."""

    def __init__(self, restd: Restd) -> None:
        self.restd = restd
        self.tokens = 0
        self.slurm = self.adapter()

    def adapter(self, version: str = "22.05") -> RestSlurm:
        commands = Commands(version)
        token = Token(self._token, "operator")
        options = RestOptions(self.restd.url, max_jobs=100)
        return RestSlurm(options, token, commands, CliSlurm(runner=commands))

    def _token(self) -> str:
        self.tokens += 1
        return f"secret{self.tokens}"

    def failure(self) -> str:
        with pytest.raises(SlurmUnavailableError) as caught:
            self.slurm.observe()
        assert "secret" not in str(caught.value)
        return str(caught.value)


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(api(tables())) as restd:
        yield Site(restd)


def says(status: int, value: dict[str, Any] | None = None) -> Behaviour:
    return api(dict.fromkeys(("diag", "jobs", "nodes"), status if value is None else value))


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_is_read_as_its_json_is(site: Site, version: str) -> None:
    site.restd.behave = api(tables(version), API[version])
    slurm = site.adapter(version)
    seen: Observation = slurm.observe()
    assert slurm.api == f"v0.0.{API[version]}"
    assert list(seen.jobs) == parse_jobs(document(version, "squeue.json"), NOW)[0]
    nodes = json_nodes.parse_nodes(tables(version)["nodes"])[0]
    assert [node.name for node in seen.nodes] == [node.name for node in nodes]
    assert (seen.now_s, seen.partitions[0].name) == (NOW, "gpu")
    assert seen.controller.value("SelectType") == "select/cons_tres"


def test_site_factors_come_from_sprio(site: Site) -> None:
    seen = site.slurm.observe(site_factors=True)
    job = next(job for job in seen.jobs if job.job_id == 13)
    assert job.site_factor == 500
    assert job.factors == SlurmFactors(fair_share=0.25)


def test_jobs_that_did_not_change_are_kept_but_time_goes_on(site: Site) -> None:
    first = site.slurm.observe()
    waits = next(job for job in first.jobs if job.begin_s)
    later = (waits.begin_s or 0) + 10
    site.restd.behave = api({**tables(), "jobs": 304, "diag": diag(at_s=later)})
    seen = {job.job_id: job for job in site.slurm.observe().jobs}
    assert len(seen) == len(first.jobs)
    assert seen[waits.job_id].begin_s is None
    assert f"/slurm/v0.0.38/jobs?update_time={NOW}" in site.restd.paths


@pytest.mark.parametrize(
    "answer",
    [
        {"warnings": [{"description": "No change in data since last update"}]},
        {
            # v0.0.44 of 25.11.7
            "last_update": {"set": True, "infinite": False, "number": 0},
            "warnings": [
                {
                    "description": "No job changes since update_time[1796089153]="
                    "2026-12-01T01:39:13",
                    "source": "op_handler_jobs",
                }
            ],
        },
        {"last_update": {"set": True, "infinite": False, "number": 0}, "warnings": []},
    ],
)
def test_newer_versions_say_no_change_in_a_warning(site: Site, answer: dict[str, Any]) -> None:
    first = site.slurm.observe()
    assert first.jobs
    site.restd.behave = api({**tables(), "jobs": {"jobs": [], "errors": [], **answer}})
    assert site.slurm.observe().jobs == first.jobs


@pytest.mark.parametrize("last", [{}, {"last_update": {"set": True, "number": NOW}}])
def test_an_empty_queue_is_not_taken_for_no_change(site: Site, last: dict[str, Any]) -> None:
    site.slurm.observe()
    site.restd.behave = api({**tables(), "jobs": {"jobs": [], "warnings": [], **last}})
    assert site.slurm.observe().jobs == ()


def test_a_long_queue_is_refused_before_it_is_asked_for(site: Site) -> None:
    site.restd.behave = api({**tables(), "diag": diag(jobs=101)})
    assert "101 jobs are too many for v0.0.38 (at most 100)" in site.failure()
    assert not any("/jobs" in path for path in site.restd.paths)


def test_a_token_that_has_ended_is_renewed_within_the_call(site: Site) -> None:
    good = api(tables())

    def behave(request: Request, send: Send, over: Any) -> None:
        old = request.headers["X-SLURM-USER-TOKEN"] == "secret1"
        send(reply(401, b"Authentication failure")) if old else good(request, send, over)

    site.restd.behave = behave
    assert site.slurm.observe().jobs
    assert site.restd.seen[-1].headers["X-SLURM-USER-NAME"] == "operator"
    assert site.tokens == 2


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_is_refused(site: Site, status: int) -> None:
    site.restd.behave = lambda _, send, __: send(reply(status, b"no"))
    assert "the token is refused" in site.failure()
    assert len(site.restd.seen) == 2


def test_a_garbage_token_as_22_05_answers_it(site: Site) -> None:
    site.restd.behave = says(200, {"errors": [{"description": "Failed while looking for jobs"}]})
    assert "Failed while looking for jobs" in (said := site.failure())
    assert "is the token right" in said
    site.restd.behave = api(tables())
    assert site.slurm.observe().jobs
    assert site.tokens == 2  # the next look asks for another token


def test_an_error_beside_the_jobs_is_an_error(site: Site) -> None:
    broken = {**document("22.05", "squeue.json"), "errors": [{"error": "half of it"}]}
    site.restd.behave = api({**tables(), "jobs": broken})
    assert "half of it" in site.failure()


def test_a_server_of_another_version_is_found_out(site: Site) -> None:
    site.slurm.observe()
    site.restd.behave = api(tables("24.11"), 42)
    assert site.slurm.observe().jobs
    assert site.slurm.api == "v0.0.42"


def test_the_newest_version_both_know_is_used(site: Site) -> None:
    site.restd.behave = api({}, 99)
    assert "v0.0.99" in (said := site.failure())
    assert "v0.0.38 to v0.0.44" in said


def test_a_look_at_some_jobs(site: Site) -> None:
    jobs = {one["job_id"]: one for one in document("22.05", "squeue.json")["jobs"]}
    gone = {"jobs": [], "errors": [{"description": "Unable to find JobId=99"}]}
    site.restd.behave = api(
        {"job/1": {"jobs": [jobs[1]]}, "job/2": {"jobs": [jobs[2]]}, "job/99": gone}
    )
    one, two = (JobKey(i, jobs[i]["submit_time"]) for i in (1, 2))
    seen = site.slurm.look([one, JobKey(2, 7), JobKey(99, 7)])
    assert set(seen) == {one}
    assert set(site.slurm.look([two])) == {two}


def test_rpc_counts(site: Site) -> None:
    rows = [{"message_type": "REQUEST_JOB_INFO", "type_id": 2003, "count": 7}]
    site.restd.behave = api({"diag": diag(rpcs_by_message_type=rows)})
    assert site.slurm.rpc_counts() == {"REQUEST_JOB_INFO": 7}


@pytest.mark.parametrize("value", [[], {}, 3, "x", None, {"statistics": []}, {"paths": [1]}])
def test_answers_of_any_shape_are_errors_of_ours(site: Site, value: Any) -> None:
    body = json.dumps(value).encode()
    site.restd.behave = lambda _, send, __: send(reply(200, body))
    site.failure()
