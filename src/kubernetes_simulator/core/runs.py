"""What each pod truly takes: its plan by annotations, its attempts, and questions about both.

All times are real seconds since 1970, all ages real seconds.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kubernetes_simulator.core.errors import ApiError
from kubernetes_simulator.core.quantities import read
from kubernetes_simulator.core.usage import STEADY, Curve, Form, drawn, grown

Stage = Literal["pulling", "starting", "running", "resting", "over"]
Figure = Literal["cpu", "memory", "received", "sent", "disk"]
FIGURES: tuple[Figure, ...] = ("cpu", "memory", "received", "sent", "disk")
MOST_ATTEMPTS = 20
STEPS = 4_000
"""Most points at which a mean over a window is looked at for its peak."""
LOOKS = 20_000
"""Most looks at single runs for one peak: of more than five runs at once fewer points are looked at."""


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """What one container takes: cores and bytes over its age."""

    name: str
    cpu: Curve
    memory: Curve


@dataclass(slots=True)
class Attempt:
    """One life of a pod's containers, which start and end together.

    seconds: how long it lasts by itself; None: until it is ended. code, reason: how it ends by
    itself. culprit: the container that is killed for want of memory; "" if none is.
    """

    number: int
    began: float
    seconds: float | None
    containers: tuple[ContainerUse, ...]
    received: Curve
    sent: Curve
    disk: Curve
    code: int = 0
    reason: str = "Completed"
    culprit: str = ""
    ended: float | None = None

    def _curves(self, figure: Figure) -> Sequence[Curve]:
        match figure:
            case "cpu":
                return [each.cpu for each in self.containers]
            case "memory":
                return [each.memory for each in self.containers]
            case "received":
                return (self.received,)
            case "sent":
                return (self.sent,)
            case "disk":
                return (self.disk,)

    def age(self, when: float) -> float:
        """Return how old it is at a time; never older than it became."""
        return min(when, self.ended if self.ended is not None else when) - self.began

    def takes(self, figure: Figure, when: float) -> float:
        """Return what it takes at a time; nothing before its start and after its end."""
        if when < self.began or (self.ended is not None and when > self.ended):
            return 0.0
        return sum(each.amount(when - self.began) for each in self._curves(figure))

    def total(self, figure: Figure, when: float) -> float:
        """Return the sum of amount x seconds up to a time."""
        return sum(each.total(self.age(when)) for each in self._curves(figure))

    def knots(self) -> list[float]:
        """Return the times at which its curves bend, of the first round."""
        step, count = self.received.step, len(self.received.values)
        found = [self.began + at * step for at in range(count)]
        if self.ended is None:
            return found
        return [*(each for each in found if each < self.ended), self.ended]


@dataclass(slots=True)
class Run:
    """What the kubelet of a node does with one pod.

    due: when the stage is over; None: when somebody ends it. deadline: when the pod has run for
    too long. stopping: when it is stopped after a delete. namespace, labels: the pod's when it began,
    by which a run is found when its pod is gone.
    """

    node: str
    stage: Stage
    due: float | None
    began: float
    number: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    stopping: float | None = None
    deadline: float | None = None
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def attempt(self) -> Attempt | None:
        """Return the attempt that runs now."""
        if not self.attempts or self.attempts[-1].ended is not None:
            return None
        return self.attempts[-1]

    def begin(self, attempt: Attempt) -> None:
        """Let an attempt run; the oldest of many is forgotten."""
        self.attempts.append(attempt)
        del self.attempts[:-MOST_ATTEMPTS]

    def takes(self, figure: Figure, when: float) -> float:
        """Return what the pod takes at a time."""
        return sum(each.takes(figure, when) for each in self.attempts)

    def total(self, figure: Figure, when: float) -> float:
        """Return the sum of amount x seconds of all attempts up to a time."""
        return sum(each.total(figure, when) for each in self.attempts if each.began <= when)

    def mean(self, figure: Figure, when: float, window: float) -> float:
        """Return the mean over the seconds before a time; without seconds, what is taken then."""
        if window <= 0:
            return self.takes(figure, when)
        return (self.total(figure, when) - self.total(figure, when - window)) / window


def peak(runs: Iterable[Run], figure: Figure, now: float, window: float) -> float:
    """Return the highest mean over a window that runs reached together up to now."""
    every = list(runs)
    knots = sorted({each for run in every for one in run.attempts for each in one.knots()})
    moments = {min(each + more, now) for each in knots for more in (0.0, window)}
    if knots:
        last = min(now, max(_ends(every, now)) + window)
        step = max(1.0, (last - knots[0]) / STEPS)
        count = int((last - knots[0]) / step)
        moments |= {knots[0] + at * step for at in range(count + 1)} | {last}
    most = max(50, LOOKS // max(1, len(every)))
    chosen = sorted(moments)
    if len(chosen) > most:
        chosen = [chosen[at * len(chosen) // most] for at in range(most)]
    return max((sum(run.mean(figure, at, window) for run in every) for at in chosen), default=0.0)


def _ends(runs: Iterable[Run], now: float) -> list[float]:
    return [now if one.ended is None else one.ended for run in runs for one in run.attempts]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a pod's annotations say of its use; amounts are of the whole pod, seconds simulated.

    None: not said, so that it follows from the pod's requests and limits.
    """

    cpu: float | None = None
    memory: float | None = None
    received: float | None = None
    sent: float | None = None
    disk: float | None = None
    seconds: float | None = None
    code: int = 0
    start: float | None = None
    ramp: float = 0.1
    spike: float = 1.0
    pull_fails: bool = False


