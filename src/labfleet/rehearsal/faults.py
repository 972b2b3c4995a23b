"""The faults of a rehearsal: a plan drawn from the seed, and the injector that applies its rates.

There are two sorts. *Rates* make single calls, events and writes fail, each with a small
probability. *Scheduled faults* have a time and a duration: a machine dies, a process is killed, a
disk is full. The plan is a value, so that it can be shown, reduced and run again. This module
decides only what fails and when; `stage.scheduled_faults` makes the scheduled faults happen.

How to add a fault: add its word here (RATES or SCHEDULED), and have the affected world call
`injector.strikes(word)` or add it to `stage.scheduled_faults.ACTS`. Inject only what the product
has to survive: never lose an acknowledged write, never show a reader half of one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from labfleet.rehearsal.time.virtual_host import SeededRng

RATES: dict[str, float] = {
    "call_error": 0.004,
    "call_throttle": 0.003,
    "call_refused": 0.003,
    "call_lost_before": 0.004,
    "call_lost_after": 0.006,
    "call_slow": 0.01,
    "call_late": 0.002,
    "state_stale": 0.1,
    "visible_late": 0.5,
    "write_conflict": 0.004,
    "write_error": 0.002,
    "write_lost_reply": 0.003,
    "event_lost": 0.01,
    "event_twice": 0.01,
    "wake_lost": 0.02,
    "probe_fails": 0.02,
    "page_partial": 0.01,
}
"""Share of calls, writes, events or reads that each fault affects in a harsh plan.

Calls that change something are struck more often: `worlds.wire.CHANGES` times."""

SCHEDULED: dict[str, tuple[float, float, float]] = {
    # word: (a day, shortest span, longest span in seconds)
    "process_killed": (14.0, 1.0, 90.0),
    "killed_at_answer": (8.0, 1.0, 90.0),
    "leader_paused": (6.0, 5.0, 120.0),
    "lead_lost": (8.0, 16.0, 60.0),
    "clock_jump": (3.0, 60.0, 1800.0),
    "cache_stale": (8.0, 5.0, 90.0),
    "instance_death": (2.0, 0.0, 0.0),
    "boot_hangs": (1.5, 0.0, 0.0),
    "check_impaired": (3.0, 30.0, 1800.0),
    "event_scheduled": (1.5, 600.0, 5400.0),
    "console_stop": (1.5, 0.0, 0.0),
    "console_start": (1.0, 0.0, 0.0),
    "console_terminate": (1.0, 0.0, 0.0),
    "cleaner": (0.8, 1200.0, 2400.0),
    "lab_deleted": (1.5, 0.0, 0.0),
    "port_added": (3.0, 0.0, 0.0),
    "lab_at_cordon": (12.0, 120.0, 2400.0),
    "licence_unreachable": (2.0, 300.0, 3600.0),
    "licence_revoked": (1.5, 300.0, 3600.0),
    "server_unreachable": (6.0, 20.0, 900.0),
    "no_stock": (3.0, 300.0, 3600.0),
    "quota_full": (2.0, 300.0, 1800.0),
    "slow_metal": (2.0, 1800.0, 7200.0),
    "ec2_down": (2.0, 20.0, 300.0),
    "credentials_expired": (1.5, 60.0, 900.0),
    "zone_down": (1.5, 300.0, 2700.0),
    "tag_taken": (2.0, 120.0, 5400.0),
    "left_behind": (4.0, 0.0, 0.0),
    "disk_full": (2.0, 10.0, 300.0),
    "core_down": (3.0, 300.0, 7200.0),
    "host_impaired": (2.0, 1200.0, 10800.0),
    "wall_clock_jump": (3.0, 30.0, 3600.0),
    "cut_before_import": (4.0, 300.0, 7200.0),
}
"""Word -> (mean number in a day, shortest and longest span in seconds)."""

RUN_RATES = {"reply_lost": 0.06, "meter_away": 0.01, "meter_late": 0.03}
"""Rates of run scripts: drawn only when there are any, and after all others."""
RUN_SCHEDULED = {
    "killed_at_decision": (10.0, 1.0, 60.0),
    "metrics_stopped": (10.0, 90.0, 1500.0),
    "metrics_wrong": (8.0, 120.0, 1200.0),
    "source_clock": (8.0, 120.0, 1200.0),
    "api_silent": (8.0, 60.0, 1200.0),
    "watch_lost": (24.0, 0.0, 0.0),
    "pod_ended": (12.0, 0.0, 0.0),
    "node_lost": (6.0, 60.0, 1500.0),
}
OF_RUNS = frozenset({*RUN_RATES, *RUN_SCHEDULED})
KINDS = (*RATES, *RUN_RATES, *SCHEDULED, *RUN_SCHEDULED)
LICENCE = frozenset({"licence_unreachable", "licence_revoked"})
CERTAIN = 1 - 1e-9
HARSH, MILD, NONE = "harsh", "mild", "none"
_SCALE = {HARSH: 1.0, MILD: 0.25, NONE: 0.0}


@dataclass(frozen=True, slots=True)
class ScheduledFault:
    """One fault at a time, for a while; `pick` chooses its target."""

    number: int
    word: str
    at: float
    span: float
    pick: float


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Everything that goes wrong in one run."""

    rates: dict[str, float] = field(default_factory=dict)
    scheduled: tuple[ScheduledFault, ...] = ()

    def without(self, words: Iterable[str]) -> FaultPlan:
        """Return the plan less some kinds."""
        out = frozenset(words)
        return FaultPlan(
            {word: rate for word, rate in self.rates.items() if word not in out},
            tuple(each for each in self.scheduled if each.word not in out),
        )

    def keeping(self, numbers: Iterable[int]) -> FaultPlan:
        """Return the plan with only these scheduled faults; rates stay."""
        kept = frozenset(numbers)
        return replace(
            self, scheduled=tuple(each for each in self.scheduled if each.number in kept)
        )


