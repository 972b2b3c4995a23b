"""How early a pool makes workers for what it has promised: as early as its boots were seen to need.

Pure. The bound is the one by which durations are predicted (`prediction.conformal`), of the boots of
the pool's template in its region on its types: of 19 boots and more, 95 in 100 further ones stay
within it. Of fewer nobody knows that much, so the default holds until then, or the longest boot seen
when that is longer. What a lab itself needs before its slot is its head start, which its claim holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from labfleet.decisions.pools import boot_odds
from labfleet.decisions.pools.boot_odds import BootOdds
from labfleet.decisions.prediction.conformal import conformal
from labfleet.kernel.quantity import count
from labfleet.resources import providers
from labfleet.resources.history import ENDED, Run, RunKind
from labfleet.resources.machine import Machine
from labfleet.resources.pool import EARLIER_LEAD, Lead, LeadSource, Pool, Scaling

COVERAGE = 0.95
DEFAULT = timedelta(seconds=EARLIER_LEAD)
"""The lead while too few boots were measured: a metal worker takes about as long."""
MARGIN = timedelta(minutes=1)
"""Added to a measured bound: the pool's look, its commit and the binding take some of it."""
MOST = timedelta(days=1)
"""The longest lead, whatever is stated: a boot that takes longer is none."""
KEPT = 100
"""Boots that are looked at, the newest ones: an image that boots slower counts soon."""
LEAST = 19
"""Boots from which on the largest of them is known to be passed by at most one new one in 20."""


@dataclass(frozen=True, slots=True)
class BootTimes:
    """How long boots took that got to their end, in seconds, shortest first, and of what they were.

    `odds` have the failed ones too; a boot that somebody ended failed as little as it came up.
    """

    seconds: tuple[float, ...] = ()
    of: str = ""
    odds: BootOdds = BootOdds()

    @property
    def within(self) -> float | None:
        """Return what a further boot stays within with COVERAGE; None while too few were measured."""
        found, known = conformal(self.seconds, COVERAGE) if self.seconds else (0.0, False)
        return max(found, self.odds.within(COVERAGE)) if known else None


def boot_times(runs: Iterable[Run], machine: Machine) -> BootTimes:
    """Return the boots that tell how long one of this machine takes; `runs` are the newest first.

    A boot that somebody ended took at least as long as it did: it counts where it took longer than
    the bound of those that got to their end, and says nothing else. One that failed has no length:
    workers that are made for it beside the others make up for it (`odds`), not an earlier start.
    """
    settings = machine.provider
    types = providers.machine_types(settings)
    alike = [
        run
        for run in runs
        if run.kind is RunKind.BOOT
        and run.duration_seconds is not None
        and run.parameters.get("region") == settings.region
        and (not types or run.parameters.get("type") in types)
    ][:KEPT]
    names = sorted({str(run.parameters["type"]) for run in alike if run.parameters.get("type")})
    what = f"{' and '.join(names)} in {settings.region}" if names else settings.region
    whole = sorted(run.duration_seconds or 0.0 for run in alike if not run.censored)
    bound = BootTimes(tuple(whole)).within
    ended = [run.duration_seconds or 0.0 for run in alike if run.censored == ENDED]
    longer = [each for each in ended if bound is not None and each > bound]
    failed = sum(bool(run.censored) and run.censored != ENDED for run in alike)
    return BootTimes(tuple(sorted(whole + longer)), what, boot_odds.odds(whole, failed, ended))


def lead(scaling: Scaling, boots: BootTimes) -> Lead:
    """Return a pool's lead: what its spec states, else what was measured, else the default."""
    within, known = boots.within, len(boots.seconds)
    seconds, source = DEFAULT, LeadSource.DEFAULT
    if within is not None:
        seconds, source = _whole(within) + MARGIN, LeadSource.MEASURED
    elif known:
        seconds = max(DEFAULT, _whole(boots.seconds[-1]) + MARGIN)
    if scaling.lead_seconds is not None:
        seconds, source = timedelta(seconds=scaling.lead_seconds), LeadSource.STATED
    return Lead(
        seconds=int(min(seconds, MOST).total_seconds()),
        source=source,
        boots=known,
        within_seconds=None if within is None else int(_whole(within).total_seconds()),
        coverage=COVERAGE,
        sentence=_sentence(boots, within),
    )


def of(pool: Pool) -> timedelta:
    """Return how early a pool makes workers, as its record says; before its first look the default."""
    stated, told = pool.spec.scaling.lead_seconds, pool.status.lead
    if stated is not None:
        return min(timedelta(seconds=stated), MOST)
    return (
        DEFAULT
        if told is None or told.source is LeadSource.STATED
        else timedelta(seconds=told.seconds)
    )


def early(told: Lead) -> timedelta:
    """Return how early workers are made by a lead."""
    return timedelta(seconds=told.seconds)


def boot_of(pool: Pool) -> timedelta:
    """Return how long a boot of a pool takes at most, as far as is known; else the default."""
    told = pool.status.lead
    if told is None or told.within_seconds is None:
        return DEFAULT
    return timedelta(seconds=told.within_seconds)


def words(told: Lead) -> str:
    """Return a lead in a sentence: how early, and why."""
    early = f"workers are made {_minutes(told.seconds)} before what is promised begins"
    if told.source is LeadSource.STATED:
        return f"{early}, as its leadSeconds says ({told.sentence})"
    return f"{early} ({told.sentence})"


def _sentence(boots: BootTimes, within: float | None) -> str:
    known = len(boots.seconds)
    if not known:
        return f"no boot{f' in {boots.of}' if boots.of else ''} was measured yet"
    if within is not None:
        told = _minutes(_whole(within).total_seconds())
        return f"boots of {boots.of}: {COVERAGE:.0%} within {told} of {known}".replace("%", " %")
    longest = _minutes(_whole(boots.seconds[-1]).total_seconds())
    return (
        f"{count(known, 'boot')} of {boots.of} measured, the longest {longest}; {LEAST} are needed "
        "for a bound"
    )


def _whole(seconds: float) -> timedelta:
    """Return whole minutes, rounded up: a record does not change for seconds."""
    return timedelta(minutes=-int(-seconds // 60))


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min"
