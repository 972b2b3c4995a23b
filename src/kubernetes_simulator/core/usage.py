"""What a container truly takes over time: curves of straight pieces, whose sums are exact.

A curve rises, stays with waves, noise and spikes on it, and lasts as long as its run; one without
an end repeats its plateau. Time is real seconds since the container started, so that what a
counter counts grows with amount x real seconds whatever the clock factor is.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from kubernetes_simulator.core.inputs import share

PIECES = 48
LEAST_SECONDS = 1e-3


@dataclass(frozen=True)
class Curve:
    """Amounts at even steps, straight between them.

    step: real seconds between two of `values`. repeats: the place of the first value of what comes
    again and again after the last one; None: what comes after the last one is nothing.
    """

    step: float
    values: tuple[float, ...]
    repeats: int | None = None

    @cached_property
    def sums(self) -> tuple[float, ...]:
        """Return the sum of amount x seconds up to each value."""
        areas = ((one + two) / 2 * self.step for one, two in pairwise(self.values))
        return (0.0, *accumulate(areas))

    @property
    def length(self) -> float:
        """Return the seconds up to the last value."""
        return self.step * (len(self.values) - 1)

    def _inside(self, age: float) -> tuple[int, float]:
        """Return how often it has repeated, and the age within."""
        if age <= self.length or self.repeats is None:
            return 0, min(age, self.length)
        start = self.repeats * self.step
        rounds, rest = divmod(age - start, self.length - start)
        return int(rounds), start + rest

    def amount(self, age: float) -> float:
        """Return what is taken at an age."""
        if age < 0 or (age > self.length and self.repeats is None):
            return 0.0
        _, inner = self._inside(age)
        at = min(int(inner / self.step), len(self.values) - 2)
        part = inner / self.step - at
        return self.values[at] * (1 - part) + self.values[at + 1] * part

    def total(self, age: float) -> float:
        """Return the sum of amount x seconds up to an age."""
        if age <= 0:
            return 0.0
        rounds, inner = self._inside(age)
        at = min(int(inner / self.step), len(self.values) - 2)
        rest = inner - at * self.step
        one = self.values[at]
        end = one + (self.values[at + 1] - one) * rest / self.step
        found = self.sums[at] + (one + end) / 2 * rest
        if rounds and self.repeats is not None:
            found += rounds * (self.sums[-1] - self.sums[self.repeats])
        return found

    def most(self, age: float) -> float:
        """Return the most that was taken up to an age."""
        if age < 0:
            return 0.0
        whole = min(int(age / self.step), len(self.values) - 1)
        return max(*self.values[: whole + 1], self.amount(min(age, self.length)))

    def passes(self, limit: float) -> float | None:
        """Return the age at which it first goes over a limit; None if it never does."""
        for at, (one, two) in enumerate(pairwise(self.values)):
            if one > limit:
                return at * self.step
            if two > limit:
                return (at + (limit - one) / (two - one)) * self.step
        return None

    def capped(self, limit: float) -> "Curve":
        """Return the curve of what may take no more than a limit at once."""
        if max(self.values) <= limit:
            return self
        return Curve(self.step, tuple(min(each, limit) for each in self.values), self.repeats)


@dataclass(frozen=True, slots=True)
class Form:
    """How a curve goes.

    ramp: share of the time, or of the cycle, in which it rises. floor: the least of the plateau as
    a share of its top. spike: what a spike multiplies by; 1: there are none.
    """

    ramp: float = 0.1
    floor: float = 0.8
    spike: float = 1.0
    spikes: float = 0.04


STEADY = Form(floor=0.97)


def drawn(top: float, seconds: float, form: Form, *seed: object, endless: bool = False) -> Curve:
    """Draw a curve whose plateau reaches `top` once at least, and never more but in spikes.

    seconds: real ones; of an endless curve those of its cycle.
    """
    seconds = max(seconds, LEAST_SECONDS)
    rise = max(1, round(PIECES * form.ramp))
    phase = share("phase", *seed) * math.tau
    raw = []
    for at in range(rise, PIECES + 1):
        wave = 0.5 + 0.5 * math.sin(phase + at * 0.7)
        noise = share("noise", at, *seed)
        raw.append(form.floor + (1 - form.floor) * (0.6 * wave + 0.4 * noise))
    best = max(raw)
    plateau = [each / best for each in raw]
    rising = [plateau[0] * at / rise for at in range(rise)]
    if form.spike > 1:
        plateau = [
            each * (form.spike if share("spike", at, *seed) < form.spikes else 1.0)
            for at, each in enumerate(plateau)
        ]
    if endless:
        plateau[-1] = plateau[0]
        if not any(each >= 1.0 for each in plateau):
            plateau[len(plateau) // 2] = 1.0
    values = tuple(top * each for each in (*rising, *plateau))
    return Curve(seconds / PIECES, values, rise if endless else None)


def grown(top: float, seconds: float, form: Form, *seed: object, endless: bool = False) -> Curve:
    """Draw a curve that never falls, as memory and disk are not given back: it ends at `top`."""
    seconds = max(seconds, LEAST_SECONDS)
    rise = max(1, round(PIECES * form.ramp))
    early = 0.85 + 0.1 * share("early", *seed)
    values = [
        early * at / rise if at < rise else early + (1 - early) * (at - rise) / (PIECES - rise)
        for at in range(PIECES + 1)
    ]
    steps = tuple(top * each for each in values)
    if endless:
        return Curve(seconds / PIECES, (*steps, steps[-1]), PIECES)
    return Curve(seconds / PIECES, steps)
