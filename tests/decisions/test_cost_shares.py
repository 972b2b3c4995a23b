"""Paid time split by what it was for: the parts are the whole, whoever came and went."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions.costs import shares, statements
from labfleet.decisions.costs.shares import Paid, Ran, Stay, Window

NOON = datetime(2026, 11, 5, 12, tzinfo=UTC)
MONTH = Window.of(datetime(2026, 11, 1, tzinfo=UTC))
HOUR = Decimal("3.6")
DISK = Decimal(720)
"""A month of November has 720 hours: a disk of 720 a month costs 1 an hour."""


def at(seconds: float) -> datetime:
    """Return an instant after noon."""
    return NOON + timedelta(seconds=seconds)


def ran(start: float, end: float, ready: float | None = None, **more: object) -> Ran:
    """Return one run of a machine."""
    seen = None if ready is None else at(ready)
    return Ran(at(start), at(end), seen, HOUR, **more)  # type: ignore[arg-type]


def paid(*runs: Ran, until: float = 7200, disk: Decimal | None = DISK, **more: object) -> Paid:
    """Return the paid time of a machine that was launched at noon."""
    return Paid(
        worker="u1", name="w1", machine="i-1", pool="exam", namespace="default", region="r",
        kind="m", runs=runs, disk_from=NOON, disk_to=at(until), disk=disk, **more,
    )  # type: ignore[arg-type]  # fmt: skip


def stay(name: str, start: float, end: float, cpu: float = 1, memory: float = 1) -> Stay:
    """Return a session's time on the worker."""
    return Stay("u1", name, f"{name}-owner", "c", at(start), at(end), (cpu, memory))


def by_kind(machine: Paid, *stays: Stay) -> dict[str, float]:
    """Return the hours by kind, without those that are 0."""
    found = statements.whole(shares.parts([machine], {"u1": stays}, MONTH))
    return {kind: float(each) / 3600 for kind, each in found.seconds.items() if each}


def test_a_day_is_warming_used_idle_and_stopped() -> None:
    """Half an hour to be ready, an hour with a session, idle to the stop, then only the disk."""
    machine = paid(ran(0, 3 * 3600, 1800), until=10 * 3600)
    assert by_kind(machine, stay("a", 3600, 7200)) == {
        "warming": 0.5, "used": 1.0, "idle": 1.5, "stopped": 7.0,
    }  # fmt: skip


def test_sessions_share_by_the_larger_part_of_their_claims() -> None:
    """A session with three times the memory of another pays three times as much of the time."""
    machine = paid(ran(0, 3600, 0), until=3600)
    both = [stay("a", 0, 3600, cpu=2, memory=1), stay("b", 0, 3600, cpu=2, memory=3)]
    sums = statements.summed(shares.parts([machine], {"u1": both}, MONTH), "session")
    whole = HOUR + 1
    assert float(sums["a"].total / whole) == 0.4  # 0.5 of the CPU beside 0.75 of the memory
    assert sums["a"].total + sums["b"].total == whole


def test_a_short_start_costs_a_minute() -> None:
    """Three seconds of running cost sixty, and the rest of them is idle time of nobody."""
    short = paid(ran(0, 3, 0), until=3, disk=Decimal(0))
    found = statements.whole(shares.parts([short], {"u1": [stay("a", 0, 3)]}, MONTH))
    assert found.total == HOUR * 60 / 3600
    assert found.seconds["used"] == 3


def test_what_has_no_price_is_in_no_sum_and_is_said() -> None:
    """An unknown price is no 0: its hours are told apart, with the name of what it is of."""
    unknown = Ran(at(0), at(3600), at(0), None)
    machine = paid(unknown, until=3600, unpriced=("m in r",))
    found = statements.whole(shares.parts([machine], {}, MONTH))
    assert found.total == 1  # the disk
    assert found.unpriced_seconds == 3600
    assert found.unpriced == {"m in r"}


def test_a_machine_that_is_stopped_all_month_is_not_warming() -> None:
    """Its last run is a row of the month before, which is not read: the disk is a stopped one's."""
    before = MONTH.start - timedelta(days=40)
    run = Ran(MONTH.start + timedelta(days=2), MONTH.start + timedelta(days=3), None, HOUR)
    for runs, days in ((), 30), ((run,), 29):
        machine = replace(paid(*runs), disk_from=before, disk_to=MONTH.end)
        assert by_kind(machine).get("stopped") == days * 24
        young = replace(machine, disk_from=MONTH.start)
        assert by_kind(young)["stopped"] == days * 24 - 0.5


