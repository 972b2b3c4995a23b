"""Holds the token of one boot of one server.

A token belongs to (instance, boot) and is kept by the client of that boot. One login runs at a
time: many callers that get a 401 together log in once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

from labfleet.kernel import errors

TOKEN_SHAPE = re.compile(r"[\x21-\x7e]{1,8192}")


class Login:
    """The token, and the way to a new one."""

    def __init__(self, fetch: Callable[[float], Awaitable[str]]) -> None:
        """Take a coroutine that logs in before a machine instant and returns a token."""
        self._fetch = fetch
        self._token: str | None = None
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        """Say whether there is a token, never which."""
        return f"Login({'in' if self._token else 'out'})"

    @property
    def current(self) -> str | None:
        """The token, when there is one."""
        return self._token

    async def token(self, deadline: float, *, where: str) -> str:
        """Return the token, logging in when there is none; `deadline` in machine time."""
        if self._token is not None:
            return self._token
        try:
            async with asyncio.timeout_at(deadline):
                await self._lock.acquire()
        except TimeoutError:
            raise errors.Temporary(f"{where}: waited for a login", reason="Busy") from None
        try:
            if self._token is None:
                fresh = await self._fetch(deadline)
                if not TOKEN_SHAPE.fullmatch(fresh):
                    raise errors.Protocol(f"{where}: the login gave no usable token")
                self._token = fresh
            return self._token
        finally:
            self._lock.release()

    def reject(self, token: str) -> None:
        """Drop this token, unless somebody has already got a newer one."""
        if self._token == token:
            self._token = None
