"""The Grafana dashboard: rows of panels, each a title, a unit and what it draws."""

from __future__ import annotations

import json
from typing import Any

Target = tuple[str, str]
"""PromQL, legend."""
Panel = tuple[str, str, tuple[Target, ...]]
"""Title, unit of Grafana, targets."""


def _p90(metric: str, by: str) -> str:
    return f"histogram_quantile(0.9, sum by (le, {by}) (rate({metric}_bucket[1h])))"


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    ("Cluster", (
        ("GPUs", "short", (
            ('slurm_ext_gpus{state="usable"}', "usable"), ('slurm_ext_gpus{state="used"}', "used"),
            ('slurm_ext_free_gpus{use="whole_nodes"}', "free on empty nodes"),
        )),
        ("Use of the GPUs", "percentunit", (
            ('sum(slurm_ext_gpus{state="used"}) / sum(slurm_ext_gpus{state="usable"})', "used"),
        )),
        ("GPUs nobody can use", "short", (("slurm_ext_stranded_gpus", "{{cause}}"),)),
    )),
    ("Queue", (
        ("GPUs that waiting jobs ask for", "short", (("slurm_ext_waiting_gpus", "{{size}} GPUs"),)),
        ("Longest wait", "s", (("slurm_ext_oldest_wait_seconds", "{{size}} GPUs"),)),
        ("Wait, 90 of 100 jobs", "s", ((_p90("slurm_ext_wait_seconds", "size"), "{{size}} GPUs"),)),
        ("Completion time, mean", "s", ((
            "sum by (size) (rate(slurm_ext_job_completion_seconds_sum[6h])) / "
            "sum by (size) (rate(slurm_ext_job_completion_seconds_count[6h]))", "{{size}} GPUs"),)),
    )),
    ("Plans", (
        ("Starts as planned, share", "percentunit", ((
            'sum(rate(slurm_ext_starts_total{outcome="as_planned"}[6h])) / '
            "sum(rate(slurm_ext_starts_total[6h]))", "on the planned nodes"),)),
        ("Starts by outcome", "short", (
            ("sum by (outcome) (increase(slurm_ext_starts_total[1h]))", "{{outcome}}"),)),
        ("Promises", "short", (
            ("sum by (outcome) (increase(slurm_ext_promises_total[1h]))", "{{outcome}}"),
            ("slurm_ext_fences", "in force"),
        )),
        ("Let go to running, 90 of 100", "s", ((
            "histogram_quantile(0.9, sum by (le) (rate(slurm_ext_start_delay_seconds_bucket[1h])))",
            "delay"),)),
        ("Predictions", "percentunit", (
            ("slurm_ext_estimated_jobs_ratio", "jobs with an estimate"),
            ("slurm_ext_prediction_coverage_ratio", "within P10 to P90"),
        )),
    )),
    ("What we do", (
        ("Changes", "short", (
            ("sum by (lever, outcome) (increase(slurm_ext_actions_total[5m]))",
             "{{lever}} {{outcome}}"),)),
        ("Marks that stand", "short", (("slurm_ext_marks", "{{kind}}"),)),
        ("Requeues", "short", (("increase(slurm_ext_requeues_total[1h])", "requeues"),)),
        ("GPU time of requeued runs", "s", (
            ("increase(slurm_ext_requeued_gpu_seconds_total[1h])", "GPU seconds"),)),
    )),
    ("Health", (
        ("Cycles", "short", (
            ("sum by (outcome) (increase(slurm_ext_cycles_total[5m]))", "{{outcome}}"),)),
        ("Parts of a cycle, mean", "s", ((
            "sum by (phase) (rate(slurm_ext_cycle_phase_seconds_sum[5m])) / "
            "sum by (phase) (rate(slurm_ext_cycle_phase_seconds_count[5m]))", "{{phase}}"),)),
        ("Calls to Slurm a second", "short", (
            ("sum by (command) (rate(slurm_ext_slurm_calls_total[5m]))", "{{command}}"),)),
        ("Time in calls to Slurm", "percentunit", (
            ("sum by (command) (rate(slurm_ext_slurm_call_seconds_total[5m]))", "{{command}}"),)),
        ("Since the last good cycle", "s", (
            ("time() - slurm_ext_last_cycle_timestamp_seconds", "age"),)),
    )),
)  # fmt: skip


def expressions() -> list[str]:
    """Every PromQL expression of the dashboard."""
    return [e for _, panels in ROWS for _, _, targets in panels for e, _ in targets]


def dashboard() -> str:
    """The JSON model that Grafana imports; it asks for the data source."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS:
        panels.append({
            "type": "row", "title": title, "collapsed": False, "panels": [],
            "gridPos": {"h": 1, "w": 24, "x": 0, "y": y},
        })  # fmt: skip
        y += 1
        for i, panel in enumerate(row):
            panels.append(_panel(panel, x=8 * (i % 3), y=y + 8 * (i // 3)))
        y += 8 * (-(-len(row) // 3))
    for number, each in enumerate(panels, 1):
        each["id"] = number
    model = {
        "__inputs": [{"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource",
                      "pluginId": "prometheus", "pluginName": "Prometheus"}],
        "title": "slurm-ext", "uid": "slurm-ext", "tags": ["slurm"], "schemaVersion": 36,
        "editable": True, "refresh": "30s", "time": {"from": "now-24h", "to": "now"},
        "panels": panels,
    }  # fmt: skip
    return json.dumps(model, indent=1) + "\n"


def _panel(panel: Panel, *, x: int, y: int) -> dict[str, Any]:
    title, unit, targets = panel
    source = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
    return {
        "type": "timeseries", "title": title, "datasource": source,
        "gridPos": {"h": 8, "w": 8, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 10}},
                        "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"},
                    "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(65 + i), "expr": expr, "legendFormat": legend, "datasource": source}
            for i, (expr, legend) in enumerate(targets)
        ],
    }  # fmt: skip
