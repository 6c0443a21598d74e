"""``history report``: use, restarts, and requests that could be smaller."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .common import console, print_json, read_config
from .history_store import stored, table
from .tables import duration

if TYPE_CHECKING:
    from slurm_ext.accounting.record import Attempt

DAY_S = 86400


def run_report(args: argparse.Namespace) -> int:
    """``history report``"""
    from slurm_ext.accounting.report import limit_advice, overestimate, totals
    from slurm_ext.accounting.sizing import size_advice
    from slurm_ext.accounting.usage import restarts, usage

    now_s = int(time.time())
    where, values = "end_s > ?", [int(now_s - args.days * DAY_S)]
    with stored(read_config(args)) as store:
        rows = [a for a in store.attempts(where, values) if args.user in ("", a.user)]
        covered, skips, used = store.covered(), store.skips(), store.used()
    advice = limit_advice(rows)
    found: dict[str, Any] = {
        "limit_over_run": overestimate(rows),
        "restarts": restarts(rows),
        "limits": advice,
        "sizes": size_advice(rows, used),
        "totals": {by: totals(advice, by=by) for by in ("user", "account")},
        "usage": {by: usage(rows, now_s, by=by) for by in ("user", "account")},
    }
    if args.json:
        print_json({
            "days": args.days, "attempts": len(rows), "skipped": skips,
            "covered": None if covered is None else asdict(covered), **_plain(found),
        })  # fmt: skip
    else:
        _show(args, rows, found)
    return 0


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value


def _show(args: argparse.Namespace, rows: Sequence[Attempt], found: Mapping[str, Any]) -> None:
    from slurm_ext.accounting.report import ADVICE_HEADS, advice_row
    from slurm_ext.accounting.sizing import SIZE_HEADS, size_row

    out = console()
    out.print(f"{len(rows)} attempts of the last {args.days:g} days")
    share, again = found["limit_over_run"], found["restarts"]
    if share is not None:
        out.print(f"limits are {share.p50:.1f} times the run time in the median "
                  f"({share.p10:.1f} to {share.p90:.1f}; {share.jobs} jobs)")  # fmt: skip
    if again.restarts:
        out.print(f"{again.jobs} jobs began again {again.restarts} times: "
                  f"{again.lost_gpu_s / 3600:.1f} GPU-h in attempts cut short, in the median "
                  f"{duration(round(again.gap_s))} from an end to the next start")  # fmt: skip
    for by, one in found["usage"].items():
        freed = found["totals"][by]
        heads = (by.upper(), "GPU-H", "DECAYED", "ATTEMPTS", "RESERVED BEYOND USE", "COULD FREE")
        ranked = sorted(one.items(), key=lambda i: -i[1].decayed_gpu_s)[: args.top]
        out.print(table(heads, [
            (name, _hours(u.gpu_s), _hours(u.decayed_gpu_s), u.attempts,
             *((f"{freed[name].reserved_gpu_h:.1f}", f"{freed[name].freed_gpu_h:.1f}")
               if name in freed else ("-", "-")))
            for name, u in ranked
        ]))  # fmt: skip
    out.print("time limits that could be shorter:")
    out.print(
        table(ADVICE_HEADS, [advice_row(one, duration) for one in found["limits"]][: args.top])
    )
    if found["sizes"]:
        out.print("CPUs and memory that could be less:")
        out.print(table(SIZE_HEADS, [size_row(one) for one in found["sizes"][: args.top]]))
    else:
        out.print("no record of CPUs and memory used (JobAcctGatherType in slurm.conf; 5 jobs of "
                  "a kind, a minute or longer)")  # fmt: skip


def _hours(gpu_s: float) -> str:
    return f"{gpu_s / 3600:.1f}"
