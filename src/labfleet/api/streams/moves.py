"""Sessions whose view changed although nobody wrote them: their worker has another address now.

What a session shows of its worker is worked out when it is read, so a client that only follows
changes of sessions would keep an old address. Here is kept, for a bounded while, whose changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from labfleet.decisions import reach
from labfleet.resources.fleet_settings import Settings
from labfleet.resources.meta import Resource
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices, session_view

LENGTH = 1024


class Moves:
    """The newest of them, in the order of the log; `wake` is called for each."""

    def __init__(self, services: ServiceContext, wake: Callable[[], None]) -> None:
        self._services = services
        self._wake = wake
        self._kept: deque[tuple[int, str | None]] = deque(maxlen=LENGTH)
        self._sees = ""
        # The index after the newest: a plain value, for each client asks.
        self.end = 0
        self._floor = 0
        services.cache.on_change(Worker, self._worker)
        services.cache.on_change(Settings, self._settings)

    @property
    def _first(self) -> int:
        return self.end - len(self._kept)

    def after(self, revision: int) -> int:
        """Return the index of the first after a revision; -1 when that is too old to know."""
        if revision < self._floor or not self._floor:
            return -1
        return self._first + sum(at <= revision for at, _ in self._kept)

    def since(self, index: int) -> list[Session]:
        """Return the sessions with a lab that were moved from an index on; at -1 all of them."""
        found: dict[str, Session] = {}
        known = index >= self._first
        for _, worker in list(self._kept)[index - self._first :] if known else [(0, None)]:
            for session in self._on(worker):
                found[session.key.path] = session
        return list(found.values())

    def _on(self, worker: str | None) -> tuple[Session, ...]:
        cache = self._services.cache
        if worker is None:
            return tuple(
                each
                for each in cache.by(indices.SESSIONS_OPEN, True)
                if each.status.phase in reach.UP
            )
        return tuple(
            each
            for each in cache.by(indices.SESSIONS_HERE, worker)
            if each.status.phase in reach.UP
        )

    def _worker(self, old: Resource | None, new: Resource | None) -> None:
        named = new or old
        assert old is None or isinstance(old, Worker)  # noqa: S101 - for the type checker
        assert new is None or isinstance(new, Worker)  # noqa: S101 - for the type checker
        if named is not None and old is not None and session_view.moved(old, new):
            self._note(named.revision, named.key.path)

    def _settings(self, old: Resource | None, new: Resource | None) -> None:
        del old
        sees = self._services.settings.now().access.user_sees
        if self._sees and sees != self._sees and new is not None:
            self._note(new.revision, None)
        self._sees = sees

    def _note(self, revision: int, worker: str | None) -> None:
        if self._services.cache.cursor is None:
            return  # the first list: nobody has read anything yet
        if len(self._kept) == LENGTH:
            self._floor = self._kept[0][0]
        self._kept.append((revision, worker))
        self.end += 1
        self._wake()

    def begun(self) -> None:
        """Take the cache's first list as the beginning of what is known."""
        if not self._floor:
            self._floor = max(1, self._services.cache.revision)
            self._sees = self._services.settings.now().access.user_sees