def draw(seed: int, hours: float, *, harshness: str = HARSH, runs: bool = False) -> FaultPlan:
    """Return the plan of a seed for this many virtual hours.

    Each kind is drawn from a random stream of its own, and the intensity of a kind differs from
    seed to seed: some runs have none of it, some twice as much. With `runs` there are run scripts.
    """
    scale = _SCALE[harshness]
    rng = SeededRng(f"{seed}/faults")
    rates = {
        word: rate * scale * _intensity(rng.stream(word))
        for word, rate in {**RATES, **(RUN_RATES if runs else {})}.items()
        if scale
    }
    drawn: list[tuple[float, str, float, float]] = []
    for word, (a_day, low, high) in {**SCHEDULED, **(RUN_SCHEDULED if runs else {})}.items():
        stream = rng.stream(word)
        mean = a_day * scale * hours / 24 * _intensity(stream)
        count = int(mean) + stream.chance(mean - int(mean))
        for _ in range(count):
            at = stream.between(600, max(hours * 3600, 601))
            drawn.append((at, word, stream.between(low, high), stream.random()))
    return FaultPlan(
        rates,
        tuple(
            ScheduledFault(number, word, at, span, pick)
            for number, (at, word, span, pick) in enumerate(sorted(drawn))
        ),
    )


def _intensity(rng: SeededRng) -> float:
    """Return the intensity of a kind in this seed: zero in a fifth of the seeds."""
    intensity = rng.random()
    return 0.0 if intensity < 0.2 else 0.5 + 2.0 * (intensity - 0.2)


class _Countdown:
    """The risk left until a kind strikes next; each call takes off -log(1 - rate)."""

    __slots__ = ("_known", "_rate", "_rng", "left", "risk")

    def __init__(self, rate: float, rng: SeededRng) -> None:
        self._rate = rate
        self._rng = rng
        self._known: dict[float, float] = {}
        self.risk = self.risks(1.0)
        self.left = self.draw()

    def risks(self, times: float) -> float:
        """Return the risk of a call that is `times` as likely to be struck."""
        found = self._known.get(times)
        if found is None:
            found = self._known[times] = -math.log1p(-min(self._rate * times, CERTAIN))
        return found

    def draw(self) -> float:
        """Return the amount of risk until the next strike."""
        return -math.log1p(-self._rng.random())


@dataclass(slots=True)
class Window:
    """One period in which a fault holds; it may have several parts. `met`: it was counted."""

    word: str
    met: bool = False


class FaultInjector:
    """Decides by the rates which calls fail, and counts the faults; `stop` ends all of them."""

    def __init__(self, plan: FaultPlan, rng: SeededRng) -> None:
        self.plan = plan
        self.counts: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        """How many changes of each kind of object listeners did not hear of."""
        self._rng = rng
        self._countdowns: dict[str, _Countdown] = {}
        for word, rate in plan.rates.items():
            self.change(word, rate)
        self._windows: dict[str, list[tuple[object, Window]]] = {}
        self._over = False

    @property
    def over(self) -> bool:
        """Tell whether faults have been stopped."""
        return self._over

    def change(self, word: str, rate: float) -> None:
        """Set the share of calls that a kind strikes from now on."""
        self._countdowns.pop(word, None)
        if rate:
            self._countdowns[word] = _Countdown(rate, self._rng.stream(word))

    def stop(self) -> None:
        """Let nothing go wrong any more."""
        self._over = True
        self._windows.clear()

    def strikes(self, word: str, times: float = 1.0) -> bool:
        """Tell whether this call, write or event is struck, and count it.

        `times` makes it likelier, for places where a fault tests most.
        """
        countdown = self._countdowns.get(word)
        if countdown is None or self._over:
            return False
        # Not a draw each time: one for how much risk is run until the next strike. That is the
        # same chance each time, and most calls are not struck.
        countdown.left -= countdown.risk if times == 1.0 else countdown.risks(times)
        if countdown.left > 0.0:
            return False
        countdown.left = countdown.draw()
        self.counts[word] += 1
        return True

    def first(self, words: Iterable[str], times: float = 1.0) -> str | None:
        """Return the first of the words that strikes."""
        for word in words:
            if self.strikes(word, times):
                return word
        return None

    def begin(self, word: str, who: object, window: Window | None = None) -> Callable[[], None]:
        """Open a window in which a fault holds for `who`; return a function that closes it.

        It is counted when it first strikes somebody, under its own word.
        """
        held = (who, Window(word) if window is None else window)
        self._windows.setdefault(word, []).append(held)

        def end() -> None:
            holders = self._windows.get(word, [])
            holders[:] = [each for each in holders if each is not held]

        return end

    def holds(self, word: str, who: object) -> bool:
        """Tell whether a window is open for `who` (None: for all)."""
        holders = self._windows.get(word)
        if not holders:
            return False
        for whom, window in holders:
            if whom is None or whom == who:
                if not window.met:
                    window.met = True
                    self.counts[window.word] += 1
                return True
        return False
