"""How many large bodies are read at a time: each is held in memory until it was made sense of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from labfleet.api.core.writes import LIMITED
from labfleet.engine.aside import LARGE
from labfleet.kernel import errors
from labfleet.service.core.access import Principal

AT_ONCE = 8
OF_ONE = 2
"""One user's slow uploads must not keep everybody else's waiting."""
OF_LIMITED = AT_ONCE - OF_ONE
"""All users and runners together: those who run the fleet find a place when these hold theirs."""
AGAIN_SECONDS = 2.0


class LargeBodies:
    """The places of one process; a body of up to `engine.aside.LARGE` bytes needs none."""

    def __init__(self) -> None:
        self._limited: Counter[str] = Counter()
        self._others = 0

    @contextmanager
    def place(self, who: Principal) -> Iterator[None]:
        """Hold one of the places; Temporary (reason Busy) when the caller finds none."""
        limited = who.role in LIMITED
        self._refuse(who if limited else None)
        if not limited:
            self._others += 1
        else:
            self._limited[who.id] += 1
        try:
            yield
        finally:
            if not limited:
                self._others -= 1
            else:
                self._limited -= Counter((who.id,))  # drops what counts nothing

    def _refuse(self, who: Principal | None) -> None:
        limited = self._limited.total()
        if who is not None and self._limited[who.id] >= OF_ONE:
            told = f"{OF_ONE} of yours"
        elif self._others + limited >= (AT_ONCE if who is None else OF_LIMITED):
            told = "as many as there may be"
        else:
            return
        message = f"{told} are on their way already, of more than {LARGE // 1024} KiB"
        raise errors.Temporary(
            f"too many large bodies: {message}", reason="Busy", retry_after=AGAIN_SECONDS
        )