class Counted(datetime):
    """An instant that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: datetime) -> bool:
        """Count, and compare."""
        Counted.compared += 1
        return super().__lt__(other)

    def __le__(self, other: datetime) -> bool:
        """Count, and compare."""
        Counted.compared += 1
        return super().__le__(other)

    def __gt__(self, other: datetime) -> bool:
        """Count, and compare."""
        Counted.compared += 1
        return super().__gt__(other)

    def __ge__(self, other: datetime) -> bool:
        """Count, and compare."""
        Counted.compared += 1
        return super().__ge__(other)


def test_the_work_grows_with_the_sessions_and_not_with_their_square() -> None:
    """Four times the sessions that follow one another on a worker cost some four times the work."""
    first = Counted.fromtimestamp(NOON.timestamp(), UTC)
    looks = []
    for many in (100, 400):
        stays = [
            replace(stay(f"s{number}", 0, 0), start=start, end=start + timedelta(seconds=150))
            for number in range(many)
            for start in [first + timedelta(seconds=60 * number)]
        ]
        Counted.compared = 0
        length = 60 * many
        parts = [*shares.parts([paid(ran(0, length, 0), until=length)], {"u1": stays}, MONTH)]
        assert len({each.session for each in parts}) == many
        looks.append(Counted.compared)
    assert 0 < looks[1] < 6 * looks[0]


def test_the_idle_rule_saved_the_time_until_the_next_start() -> None:
    """Only stops by the rule count, each until the machine ran again or was gone."""
    machine = paid(
        ran(0, 600, 0, idle_stop=True), ran(4200, 5000, 4300), ran(6000, 6600, 6000, idle_stop=True)
    )
    assert shares.idle_saved(machine, MONTH) == HOUR * (3600 + 600) / 3600


def test_a_month_has_what_lies_in_it() -> None:
    """A machine that runs over the end of a month is paid in both, each its part."""
    end = MONTH.end
    run = Ran(end - timedelta(hours=1), end + timedelta(hours=2), None, HOUR)
    machine = Paid("u", "w", "i", "p", "default", "r", "m", (run,), run.start, run.end, Decimal(0))
    november = statements.whole(shares.parts([machine], {}, MONTH)).total
    december = statements.whole(shares.parts([machine], {}, Window.of(end))).total
    assert (november, december) == (HOUR, HOUR * 2)


Spans = st.tuples(st.integers(0, 9000), st.integers(1, 5000))


@given(
    st.lists(Spans, max_size=6),
    st.lists(st.tuples(st.integers(61, 2000), st.integers(1, 3000)), min_size=1, max_size=4),
    st.sampled_from(["pool", "session", "person", "course"]),
)
def test_the_parts_are_the_whole(
    stays: list[tuple[int, int]], lives: list[tuple[int, int]], by: statements.By
) -> None:
    """Whoever comes and goes, the sums by anything come to the price of the time that was paid."""
    runs, clock = [], 0
    for length, rest in lives:
        runs.append(ran(clock, clock + length, clock + length // 3))
        clock += length + rest
    machine = paid(*runs, until=clock)
    there = [
        stay(f"s{number}", start, start + length, cpu=number % 3, memory=number % 2)
        for number, (start, length) in enumerate(stays)
    ]
    sums = statements.summed(shares.parts([machine], {"u1": there}, MONTH), by)
    total = sum((each.total for each in sums.values()), Decimal(0))
    seconds = sum(length for length, _ in lives)
    assert abs(total - (HOUR * seconds + clock) / 3600) < Decimal("1e-12")


@given(st.lists(st.decimals(0, 1000, places=9), max_size=30))
def test_rounded_rows_add_up(amounts: list[Decimal]) -> None:
    """Rounded rows come to their exact sum, rounded, and none is off by a whole unit."""
    found = statements.rounded(amounts)
    exact = sum(amounts, Decimal(0))
    assert sum(found, Decimal(0)) == exact.quantize(statements.MICRO)
    pairs = zip(found, amounts, strict=True)
    assert all(abs(row - each) < statements.MICRO for row, each in pairs)
