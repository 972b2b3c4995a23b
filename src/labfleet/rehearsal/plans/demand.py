"""Demand: the sessions that people ask for (wishes), and how they are drawn from a seed.

A `PlannedSession` is one session that somebody asked for, with what they did to it later.
Instants are seconds from the start of the asked period. `demand_file` and `recording` read the
wishes of files and recordings; `what_if` turns wishes into requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, NoReturn

from labfleet.kernel import errors, quantity
from labfleet.rehearsal.plans import plan as plans
from labfleet.rehearsal.plans.plan_words import Wrong
from labfleet.rehearsal.time.virtual_host import SeededRng

DAY = 86400.0
SESSIONS_LIMIT = 500_000
HERE = ("demand", "generated")


@dataclass(frozen=True, slots=True)
class Act:
    """What somebody did to a session later; `seconds` is how much longer an extension is."""

    at: float
    word: Literal["cancel", "extend", "delete", "observe"]
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PlannedSession:
    """One session that somebody asks for; `start` None means now, `end` None the usual time.

    `line` is where it stands in the file it was read from, 0 when it was not.
    """

    at: float
    definition: str
    owner: str = ""
    name: str = ""
    start: float | None = None
    end: float | None = None
    track: str | None = None
    priority: int = 0
    acts: tuple[Act, ...] = ()
    line: int = 0

    @property
    def due(self) -> float:
        """Return from when it waits: since it was asked for, or its slot begins if later."""
        return self.at if self.start is None else max(self.at, self.start)


@dataclass(frozen=True, slots=True)
class Crowd:
    """All wishes of a period of `seconds`, and the definitions they need besides the plan's.

    `notes` tell the reader of the answer where the wishes are from.
    """

    wishes: tuple[PlannedSession, ...]
    seconds: float
    definitions: tuple[tuple[str, dict[str, Any]], ...] = ()
    notes: tuple[str, ...] = ()


# --- drawn -----------------------------------------------------------------------------


def draw(asked: plans.Generated, minutes: dict[str, int], seconds: float, seed: int) -> Crowd:
    """Return the demand of a seed. `minutes` is how long each definition usually runs.

    Raises Wrong for an unknown definition, for a window or an exam outside the period, and when
    there is no wish at all.
    """
    rng = SeededRng(f"{seed}/demand")
    people = asked.on_demand_per_day + asked.slots_per_day
    names = (
        _weighted(asked.definitions or dict.fromkeys(minutes, 1.0), minutes)
        if people or asked.definitions
        else []
    )
    spans = _open(asked.hours, seconds) if people else []
    wishes: list[PlannedSession] = []
    for word, a_day in (("now", asked.on_demand_per_day), ("slot", asked.slots_per_day)):
        stream, count = rng.stream(word), round(a_day * seconds / DAY)
        if count > SESSIONS_LIMIT:
            key = "onDemandPerDay" if word == "now" else "slotsPerDay"
            told = f"{count} sessions in {_shown(seconds)} are more than {SESSIONS_LIMIT}"
            raise Wrong(told, *HERE, key)
        for number in range(count):
            name = _pick(names, stream)
            at = _moment(stream, asked.hours, spans, seconds)
            wish = PlannedSession(at, name, f"p{number % 997}", f"{word}-{number:05d}")
            wishes.append(_person(wish, minutes[name] * 60.0, stream, asked))
    for count, exam in enumerate(asked.exams):
        if exam.definition not in minutes:
            told = f"no definition has the name {exam.definition}; {_there(minutes)}"
            raise Wrong(told, *HERE, "exams", count, "definition")
        wishes += _exam(count, exam, seconds, rng.stream(f"exam/{count}"))
        if len(wishes) > SESSIONS_LIMIT:
            raise Wrong(f"these are more than {SESSIONS_LIMIT} sessions", *HERE, "exams", count)
    if not wishes:
        told = f"nobody comes in {_shown(seconds)}: give onDemandPerDay, slotsPerDay or exams"
        if people:
            told = (
                f"nobody comes in {_shown(seconds)}: {people:g} a day come to no whole session; "
                "raise onDemandPerDay or slotsPerDay, or play more days"
            )
        raise Wrong(told, *HERE)
    return Crowd(ordered(wishes), seconds)


def _weighted(weights: dict[str, float], known: dict[str, int]) -> list[tuple[str, float]]:
    odd = sorted(set(weights) - set(known))
    if odd:
        told = f"no definition has the name {odd[0]}; {_there(known)}"
        raise Wrong(told, *HERE, "definitions", odd[0])
    total = sum(weights.values())
    if not total:
        raise Wrong("there is no definition to draw from", *HERE, "definitions")
    return [(name, weight / total) for name, weight in sorted(weights.items())]


def _there(known: dict[str, int]) -> str:
    return f"there are {', '.join(sorted(known)) or 'none'}"


def _pick(names: list[tuple[str, float]], rng: SeededRng) -> str:
    left = rng.random()
    for name, share in names:
        left -= share
        if left < 0:
            return name
    return names[-1][0]


def _open(hours: tuple[float, float], seconds: float) -> list[tuple[float, float]]:
    """Return from when to when people may come in the period; Wrong when never."""
    first, last = hours
    length = (last - first) % 24 or 24.0
    begins = (day * DAY + first * 3600 for day in range(-1, int(seconds // DAY) + 1))
    spans = [(max(0.0, at), min(seconds, at + length * 3600)) for at in begins]
    found = [(since, until) for since, until in spans if since < until]
    if not found:
        told = f"{first:g} to {last:g} never comes in a period of {_shown(seconds)} from midnight"
        raise Wrong(told, *HERE, "hours")
    return found


def _moment(
    rng: SeededRng, hours: tuple[float, float], spans: list[tuple[float, float]], seconds: float
) -> float:
    """Return an instant in the open hours of some day of the period."""
    first, last = hours
    for _ in range(100):
        at = rng.between(0.0, seconds)
        hour = at % DAY / 3600
        if first <= hour < last or (first > last and not last <= hour < first):
            return at
    # So short a window is seldom hit by chance.
    left = rng.between(0.0, sum(until - since for since, until in spans))
    for since, until in spans:
        if left < until - since:
            return since + left
        left -= until - since
    return spans[-1][0]


def _person(
    wish: PlannedSession, usual: float, rng: SeededRng, asked: plans.Generated
) -> PlannedSession:
    """Draw what else one person wants; every person takes the same number of draws."""
    lead, length = rng.between(900, 4 * 3600), usual * rng.between(0.5, 1.2)
    intensity, when, longer = rng.random(), rng.random(), rng.between(5, 40) * 60
    at = wish.at
    acts: tuple[Act, ...] = ()
    if intensity < asked.cancel_share:
        acts = (Act(at + when * usual, "cancel"),)
    elif intensity < asked.cancel_share + asked.extend_share:
        acts = (Act(at + (0.3 + 0.5 * when) * usual, "extend", longer),)
    if wish.name.startswith("slot"):
        return replace(wish, at=max(0.0, at - lead), start=at, end=at + length, acts=acts)
    return replace(wish, acts=acts)


def _exam(count: int, exam: plans.Exam, seconds: float, rng: SeededRng) -> Iterator[PlannedSession]:
    found = 0
    for day in exam.days or range(int(seconds // DAY) + 1):
        start = day * DAY + exam.hour * 3600
        end = start + exam.minutes * 60
        if end > seconds:
            if exam.days:
                _beyond(count, f"day {day} (0 is the first): {_hours(exam)} ends", seconds, "days")
            continue
        found += 1
        for number in range(exam.sessions):
            begin = max(0.0, start - exam.booked_hours_before * 3600 * rng.between(0.2, 1.0))
            yield PlannedSession(
                begin, exam.definition, f"candidate{number}", f"exam{count}-{day}-{number:04d}",
                start, end,
            )  # fmt: skip
    if not found:
        _beyond(count, f"{_hours(exam)} ends", seconds, "hour")


def _hours(exam: plans.Exam) -> str:
    return f"an exam from hour {exam.hour:g} for {quantity.count(exam.minutes, 'minute')}"


def _beyond(count: int, told: str, seconds: float, key: str) -> NoReturn:
    told = f"{told} after the period of {_shown(seconds)}; the plan needs more days or hours"
    raise Wrong(told, *HERE, "exams", count, key)


def _shown(seconds: float) -> str:
    return f"{seconds / 3600:g} h"


def ordered(wishes: Iterable[PlannedSession]) -> tuple[PlannedSession, ...]:
    """Return the wishes by instant and name; Invalid when there are too many to play."""
    found = sorted(wishes, key=lambda wish: (wish.at, wish.name))
    if len(found) > SESSIONS_LIMIT:
        raise errors.Invalid(f"{len(found)} sessions are more than {SESSIONS_LIMIT}")
    return tuple(found)


def spec(wish: PlannedSession, epoch: datetime) -> dict[str, Any]:
    """Return the session that a wish asks for, as a client would send it."""

    def shown(seconds: float | None) -> str | None:
        return None if seconds is None else (epoch + timedelta(seconds=seconds)).isoformat()

    slot = {"start": shown(wish.start), "end": shown(wish.end), "zone": "UTC"}
    return {
        "definition": wish.definition,
        "owner": wish.owner,
        "slot": {key: value for key, value in slot.items() if value is not None},
        "priority": wish.priority,
        **({"track": wish.track} if wish.track else {}),
    }


def usual_minutes(found: list[tuple[str, str, dict[str, Any]]]) -> dict[str, int]:
    """Return how long each definition of the fleet runs by default."""
    return {
        name: int(spec.get("defaultDurationMinutes", 60))
        for kind, name, spec in found
        if kind == "Definition"
    }


def later(crowd: Crowd, seconds: float) -> Crowd:
    """Return the demand shifted by the warm-up."""

    def moved(value: float | None) -> float | None:
        return None if value is None else value + seconds

    return replace(
        crowd,
        wishes=tuple(
            replace(
                wish,
                at=wish.at + seconds,
                start=moved(wish.start),
                end=moved(wish.end),
                acts=tuple(replace(act, at=act.at + seconds) for act in wish.acts),
            )
            for wish in crowd.wishes
        ),
    )
