"""A recorded period: what of it the log covers, and what is refused or said when it does not."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from labfleet.interfaces.store import Event
from labfleet.kernel import errors
from labfleet.rehearsal import plan_command
from labfleet.rehearsal.figures import tally
from labfleet.rehearsal.plans import plan, recording
from labfleet.resources import kinds
from labfleet.resources.machine import CmlSettings, Machine
from labfleet.resources.meta import Metadata, Resource, SecretRef
from labfleet.resources.pool import Pool, PoolSpec
from labfleet.resources.session import Session, SessionPhase, SessionSpec, SessionStatus, Slot
from labfleet.resources.template import Template, TemplateSpec
from labfleet.stores.sqlite import SqliteDatabase

NINE = datetime(2026, 11, 28, 9, tzinfo=UTC)
PLAN = """\
templates: [{name: metal}]
pools: [{name: main, template: metal, track: main}]
definitions: [{name: pod, nodes: [iosv]}]
demand:
  recorded:
    store: sqlite:///labfleet.db
"""


def _at(hours: float) -> datetime:
    return NINE + timedelta(hours=hours)


def _session(name: str, hours: float, **spec: Any) -> Session:
    made = Metadata(name=name, uid=f"u-{name}", creation_timestamp=_at(hours))
    return Session(kind="Session", metadata=made, spec=SessionSpec(**{"definition": "pod", **spec}))


def _event(revision: int, obj: Resource, hours: float) -> Event:
    doc = kinds.encode(obj)
    uid = obj.metadata.uid
    return Event(revision, "MODIFIED", obj.key, uid, doc, _at(hours), "test", "", "")


def _log() -> list[Event]:
    """Return a log of 9 to 13 o'clock: one runs from 10:00 to 12:30, one asks at 11."""
    first, second = _session("first", 1), _session("second", 2)
    states = [
        (first, 1.0, SessionStatus()),
        (first, 1.2, SessionStatus(phase=SessionPhase.RUNNING, started_at=_at(1.2))),
        (second, 2.0, SessionStatus()),
        (
            first, 3.5,
            SessionStatus(
                phase=SessionPhase.COMPLETED, started_at=_at(1.2), ended_at=_at(3.5)
            ),
        ),
    ]  # fmt: skip
    events = [_event(7, _session("early", 0), 0.0)]
    for obj, hours, status in states:
        changed = msgspec.structs.replace(obj, status=status)
        events.append(_event(len(events) + 7, changed, hours))
    return [*events, _event(99, _session("late", 4), 4.0)]


@pytest.mark.parametrize(
    ("begin", "end", "from_hour", "hours", "asked", "told"),
    [
        (None, None, 0, 4.0, 3, ""),
        (1.0, 3.0, 1, 2.0, 2, ""),
        (None, 3.0, 0, 3.0, 3, ""),
        (-24.0, 3.0, 0, 3.0, 3, "only 3.0 of 27.0 h are played; what was before is not in it"),
        (1.0, 100.0, 1, 3.0, 2, "to 2026-11-28T13:00:00+00:00: only 3.0 of 99.0 h are played"),
        (-0.01, 4.01, -0.01, 4.02, 4, ""),
    ],
)
def test_a_period_is_never_longer_than_the_log(
    begin: float | None, end: float | None, from_hour: float, hours: float, asked: int, told: str
) -> None:
    """What the log does not cover is not played as if nobody had come, and that is said."""
    bounds = [None if each is None else _at(each) for each in (begin, end)]
    found = recording.read(iter(_log()), *bounds)
    assert found.begin == _at(from_hour)
    assert found.crowd.seconds == pytest.approx(hours * 3600)
    assert len(found.crowd.wishes) == asked
    assert "".join(found.crowd.notes).endswith(told) or told in found.crowd.notes[0]
    assert bool(found.crowd.notes) == bool(told)


@pytest.mark.parametrize(
    ("begin", "end", "told", "key"),
    [
        (10.0, 20.0, "nothing was recorded then: the log covers 2026-11-28T09:00:00", "from"),
        (10.0, None, "nothing was recorded then", "from"),
        (-20.0, -10.0, "nothing was recorded then", "to"),
        (2.5, 3.0, "nobody asked for a session from 2026-11-28T11:30:00", "recorded"),
    ],
)
def test_a_period_without_a_record_is_refused(
    begin: float, end: float | None, told: str, key: str
) -> None:
    """Outside the log there is no answer, and the sentence says what there is."""
    with pytest.raises(plan.Wrong) as caught:
        recording.read(iter(_log()), _at(begin), None if end is None else _at(end))
    assert caught.value.message.startswith(told)
    assert caught.value.steps[-1] == key


def test_an_empty_log_is_refused() -> None:
    """A store without a single event has no period."""
    with pytest.raises(plan.Wrong, match="the log of this store is empty"):
        recording.read(iter([]), None, None)


def test_what_came_of_a_period_counts_up_to_its_end() -> None:
    """A session that ended after the period is unfinished in it, as a played one is."""
    found = recording.read(iter(_log()), _at(1), _at(3))
    figures = tally.figures(found.tally, found.crowd.seconds)
    assert (figures.requested, figures.completed, figures.unfinished) == (2, 0, 2)
    whole = recording.read(iter(_log()), None, None)
    assert tally.figures(whole.tally, whole.crowd.seconds).completed == 1


