"""Bearer tokens: made once, shown once, kept as a hash.

A token is `lf_<id>_<secret>`; the secret has 256 random bits, so one SHA-256 is enough and no
slow password hash is needed. A calendar feed's token, which stands in an address because calendar
programs send no headers, opens that one calendar and is no bearer token. Rows are kept in memory for a few seconds, so a revocation by
another process counts after `REFRESH_SECONDS` at most; one by this process counts at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NoReturn, Protocol

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.kernel.ids import IdSource
from labfleet.service.core import access, roles
from labfleet.service.core.access import Principal, Role

REFRESH_SECONDS = 5.0
MISS_SECONDS = 1.0
TOKEN_LIMIT = 10_000
OWNER_LIMIT = 256
FIRST = "first-token"
FEED = "calendar"
"""What a calendar feed's token has for a role: it may do nothing that a role may."""
FEED_LIFE = timedelta(days=366)
"""An address that nobody uses any more must not stay open for ever."""


@dataclass(frozen=True, slots=True)
class HeldToken:
    """The token of an open stream, which is judged as long as the stream lives."""

    tokens: Tokens
    text: str = field(repr=False)
    principal: Principal

    def ended(self) -> bool:
        """Tell whether it is known here that the token is no longer valid; reads nothing."""
        return self.tokens.ended(self.principal)

    async def check(self) -> None:
        """Ask the store; raise Denied when the token is no longer valid."""
        await self.tokens.authenticate(self.text)


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token with its text, which is never shown again."""

    row: stores.TokenRow
    text: str = field(repr=False)


class TokensAndLeases(stores.TokenStore, stores.LeaseStore, Protocol):
    """Where tokens are kept; a lease lets one process alone make the first of them."""


class Tokens:
    """All tokens of an installation."""

    def __init__(self, store: TokensAndLeases, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._rows: dict[str, stores.TokenRow] = {}
        self._read_at = float("-inf")
        self._making = asyncio.Lock()

    async def authenticate(self, text: str) -> Principal:
        """Return the token's principal; raise Denied (reason Unauthenticated) if it is unknown."""
        row = await self._judged(text)
        if row.role == FEED:
            told = "this token opens a calendar feed and nothing else"
            raise errors.Denied(told, reason="Unauthenticated")
        return Principal(id=row.id, role=role_of(row), owner=row.owner)

    async def of_feed(self, text: str) -> Principal:
        """Return whose calendar a feed's token opens, as a user; Denied for every other token."""
        row = await self._judged(text)
        if row.role != FEED:
            _unknown()
        return Principal(id=row.id, role=Role.USER, owner=row.owner)

    async def _judged(self, text: str) -> stores.TokenRow:
        """Return the row of a token that is valid; Denied (Unauthenticated) for any other text."""
        name, secret = _split(text)
        age = _machine_now() - self._read_at
        if age > REFRESH_SECONDS or (name not in self._rows and age > MISS_SECONDS):
            await self._read()
        row = self._rows.get(name)
        # Compare even without a row, so that the response time reveals nothing about ids.
        same = hmac.compare_digest(hash_of(secret), "-" * 64 if row is None else row.hash)
        if row is None or not same:
            _unknown()
        if row.revoked is not None:
            raise errors.Denied("the token was revoked", reason="Unauthenticated")
        if row.expires is not None and row.expires <= self._clock.now():
            raise errors.Denied("the token has expired", reason="Unauthenticated")
        return row

    def ended(self, principal: Principal) -> bool:
        """Tell whether this process knows that a principal's token was revoked or has expired.

        Reads nothing: a stream asks before each frame.
        """
        row = self._rows.get(principal.id)
        if row is None or row.revoked is not None:
            return True
        return row.expires is not None and row.expires <= self._clock.now()

    def ends(self, principal: Principal) -> datetime | None:
        """Return when a principal's token expires, as known here; None for never. Reads nothing."""
        row = self._rows.get(principal.id)
        return None if row is None else row.expires

    async def create(
        self,
        caller: Principal,
        *,
        role: str,
        owner: str,
        expires: datetime | None = None,
        key: str | None = None,
    ) -> NewToken:
        """Create a token; its text is only in the returned value.

        `key` is the caller's idempotency key: under it one token is made. Conflict (AlreadyMade) when
        it was, because its text cannot be shown again.
        """
        access.demand(caller, "tokens", "Token")
        problems: list[tuple[str, str]] = []
        if role not in roles.FOR_TOKENS:
            now = roles.EARLIER.get(role)
            hint = "" if now is None else f" ({role} was divided into {now} and runner)"
            problems.append(("role", "one of " + ", ".join(roles.FOR_TOKENS) + hint))
        if not owner or len(owner) > OWNER_LIMIT or not owner.isprintable():
            problems.append(("owner", f"1 to {OWNER_LIMIT} printable characters"))
        if expires is not None and expires.tzinfo is None:
            problems.append(("expires", "give a time zone, for example 2026-11-27T09:00:00Z"))
        elif expires is not None and expires <= self._clock.now():
            problems.append(("expires", "must be in the future"))
        if problems:
            raise errors.Invalid("the token cannot be made", problems=tuple(problems))
        if len(await self._store.tokens()) >= TOKEN_LIMIT:
            message = f"there are {TOKEN_LIMIT} tokens already; revoke some"
            raise errors.QuotaExceeded(message, reason="TooManyTokens")
        if key is None:
            return await self._make(role=role, owner=owner, expires=expires)
        name = hash_of(f"made by {caller.id} under {key}")[:16]
        async with self._making:
            if name in await self._read():
                told = (
                    f"token {name} was made by this form already, and its text is shown only once: "
                    "if you do not have it, revoke that token and make another"
                )
                raise errors.Conflict(told, reason="AlreadyMade")
            return await self._make(role=role, owner=owner, expires=expires, name=name)

    async def own(self, caller: Principal) -> tuple[stores.TokenRow, ...]:
        """Return the tokens of the caller's own name and role, oldest first, without any secret."""
        rows = (await self._read()).values()
        mine = [
            each for each in rows
            if each.owner == caller.owner and role_word(each) == caller.role
        ]  # fmt: skip
        return tuple(sorted(mine, key=lambda row: (row.created, row.id)))

    async def listed(self, caller: Principal) -> tuple[stores.TokenRow, ...]:
        """Return all tokens, oldest first, without any secret."""
        access.demand(caller, "tokens", "Token")
        rows = await self._read()
        return tuple(sorted(rows.values(), key=lambda row: (row.created, row.id)))

    async def earlier(self) -> tuple[stores.TokenRow, ...]:
        """Return the living tokens whose role is one of an earlier version."""
        rows = (await self._read()).values()
        return tuple(row for row in rows if row.role in roles.EARLIER and row.revoked is None)

    async def revoke(self, caller: Principal, name: str) -> stores.TokenRow:
        """Revoke a token; no error if revoked before; raise Gone when there is none."""
        access.demand(caller, "tokens", "Token")
        row = (await self._read()).get(name)
        if row is None:
            raise errors.Gone(f"token {name[:64]!r} does not exist")
        if row.revoked is None:
            row = replace(row, revoked=self._clock.now())
            await self._store.put_token(row)
            self._rows[row.id] = row
        return row

    async def feed_of(self, caller: Principal) -> stores.TokenRow | None:
        """Return the row of the caller's calendar feed; None when there never was one."""
        access.demand(caller, "read", "Session")
        return (await self._read()).get(_feed_id(caller.name))

    async def make_feed(self, caller: Principal) -> NewToken:
        """Make the caller's calendar feed; one made before ends with it.

        A person has one, under an id that follows from the name: so feeds do not use up the tokens.
        """
        access.demand(caller, "read", "Session")
        known = await self._read()
        if _feed_id(caller.name) not in known and len(known) >= TOKEN_LIMIT:
            message = f"there are {TOKEN_LIMIT} tokens already"
            raise errors.QuotaExceeded(message, reason="TooManyTokens")
        now = self._clock.now()
        secret = self._ids.token()
        row = stores.TokenRow(
            id=_feed_id(caller.name), hash=hash_of(secret), role=FEED, owner=caller.name,
            created=now, expires=now + FEED_LIFE,
        )  # fmt: skip
        await self._store.put_token(row)
        self._rows[row.id] = row
        return NewToken(row=row, text=f"lf_{row.id}_{secret}")

    async def end_feed(self, caller: Principal) -> stores.TokenRow:
        """Close the caller's calendar feed at once; Gone when there is none."""
        row = await self.feed_of(caller)
        if row is None:
            raise errors.Gone("you have no calendar feed")
        if row.revoked is None:
            row = replace(row, revoked=self._clock.now())
            await self._store.put_token(row)
            self._rows[row.id] = row
        return row

    async def first(self, show: Callable[[str], None] | None = None) -> NewToken | None:
        """Create the installation's first admin token; None when there are tokens already.

        A lease row lets only one of several starting processes do it. `show` gets the text
        before its hash is stored: if showing fails there is no token, and the next start tries
        again. In the other order, a token could be stored whose text nobody has seen.
        """
        if await self._store.tokens():
            return None
        lease = await self._store.lease(FIRST)
        try:
            await self._store.acquire(
                FIRST, self._ids.uid(), seen=None if lease is None else lease.version
            )
        except errors.Conflict:
            return None
        return await self._make(role=Role.ADMIN, owner="admin", expires=None, show=show)

    async def _make(
        self,
        *,
        role: str,
        owner: str,
        expires: datetime | None,
        show: Callable[[str], None] | None = None,
        name: str = "",
    ) -> NewToken:
        secret = self._ids.token()
        row = stores.TokenRow(
            id=name or self._ids.uid().replace("-", "")[:16],
            hash=hash_of(secret),
            role=str(role),
            owner=owner,
            created=self._clock.now(),
            expires=expires,
        )
        made = NewToken(row=row, text=f"lf_{row.id}_{secret}")
        if show is not None:
            show(made.text)
        await self._store.put_token(row)
        self._rows[row.id] = row
        return made

    async def _read(self) -> dict[str, stores.TokenRow]:
        rows = {row.id: row for row in await self._store.tokens()}
        self._rows, self._read_at = rows, _machine_now()
        return rows


def role_of(row: stores.TokenRow) -> Role:
    """Return a stored token's role; a role of an earlier version is what it became."""
    return roles.EARLIER.get(row.role) or Role(row.role)


def role_word(row: stores.TokenRow) -> str:
    """Return what a token is for: its role, or that it opens a calendar feed."""
    return FEED if row.role == FEED else str(role_of(row))


def _feed_id(owner: str) -> str:
    return hash_of(f"calendar feed of {owner}")[:16]


def hash_of(secret: str) -> str:
    """Return the stored form of a token's secret: SHA-256, hex."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _split(text: str) -> tuple[str, str]:
    parts = text.split("_", 2)
    if len(text) > 200 or len(parts) != 3 or parts[0] != "lf":
        _unknown()
    return parts[1], parts[2]


def _unknown() -> NoReturn:
    raise errors.Denied("the token is not known here", reason="Unauthenticated")


def _machine_now() -> float:
    return asyncio.get_running_loop().time()
