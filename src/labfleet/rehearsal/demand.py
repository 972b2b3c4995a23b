"""Who asks for what and when: what a wish is, and wishes drawn from a seed.

A `Wish` is one session that somebody asked for, with what they did to it later. Instants are
seconds from the start of the asked period. Wishes of files and recordings are read elsewhere
(`demand_file`, `recording`); how they become requests is `what_if`'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from labfleet.kernel import errors
from labfleet.rehearsal import plan as plans
from labfleet.rehearsal.dice import Dice

DAY = 86400.0
WISHES_LIMIT = 500_000


@dataclass(frozen=True, slots=True)
class Act:
    """What somebody did to a session later; `seconds` is how much longer an extension is."""

    at: float
    word: Literal["cancel", "extend", "delete", "observe"]
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Wish:
    """One session that somebody asks for; `start` None means now, `end` None the usual time."""

    at: float
    definition: str
    owner: str = ""
    name: str = ""
    start: float | None = None
    end: float | None = None
    track: str | None = None
    priority: int = 0
    acts: tuple[Act, ...] = ()


@dataclass(frozen=True, slots=True)
class Crowd:
    """All wishes of a period of `seconds`, and the definitions they need besides the plan's."""

    wishes: tuple[Wish, ...]
    seconds: float
    definitions: tuple[tuple[str, dict[str, Any]], ...] = ()


# --- drawn -----------------------------------------------------------------------------


def draw(asked: plans.Generated, minutes: dict[str, int], seconds: float, seed: int) -> Crowd:
    """Return the demand of a seed. `minutes` is how long each definition usually runs."""
    dice = Dice(f"{seed}/demand")
    names = _weighted(asked.definitions or dict.fromkeys(minutes, 1.0), minutes)
    wishes: list[Wish] = []
    for word, a_day in (("now", asked.on_demand_per_day), ("slot", asked.slots_per_day)):
        stream = dice.stream(word)
        for number in range(round(a_day * seconds / DAY)):
            name = _pick(names, stream)
            at = _moment(stream, asked.hours, seconds)
            wish = Wish(at, name, f"p{number % 997}", f"{word}-{number:05d}")
            wishes.append(_person(wish, minutes[name] * 60.0, stream, asked))
    for count, exam in enumerate(asked.exams):
        if exam.definition not in minutes:
            raise errors.Invalid(f"an exam asks for {exam.definition}, which no one defines")
        wishes += _exam(count, exam, seconds, dice.stream(f"exam/{count}"))
    return Crowd(ordered(wishes), seconds)


def _weighted(weights: dict[str, float], known: dict[str, int]) -> list[tuple[str, float]]:
    odd = sorted(set(weights) - set(known))
    if odd:
        raise errors.Invalid(f"the demand asks for {odd[0]}, which no one defines")
    total = sum(weights.values())
    if not total:
        raise errors.Invalid("the demand has no definition to draw from")
    return [(name, weight / total) for name, weight in sorted(weights.items())]


def _pick(names: list[tuple[str, float]], dice: Dice) -> str:
    left = dice.random()
    for name, share in names:
        left -= share
        if left < 0:
            return name
    return names[-1][0]


def _moment(dice: Dice, hours: tuple[float, float], seconds: float) -> float:
    """Return an instant in the open hours of some day of the period."""
    first, last = hours
    for _ in range(100):
        at = dice.between(0.0, seconds)
        if first <= at % DAY / 3600 < last:
            return at
    return min(first * 3600, seconds)


def _person(wish: Wish, usual: float, dice: Dice, asked: plans.Generated) -> Wish:
    """Draw what else one person wants; every person takes the same number of draws."""
    lead, length = dice.between(900, 4 * 3600), usual * dice.between(0.5, 1.2)
    mood, when, longer = dice.random(), dice.random(), dice.between(5, 40) * 60
    at = wish.at
    acts: tuple[Act, ...] = ()
    if mood < asked.cancel_share:
        acts = (Act(at + when * usual, "cancel"),)
    elif mood < asked.cancel_share + asked.extend_share:
        acts = (Act(at + (0.3 + 0.5 * when) * usual, "extend", longer),)
    if wish.name.startswith("slot"):
        return replace(wish, at=max(0.0, at - lead), start=at, end=at + length, acts=acts)
    return replace(wish, acts=acts)


def _exam(count: int, exam: plans.Exam, seconds: float, dice: Dice) -> Iterable[Wish]:
    days = exam.days or range(int(seconds // DAY) + 1)
    for day in days:
        start = day * DAY + exam.hour * 3600
        if start + exam.minutes * 60 > seconds:
            continue
        for number in range(exam.sessions):
            begin = max(0.0, start - exam.booked_hours_before * 3600 * dice.between(0.2, 1.0))
            yield Wish(
                begin, exam.definition, f"candidate{number}", f"exam{count}-{day}-{number:04d}",
                start, start + exam.minutes * 60,
            )  # fmt: skip


def ordered(wishes: Iterable[Wish]) -> tuple[Wish, ...]:
    """Return the wishes by instant and name; Invalid when there are too many to play."""
    found = sorted(wishes, key=lambda wish: (wish.at, wish.name))
    if len(found) > WISHES_LIMIT:
        raise errors.Invalid(f"{len(found)} sessions are more than {WISHES_LIMIT}")
    return tuple(found)


def spec(wish: Wish, epoch: datetime) -> dict[str, Any]:
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