@pytest.mark.parametrize(("gone", "there"), [(0.5, False), (2.5, True)])
@pytest.mark.parametrize("kind", ["deleting", "DELETED"])
def test_what_was_deleted_before_the_period_is_not_in_its_fleet(
    gone: float, there: bool, kind: str
) -> None:
    """A pool that ended before `from` is not played; one that ended later was there."""
    made = Metadata(name="old", uid="u-old", creation_timestamp=_at(0))
    old = Pool(kind="Pool", metadata=made, spec=PoolSpec(template="metal"))
    ending = _event(5, old, gone)
    if kind == "deleting":
        marked = msgspec.structs.replace(made, deletion_timestamp=_at(gone))
        ending = _event(5, msgspec.structs.replace(old, metadata=marked), gone)
    else:
        ending = replace(ending, type="DELETED")
    events = sorted([*_log(), _event(4, old, 0.0), ending], key=lambda event: event.at)
    found = recording.read(iter(events), _at(1), _at(3))
    assert (("Pool", "old") in found.fleet) is there


@pytest.mark.parametrize("begin", [None, -24.0])
def test_a_compacted_log_begins_where_nothing_is_missing(begin: float | None) -> None:
    """An ancient template that compaction left is in the fleet, and adds no empty months."""
    made = Metadata(name="metal", uid="u-metal", creation_timestamp=_at(-2400))
    machine = Machine(cml=CmlSettings(admin_password=SecretRef(env="CML_PASSWORD")))
    old = Template(kind="Template", metadata=made, spec=TemplateSpec(machine=machine))
    events = [_event(2, old, -2400.0), *_log()]
    start = None if begin is None else _at(begin)
    found = recording.read(iter(events), start, None, horizon=6, young=_at(-2160))
    assert (found.begin, found.crowd.seconds) == (_at(0), 4 * 3600)
    assert ("Template", "metal") in found.fleet
    assert bool(found.crowd.notes) is (begin is not None)
    young = recording.read(iter(events), start, None, horizon=50, young=_at(0.5))
    assert young.begin == _at(1)


def test_acts_after_the_period_are_still_known() -> None:
    """Who extended after the period's end does so in the play that goes on beyond it."""
    slot = Slot(start=_at(2), end=_at(3))
    booked = _session("booked", 1, slot=slot)
    longer = msgspec.structs.replace(slot, end=_at(4))
    later = msgspec.structs.replace(booked, spec=msgspec.structs.replace(booked.spec, slot=longer))
    events = [_event(1, booked, 1), _event(2, later, 2.5), _event(3, later, 4)]
    (wish,) = recording.read(iter(events), _at(0.995), _at(2)).crowd.wishes
    assert [(act.word, act.seconds) for act in wish.acts] == [("extend", 3600.0)]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("", "line 6: demand.recorded.store: there is no store file"),
        ("    from: 2026-11-28T09:00:00\n    to: 2026-11-28T08:00:00Z\n",
         "line 8: demand.recorded.to: 2026-11-28T08:00:00+00:00 is not after from"),
        ("    from: yesterday\n", "line 7: demand.recorded.from: write an instant, for example"),
        ("hours: 1\n", "line 7: hours: a recorded period has its own length"),
        ("    until: 2026-11-28T09:00:00Z\n",
         "line 7: demand.recorded.until: unknown key; known: store, namespace, from, to"),
    ],
)  # fmt: skip
def test_a_wrong_period_is_refused_with_its_place(tmp_path: Path, more: str, told: str) -> None:
    """What is wrong with a recorded demand is named with file and line."""
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN + more)
    with pytest.raises(errors.Invalid) as caught:
        plan_command.cases_of(plan.load(path), tmp_path)
    assert caught.value.message.startswith(f"{path}, {told}")


def test_an_instant_without_a_zone_is_utc(tmp_path: Path) -> None:
    """People write local-looking instants; they are what the doc says, and never a traceback."""
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN + "    from: 2026-11-28T09:00:00\n")
    source = plan.load(path).demand.recorded
    assert source is not None
    assert source.begin == NINE


def test_a_store_of_another_version_is_named_with_what_to_do(tmp_path: Path) -> None:
    """A store that this version did not make is refused with its file and a way out."""
    SqliteDatabase(str(tmp_path / "labfleet.db"), epoch="e1", readers=1).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "labfleet.db")) as store, store:
        store.execute("UPDATE migrations SET digest = 'other' WHERE number = 1")
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    with pytest.raises(errors.Invalid) as caught:
        plan_command.cases_of(plan.load(path), tmp_path)
    assert f"{tmp_path / 'labfleet.db'} was written by another version" in caught.value.message
    assert "ask with the version that runs that server" in caught.value.message
    assert "line 6" in caught.value.message


def test_the_store_of_the_example_is_the_readers_own() -> None:
    """The plan of the guide that names a store says that its path must be edited."""
    path = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "what-if" / "last-week.yaml"
    assert "edit" in path.read_text(encoding="utf-8").split("store:", 1)[1].splitlines()[0].lower()
    with pytest.raises(
        errors.Invalid, match=r"line \d+: demand\.recorded\.store: .*write the path"
    ):
        plan_command.cases_of(plan.load(path), path.parent)
