"""What the cache finds by an index stays true although it is kept between reads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from labfleet.engine.cache import Cache
from labfleet.interfaces import store as stores
from labfleet.resources import kinds
from labfleet.resources.meta import Metadata
from labfleet.resources.session import Session, SessionPhase, SessionSpec, SessionStatus

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
    return [each.name for each in cache.by(Session, "phase", phase)]


def test_an_index_follows_every_change() -> None:
    """Objects that come, move between values and go are found where they are now."""
    nobody: Any = None
    cache = Cache(nobody)
    cache.index(Session, "phase", lambda obj: (obj.status.phase,))
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
    cache.index(Session, "phase", lambda obj: (obj.status.phase,))
    _told(cache, _session("a", SessionPhase.PENDING), 1, "ADDED")
    first = cache.by(Session, "phase", "PENDING")
    _told(cache, _session("b", SessionPhase.RUNNING), 2, "ADDED")
    assert isinstance(first, tuple)
    assert cache.by(Session, "phase", "PENDING") is first
    _told(cache, _session("a", SessionPhase.PENDING), 3, "MODIFIED")
    assert cache.by(Session, "phase", "PENDING")[0].revision == 3
