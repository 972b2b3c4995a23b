"""How far a session may be extended by its own person: the definition's policy. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from labfleet.kernel.quantity import count
from labfleet.resources.definition import ExtensionPolicy
from labfleet.resources.extensions import Extensions

_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Bound:
    """The latest end that something allows, and what allows no later one, in words."""

    end: datetime
    why: str


def bound(policy: ExtensionPolicy, used: Extensions, end: datetime) -> Bound | None:
    """Return the latest end that one more extension may give; None: the policy bounds nothing.

    `end` is the present one, which the bound never precedes.
    """
    found = list[Bound]()
    if policy.times is not None and used.times >= policy.times:
        times = "never" if policy.times == 0 else f"at most {count(policy.times, 'time')}"
        found.append(Bound(end, f"its people may extend it {times}"))
    if policy.longest_minutes is not None:
        words = f"one extension adds at most {count(policy.longest_minutes, 'minute')}"
        found.append(Bound(end + policy.longest_minutes * _MINUTE, words))
    if policy.total_minutes is not None:
        left = policy.total_minutes * _MINUTE - timedelta(seconds=used.seconds)
        words = f"all extensions add at most {count(policy.total_minutes, 'minute')}"
        found.append(Bound(end + max(timedelta(), left), words))
    return min(found, key=lambda each: each.end, default=None)


def left(policy: ExtensionPolicy, used: Extensions) -> str:
    """Return what is left of the policy in words; "" when it bounds nothing."""
    said = list[str]()
    if policy.times is not None:
        said.append(f"{count(max(0, policy.times - used.times), 'time')} more")
    if policy.longest_minutes is not None:
        said.append(f"by at most {count(policy.longest_minutes, 'minute')} each")
    if policy.total_minutes is not None:
        minutes = max(0, policy.total_minutes - -(-used.seconds // 60))
        said.append(f"by at most {count(minutes, 'minute')} more in all")
    return ", ".join(said)


def counted(used: Extensions, span: timedelta) -> Extensions:
    """Return the count after one more extension by a span."""
    seconds = -(-span // timedelta(seconds=1))
    return Extensions(times=used.times + 1, seconds=used.seconds + seconds)
