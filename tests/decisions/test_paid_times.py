"""Which time of a machine is paid: from look to look, whatever was missed in between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions.costs import paid_times
from labfleet.decisions.costs.paid_times import Look, Over
from labfleet.resources.machine import MachineStatus

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
BOOT = 60


def at(seconds: float) -> datetime:
    """Return an instant after noon."""
    return NOON + timedelta(seconds=seconds)


def machine(
    state: str | None, *, launched: float = 0, stopped: float | None = None
) -> MachineStatus:
    """Return what a look at the machine shows."""
    told = None if stopped is None else at(stopped)
    return MachineStatus(id="i-1", state=state, launched=at(launched), stopped_at=told)  # type: ignore[arg-type]


def seen(*looks: tuple[float, MachineStatus], blind: bool = False) -> list[Over]:
    """Return what is over after these looks; `blind`: each by a process of its own."""
    paid, found, before = None, [], None
    for now, shown in looks:
        paid, over = paid_times.follow(paid, shown, Look(at(now), None if blind else before))
        found += over
        before = at(now)
    return found


def test_a_life_is_paid_from_running_to_the_told_stop() -> None:
    """The start is the look that saw it, the end is what the provider told, however late it is seen."""
    over = seen(
        (1, machine("booting")), (50, machine("booting")), (60, machine("running")),
        (5000, machine("stopped", stopped=3660)), (9000, machine("gone", stopped=3660)),
    )  # fmt: skip
    assert [(each.what, each.start, each.end) for each in over] == [
        ("running", at(60), at(3660)),
        ("disk", at(0), at(9000)),
    ]
    assert over[0].uncertain == 10


def test_a_start_that_nobody_saw_counts_from_its_launch_and_says_so() -> None:
    """After an outage the whole time since the launch is counted, never less, with the doubt."""
    paid, _ = paid_times.follow(None, machine("running"), Look(at(7200)))
    assert paid is not None
    assert paid.running_since == at(0)
    assert paid.uncertain_seconds == paid_times.LONGEST_START.total_seconds()


def test_a_stop_and_start_that_nobody_saw_are_two_runs() -> None:
    """Another launch time means another run; the first ended before it, nobody knows how much."""
    over = seen(
        (0, machine("booting")), (60, machine("running")), (9000, machine("running", launched=8000)),
        (9100, machine("stopped", launched=8000, stopped=9050)),
    )  # fmt: skip
    assert [(each.start, each.end, each.uncertain > 0) for each in over] == [
        (at(60), at(8000), True),
        (at(8000), at(9050), True),
    ]


def test_an_old_state_that_shows_again_is_no_second_start() -> None:
    """EC2 may show the state before: a run that is over is not begun again by it."""
    over = seen(
        (0, machine("booting")), (60, machine("running")), (100, machine("booting")),
        (200, machine("stopping", stopped=200)), (210, machine("running")),
        (300, machine("stopped", stopped=200)),
    )  # fmt: skip
    assert [(each.start, each.end) for each in over] == [(at(60), at(200))]


def test_a_whole_run_that_nobody_saw_is_paid() -> None:
    """A machine that was started and stopped during an outage is counted between the told instants."""
    over = seen(
        (0, machine("booting")), (60, machine("running")), (100, machine("stopped", stopped=90)),
        (9000, machine("stopped", launched=200, stopped=8000)), blind=True,
    )  # fmt: skip
    assert [(each.start, each.end) for each in over] == [(at(60), at(90)), (at(200), at(8000))]


def test_an_answered_stop_waits_for_the_told_instant() -> None:
    """While the list does not tell the instant yet, the run is not closed by a guess."""
    assert seen((0, machine("booting")), (9, machine("running")), (20, machine("stopping"))) == []


def test_a_lost_machine_is_paid_until_it_was_missed() -> None:
    """Of a machine that is gone without a word, the end is when it was first missed, with doubt."""
    paid, _ = paid_times.follow(None, machine("booting"), Look(at(0)))
    paid, _ = paid_times.follow(paid, machine("running"), Look(at(30), at(0)))
    lost = MachineStatus(id="i-1", state="running", launched=at(0), absent_since=at(500))
    _, over = paid_times.follow(paid, lost, Look(at(700), at(480), gone=True))
    assert [(each.what, each.end, each.uncertain) for each in over] == [
        ("running", at(500), 20 + 30),
        ("disk", at(700), 0),
    ]


Lives = st.lists(
    st.tuples(st.integers(BOOT + 90, 4000), st.integers(60, 4000)), min_size=1, max_size=4
)


@given(Lives, st.lists(st.integers(1, 900), min_size=1, max_size=40), st.booleans())
def test_looks_at_any_times_differ_by_no_more_than_they_say(
    lives: list[tuple[int, int]], steps: list[int], blind: bool
) -> None:
    """Whenever somebody looks, the sum is the truth within the stated doubt, and never below it
    by more than a start that was seen within a minute; no run here is shorter than that."""
    truth, looks, clock = 0, [], 0
    runs: list[tuple[int, int]] = []  # asked to start, asked to stop
    for run, rest in lives:
        runs.append((clock, clock + run))
        truth += run - BOOT
        clock += run + rest
    moments, now = [0], 0  # the answer to a launch is a look
    for step in steps * 40:
        now += step
        if now < clock:
            moments.append(now)
    # A whole run between two looks can be told only while it is the last one.
    moments += [stop + 1 for _, stop in runs]
    moments.sort()
    for now in [*moments, clock]:
        start, stop = next(each for each in reversed(runs) if each[0] <= now)
        if now >= stop:
            looks.append((now, machine("stopped", launched=start, stopped=stop)))
        else:
            state = "running" if now >= start + BOOT else "booting"
            looks.append((now, machine(state, launched=start)))
    over = [each for each in seen(*looks, blind=blind) if each.what == "running"]
    total = sum((each.end - each.start).total_seconds() for each in over)
    doubt = sum(each.uncertain for each in over)
    assert abs(total - truth) <= doubt
    assert all(x.end <= y.start for x, y in pairwise(over))
