"""Debian's Prometheus on what we ship: lint, alert rules, dashboard, and a real scrape."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from slurm_ext.daemon.metrics import Metrics
from slurm_ext.daemon.metrics_port import TcpMetrics
from slurm_ext.slurm.tally import TALLY
from tests.live import wait_for
from tests.manual import ROOT

from .test_metrics import look, run

ALERTS = ROOT / "docs" / "monitoring" / "alerts.yml"
LIMIT_S = 60


def load_dashboard() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dashboard", ROOT / "docs" / "dashboard.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXPRESSIONS: list[str] = load_dashboard().expressions()


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name} (Debian package prometheus)")
    return found


@pytest.fixture
def metrics(tmp_path: Path) -> Metrics:
    found = Metrics()
    TALLY.note("squeue", "ok", 0.1)
    run(found, tmp_path, look(), look(running=True), look(ended=True))
    return found


def known_names(metrics: Metrics) -> set[str]:
    """All names a query may use, also of series that were never counted."""
    return set(re.findall(r"^# TYPE (\w+)", metrics.text().decode(), re.MULTILINE))


def used_names(text: str) -> set[str]:
    return set(re.findall(r"\bslurm_ext_\w+", text))


def is_known(name: str, known: set[str]) -> bool:
    return name in known or any(
        name == f"{k}{s}" for k in known for s in ("_bucket", "_sum", "_count")
    )


@pytest.mark.parametrize("text", [*EXPRESSIONS, ALERTS.read_text()], ids=lambda t: t[:50])
def test_queries_use_metrics_that_there_are(text: str, metrics: Metrics) -> None:
    known = known_names(metrics)
    assert used_names(text)
    assert [name for name in used_names(text) if not is_known(name, known)] == []


def test_the_lint_of_prometheus_has_nothing_to_say(metrics: Metrics) -> None:
    done = subprocess.run(
        [program("promtool"), "check", "metrics"], input=metrics.text(), capture_output=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_alert_rules_and_queries_can_be_parsed(tmp_path: Path) -> None:
    rules = [{"record": f"d:q{i}", "expr": expr} for i, expr in enumerate(EXPRESSIONS)]
    queries = tmp_path / "queries.json"  # JSON is YAML
    queries.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(
        [program("promtool"), "check", "rules", str(ALERTS), str(queries)], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """A running server, asked through its API."""

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}/api/v1"

    def get(self, path: str, **query: str) -> Any:
        url = f"{self.base}/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def value(self, query: str) -> float | None:
        data = self.get("query", query=query)
        return float(data["result"][0]["value"][1]) if data and data["result"] else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def prometheus(metrics: Metrics, tmp_path: Path) -> Iterator[Prometheus]:
    server, port = program("prometheus"), free_port()
    with TcpMetrics("127.0.0.1", 0, metrics.text) as served:
        config = tmp_path / "prometheus.json"
        target = {"job_name": "slurm-ext", "static_configs": [
            {"targets": [f"127.0.0.1:{served.port}"]}]}  # fmt: skip
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ALERTS)], "scrape_configs": [target],
        }))  # fmt: skip
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [server, f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data",
                 f"--web.listen-address=127.0.0.1:{port}"],
                stdout=log, stderr=log,
            )  # fmt: skip
        try:
            yield Prometheus(port)
        finally:
            process.terminate()
            process.wait(30)


def test_it_is_scraped_and_its_rules_and_dashboard_are_evaluated(prometheus: Prometheus) -> None:
    wait_for(lambda: prometheus.value('up{job="slurm-ext"}') == 1, LIMIT_S, "a scrape")
    assert prometheus.value('slurm_ext_cycles_total{outcome="ok"}') == 3
    age_s = prometheus.value("time() - slurm_ext_last_cycle_timestamp_seconds")
    assert age_s is not None
    assert -5 < age_s < 300
    assert [e for e in EXPRESSIONS if prometheus.get("query", query=e) is None] == []
    seen = wait_for(lambda: _evaluated(prometheus), LIMIT_S, "the rules are evaluated")
    assert {rule["name"]: rule["health"] for rule in seen if rule["health"] != "ok"} == {}


def _evaluated(prometheus: Prometheus) -> list[dict[str, Any]]:
    groups = (prometheus.get("rules") or {}).get("groups", [])
    rules = [rule for group in groups for rule in group["rules"]]
    return rules if rules and all(rule["health"] != "unknown" for rule in rules) else []
