"""What the live view shows: a value changed by keys alone. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

Plain = dict[str, Any]

PAGES = ("overview", "queue", "nodes", "changes", "health")
SORTS = ("rank", "gpus", "user", "start", "wait")
HELP = "1-5 page  ↑↓ move  ⏎ job  / filter  s sort  p pause  q quit"


@dataclass(frozen=True, slots=True)
class View:
    """``page``; ``job``: id of the job shown whole, empty for none; ``typing``: the filter is
    being written; ``cursor``: chosen row of the queue; ``top``: first line of other pages.
    """

    page: str = "overview"
    cursor: int = 0
    top: int = 0
    sort: str = "rank"
    filter: str = ""
    typing: bool = False
    job: str = ""
    paused: bool = False
    ended: bool = False


def press(view: View, key: str, data: Plain) -> View:
    """The view after a key: a character, or ``up``, ``down``, ``pageup``, ``pagedown``, ``enter``,
    ``escape``, ``backspace``.
    """
    if view.typing:
        return _typed(view, key)
    if key in ("q", "ctrl-c"):
        return replace(view, ended=True) if not view.job else replace(view, job="", top=0)
    if key == "escape":
        return replace(view, job="", filter="", top=0)
    if key.isdecimal() and 1 <= int(key) <= len(PAGES):
        return replace(view, page=PAGES[int(key) - 1], job="", top=0)
    if key in _MOVES:
        return _moved(view, _MOVES[key], data)
    if key == "enter" and view.page in ("overview", "queue"):
        rows = chosen_jobs(data, view)
        if not rows:
            return view
        return replace(view, job=rows[min(view.cursor, len(rows) - 1)]["id"], top=0)
    if key == "/":
        return replace(view, typing=True, filter="", cursor=0)
    if key == "s":
        following = SORTS[(SORTS.index(view.sort) + 1) % len(SORTS)]
        return replace(view, sort=following, cursor=0)
    if key == "p":
        return replace(view, paused=not view.paused)
    return view


_MOVES = {"up": -1, "down": 1, "k": -1, "j": 1, "pageup": -10, "pagedown": 10, " ": 10}


def _typed(view: View, key: str) -> View:
    if key in ("enter", "escape", "ctrl-c"):
        kept = view.filter if key == "enter" else ""
        return replace(view, typing=False, filter=kept, cursor=0)
    if key == "backspace":
        return replace(view, filter=view.filter[:-1], cursor=0)
    if len(key) == 1 and key.isprintable() and len(view.filter) < 60:
        return replace(view, filter=view.filter + key, cursor=0)
    return view


def _moved(view: View, by: int, data: Plain) -> View:
    if view.job or view.page not in ("overview", "queue"):
        return replace(view, top=max(0, view.top + by))
    last = max(0, len(chosen_jobs(data, view)) - 1)
    return replace(view, cursor=min(last, max(0, view.cursor + by)))


def chosen_jobs(data: Plain, view: View) -> list[Plain]:
    """The planned jobs that pass the filter, sorted."""
    jobs = [j for j in data.get("jobs", []) if j["rank"] >= 0 or j["verdict"] == "starting"]
    if view.filter:
        wanted = view.filter.casefold()
        jobs = [j for j in jobs if wanted in _haystack(j)]
    if view.sort == "rank":
        return jobs
    orders = {
        "gpus": lambda j: -j["gpus"],
        "user": lambda j: j["user"],
        "start": lambda j: j["start_s"] if j["start_s"] is not None else float("inf"),
        "wait": lambda j: j["submit_s"],
    }
    return sorted(jobs, key=orders[view.sort])


def _haystack(job: Plain) -> str:
    shown = ("id", "user", "account", "name", "partition", "verdict")
    codes = " ".join(r["code"] for r in job["reasons"])
    return " ".join([*(str(job[k]) for k in shown), codes]).casefold()


def changes(before: Plain, after: Plain) -> list[str]:
    """What became of jobs between two looks, one line each; texts are as users wrote them."""
    old = {j["id"]: j for j in before.get("jobs", [])}
    lines = []
    for job in after.get("jobs", []):
        was = old.pop(job["id"], None)
        if was is None:
            if before.get("jobs"):
                lines.append(f"{job['id']} {job['user']} new: {_gist(job)}")
        elif (was["verdict"], _code(was)) != (job["verdict"], _code(job)):
            lines.append(f"{job['id']} {job['user']} {was['verdict']} -> {_gist(job)}")
    if "jobs_in_all" not in after and "jobs_in_all" not in before:
        lines += [f"{j['id']} {j['user']} {j['verdict']} -> gone" for j in old.values()]
    return lines


def _code(job: Plain) -> str:
    return job["reasons"][0]["code"] if job["reasons"] else ""


def _gist(job: Plain) -> str:
    why = job["reasons"][-1]["text"] if job["reasons"] else ""
    return f"{job['verdict']}: {why}" if why else str(job["verdict"])