PREFIX = "kubernetes-simulator/"


def _duration(text: str) -> float:
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    found = float(number) * unit
    if not 0 <= found < 1e9:
        raise ValueError(text)
    return found


def _amount(text: str) -> float:
    found = read(text)
    if not 0 <= found < 1e18:
        raise ValueError(text)
    return found


def _share(text: str) -> float:
    found = float(text)
    if not 0 <= found <= 0.9:
        raise ValueError(text)
    return found


def _factor(text: str) -> float:
    found = float(text)
    if not 1 <= found <= 1000:
        raise ValueError(text)
    return found


def _code(text: str) -> int:
    found = int(text)
    if not 0 <= found <= 255:
        raise ValueError(text)
    return found


def _fails(text: str) -> bool:
    if text not in {"fail", "work"}:
        raise ValueError(text)
    return text == "fail"


READERS: dict[str, tuple[str, Callable[[str], object], str]] = {
    "cpu": ("cpu", _amount, "cores that the plateau reaches, such as 500m"),
    "memory": ("memory", _amount, "bytes that are reached at the end, such as 300Mi"),
    "network-in": ("received", _amount, "bytes per second received, such as 1M"),
    "network-out": ("sent", _amount, "bytes per second sent"),
    "disk": ("disk", _amount, "bytes that are written by the end"),
    "duration": ("seconds", _duration, "how long containers run before they end: 90s, 15m, 2h"),
    "exit-code": ("code", _code, "what they end with, 0 to 255"),
    "start": ("start", _duration, "how long they take to start"),
    "ramp": ("ramp", _share, "share of the time in which use rises, 0 to 0.9"),
    "spike": ("spike", _factor, "what a spike of CPU and network multiplies by, from 1"),
    "pull": ("pull_fails", _fails, "`fail`: the image is never found"),
}
"""By the annotation's name behind `kubernetes-simulator/`: field, reader, what it says."""


def wish_of(annotations: dict[str, str]) -> tuple[Wish, list[tuple[str, str]]]:
    """Return what annotations say, and (annotation, problem) of each that cannot be read."""
    found: dict[str, object] = {}
    problems = []
    for name, text in annotations.items():
        if not name.startswith(PREFIX):
            continue
        row = READERS.get(name.removeprefix(PREFIX))
        if row is None:
            problems.append((name, f"no such annotation; there are {', '.join(READERS)}"))
            continue
        try:
            found[row[0]] = row[1](text)
        except (ValueError, ApiError):
            problems.append((name, f"{text!r} is not {row[2]}"))
    return Wish(**found), problems  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Box:
    """One container's name, requests and limits, in cores and bytes; None: not said."""

    name: str
    cpu: float | None
    memory: float | None
    cpu_limit: float | None
    memory_limit: float | None


CYCLE = 600.0
"""Simulated seconds after which the use of a pod without an end repeats."""
IDLE_CPU, IDLE_MEMORY = 0.02, 64 * 2.0**20


def _split(whole: float | None, parts: Sequence[float | None], idle: float) -> list[float]:
    """Return each container's share: of what is said of the pod, by requests where all have one."""
    if whole is None:
        return [idle if part is None else part for part in parts]
    known = [part for part in parts if part]
    if len(known) < len(parts):
        return [whole / len(parts)] * len(parts)
    return [whole * part / sum(known) for part in known]


@dataclass(frozen=True, slots=True)
class When:
    """Which life of a pod's containers it is, and for how long.

    began: when it starts. seconds: how long it lasts by itself; None: it has no end. cycle: after
    how long one without an end repeats. All but `began` are real seconds.
    """

    number: int
    began: float
    seconds: float | None
    cycle: float


def plan(wish: Wish, boxes: Sequence[Box], when: When, *seed: object) -> Attempt:
    """Return how a life of a pod's containers goes."""
    endless, number = when.seconds is None, when.number
    length = when.cycle if when.seconds is None else when.seconds
    form = Form(ramp=wish.ramp, spike=wish.spike)
    cpus = _split(wish.cpu, [0.5 * b.cpu if b.cpu else None for b in boxes], IDLE_CPU)
    memories = _split(
        wish.memory, [0.6 * b.memory if b.memory else None for b in boxes], IDLE_MEMORY
    )
    containers, killed, culprit = [], None, ""
    for box, cpu, memory in zip(boxes, cpus, memories, strict=True):
        burn = drawn(cpu, length, form, "cpu", number, box.name, *seed, endless=endless)
        hold = grown(memory, length, form, "memory", number, box.name, *seed, endless=endless)
        if box.cpu_limit is not None:
            burn = burn.capped(box.cpu_limit)
        over = None if box.memory_limit is None else hold.passes(box.memory_limit)
        if over is not None and (killed is None or over < killed):
            killed, culprit = over, box.name
        containers.append(ContainerUse(box.name, burn, hold))
    rate = Form(ramp=wish.ramp, floor=0.7, spike=wish.spike)
    received = drawn(wish.received or 0.0, length, rate, "in", number, *seed, endless=endless)
    sent = drawn(wish.sent or 0.0, length, rate, "out", number, *seed, endless=endless)
    disk = grown(wish.disk or 0.0, length, STEADY, "disk", number, *seed, endless=endless)
    attempt = Attempt(number, when.began, when.seconds, tuple(containers), received, sent, disk)
    if killed is not None:
        attempt.seconds, attempt.culprit = killed, culprit
        attempt.code, attempt.reason = 137, "OOMKilled"
    elif wish.code:
        attempt.code, attempt.reason = wish.code, "Error"
    return attempt
