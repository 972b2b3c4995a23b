"""What the cache finds by an index stays true although it is kept between reads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from labfleet.engine.cache import Cache
from labfleet.engine.index import Index
from labfleet.interfaces import store as stores
from labfleet.resources import kinds
from labfleet.resources.meta import Metadata
from labfleet.resources.session import Session, SessionPhase, SessionSpec, SessionStatus

PHASE: Index[Session, str] = Index(Session, "phase", lambda obj: (obj.status.phase,))
NOW = datetime(2026, 11, 27, tzinfo=UTC)


def _session(name: str, phase: SessionPhase) -> Session:
    return Session(
        metadata=Metadata(name=name, uid=name),
        spec=SessionSpec(definition="pod"),
        status=SessionStatus(phase=phase),
    )


def _told(cache: Cache, session: Session, revision: int, word: stores.EventType) -> None:
    cache.event(
        stores.Event(
            revision=revision, type=word, key=session.key, uid=session.metadata.uid,
            doc=kinds.encode(session), at=NOW, actor="", request_id="", reason="",
        )
    )  # fmt: skip


def _names(cache: Cache, phase: str) -> list[str]:
    return [each.name for each in cache.by(PHASE, phase)]


def test_an_index_follows_every_change() -> None:
    """Objects that come, move between values and go are found where they are now."""
    nobody: Any = None
    cache = Cache(nobody)
    cache.declare(PHASE)
    assert _names(cache, "PENDING") == []
    _told(cache, _session("b", SessionPhase.PENDING), 1, "ADDED")
    assert _names(cache, "PENDING") == ["b"]
    _told(cache, _session("a", SessionPhase.PENDING), 2, "ADDED")
    assert _names(cache, "PENDING") == ["a", "b"]
    _told(cache, _session("b", SessionPhase.RUNNING), 3, "MODIFIED")
    assert (_names(cache, "PENDING"), _names(cache, "RUNNING")) == (["a"], ["b"])
    _told(cache, _session("a", SessionPhase.PENDING), 4, "DELETED")
    assert _names(cache, "PENDING") == []


def test_what_is_read_of_an_index_is_the_same_until_it_changes() -> None:
    """Nobody can change it, and who keeps what was worked out of it sees by `is` when to redo it."""
    nobody: Any = None
    cache = Cache(nobody)
    cache.declare(PHASE)
    _told(cache, _session("a", SessionPhase.PENDING), 1, "ADDED")
    first = cache.by(PHASE, "PENDING")
    _told(cache, _session("b", SessionPhase.RUNNING), 2, "ADDED")
    assert isinstance(first, tuple)
    assert cache.by(PHASE, "PENDING") is first
    _told(cache, _session("a", SessionPhase.PENDING), 3, "MODIFIED")
    assert cache.by(PHASE, "PENDING")[0].revision == 3


def test_values_counts_and_single_objects_are_read_without_the_rest() -> None:
    """A value is there while an object has it; each is yielded in key order until one stops."""
    nobody: Any = None
    cache = Cache(nobody)
    cache.declare(PHASE)
    for revision, name in enumerate(("b", "c", "a"), 1):
        _told(cache, _session(name, SessionPhase.PENDING), revision, "ADDED")
    _told(cache, _session("c", SessionPhase.RUNNING), 4, "MODIFIED")
    assert set(cache.values(PHASE)) == {"PENDING", "RUNNING"}
    assert (cache.count(PHASE, "PENDING"), cache.count(PHASE, "FAILED")) == (2, 0)
    assert next(cache.each(PHASE, "PENDING")).name == "a"
    _told(cache, _session("c", SessionPhase.RUNNING), 5, "DELETED")
    assert cache.values(PHASE) == ("PENDING",)


def test_an_object_is_found_by_uid_and_its_name_is_taken_while_it_is_there() -> None:
    """A new object of the same name has a uid of its own; the old one's finds nothing."""
    nobody: Any = None
    cache = Cache(nobody)
    _told(cache, _session("a", SessionPhase.PENDING), 1, "ADDED")
    first = cache.of_uid(Session, "a")
    assert first is not None
    assert first.name == "a"
    assert ("a" in cache.names(Session, "default"), "a" in cache.names(Session, "exam")) == (
        True, False,
    )  # fmt: skip
    again = msgspec.structs.replace(first, metadata=Metadata(name="a", uid="other"))
    _told(cache, again, 2, "MODIFIED")
    assert cache.of_uid(Session, "a") is None
    assert cache.of_uid(Session, "other") is cache.get(Session, "a", "default")


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["", "x", "y"]))))
def test_an_index_equals_the_scan_that_it_replaces(steps: list[tuple[str, str]]) -> None:
    """After any history each value finds, in order, what a scan of all objects would find."""
    nobody: Any = None
    cache = Cache(nobody)
    owner: Index[Session, str] = Index(Session, "owner", lambda obj: (obj.spec.owner, "any"))
    cache.declare(owner)
    for revision, (name, who) in enumerate(steps, 1):
        session = _session(name, SessionPhase.PENDING)
        spec = msgspec.structs.replace(session.spec, owner=who)
        word: stores.EventType = "MODIFIED" if who else "DELETED"
        _told(cache, msgspec.structs.replace(session, spec=spec), revision, word)
        everything = cache.all(Session)
        assert [each.key for each in everything] == sorted(each.key for each in everything)
        assert cache.keys(Session) == tuple(each.key for each in everything)
        assert cache.by(owner, "any") == everything
        for value in ("x", "y"):
            scanned = tuple(each for each in everything if each.spec.owner == value)
            assert cache.by(owner, value) == scanned == tuple(cache.each(owner, value))
            assert cache.count(owner, value) == len(scanned)
