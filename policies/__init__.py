"""Published and home-made policies, one small file each, and the registry that finds them."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points

from slurm_ext.engine.policy import Policy
from slurm_ext.errors import PolicyError

GROUP = "slurm_ext.policies"


@cache
def registry() -> dict[str, Policy]:
    """All policies by name: the built-in ones, then entry points of group ``slurm_ext.policies``.

    :raises PolicyError: an entry point that does not give a Policy.
    """
    from slurm_ext.policies import (
        a_srpt,
        doubling,
        drf,
        elastic_dp,
        fair,
        fgd,
        fifo,
        goodput,
        hesrpt,
        multifactor,
        optimus,
        qssf,
        sjbf,
        sjf,
        slope,
        slowdown,
        srtf,
        synergy,
        tetris,
        themis,
        tiresias,
        tokens,
    )

    found = {
        p.name: p
        for p in (
            fifo.POLICY,
            sjf.POLICY,
            sjbf.POLICY,
            slowdown.POLICY,
            multifactor.POLICY,
            srtf.POLICY,
            srtf.SRSF,
            tiresias.POLICY,
            tiresias.GITTINS,
            qssf.POLICY,
            synergy.POLICY,
            doubling.POLICY,
            hesrpt.POLICY,
            doubling.EXPLORATORY,
            elastic_dp.POLICY,
            optimus.POLICY,
            goodput.POLICY,
            slope.POLICY,
            a_srpt.POLICY,
            fair.POLICY,
            drf.POLICY,
            tetris.POLICY,
            fgd.POLICY,
            themis.POLICY,
            tokens.POLICY,
        )
    }
    for point in entry_points(group=GROUP):
        policy = point.load()
        if not isinstance(policy, Policy):
            raise PolicyError(f"entry point {point.value} of group {GROUP} is not a Policy")
        found[policy.name] = policy
    return found


def get(name: str) -> Policy:
    """One policy by name.

    :raises PolicyError: unknown name, with the nearest known one.
    """
    known = registry()
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise PolicyError(f"policy.name: unknown policy {name!r}{hint}; known: {', '.join(known)}")


def for_daemon(name: str, parameters: Mapping[str, object]) -> Policy:
    """One policy with parameters, as the daemon is to run it.

    :raises PolicyError: unknown name or parameter, or it runs in the simulator only.
    """
    policy = get(name).with_parameters(parameters)
    if policy.runs == "simulated":
        raise PolicyError(
            f"policy.name: {name!r} runs in the simulator only; "
            "'slurm-ext policy list' shows where each runs"
        )
    return policy
