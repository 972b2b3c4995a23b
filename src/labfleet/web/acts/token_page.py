"""The page of tokens: an admin makes and revokes them, everybody sees their own.

A token's text is shown once, in the answer to the form that made it; sent again, that form makes no
second one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.service.core import access, roles, tokens
from labfleet.service.core.access import Principal
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.core.tokens import Tokens
from labfleet.web import values, words
from labfleet.web.acts import fields as forms
from labfleet.web.acts.fields import Field
from labfleet.web.acts.page import Done
from labfleet.web.statuses import places, sentence, status_of
from labfleet.web.values import Cell

ROOT = "/tokens"
_DAYS = 3650
_FIELDS = (
    Field(name="owner", label="Whose", required=True, most=tokens.OWNER_LIMIT,
          help="The name that their sessions carry."),
    Field(name="role", label="Role", show="choice", required=True, first="user",
          choices=tuple((str(each), str(each)) for each in roles.FOR_TOKENS)),
    Field(name="days", label="Days until it ends", show="number", most=_DAYS, first="90",
          help="Empty: it never ends."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One token: its id, whose, with which role, when it was made and ends, and how it stands."""

    id: str
    owner: str
    role: str
    created: Cell
    expires: Cell
    state: Cell
    href: str = ""


@dataclass(frozen=True, slots=True)
class TokensPage:
    """The page: tokens, newest first, and for admins the form for a new one.

    `secret` is the text of one that was just made. `revoking` is the one that is asked about. `more`
    is how many tokens are not shown.
    """

    rows: tuple[Row, ...]
    fields: tuple[Field, ...] = ()
    given: Mapping[str, str] | None = None
    secret: str = ""
    made: Row | None = None
    revoking: Row | None = None
    mine: bool = False
    more: int = 0
    problem: str = ""
    places: tuple[tuple[str, str], ...] = ()
    status: int = 200


async def page(services: ServiceContext, kept: Tokens, caller: Caller, path: str) -> TokensPage:
    """Return the list, or the question whether one of it is to be revoked; nothing is done."""
    name, now, who = path.removeprefix(ROOT).strip("/"), services.clock.now(), caller.principal
    able = access.may(who, "tokens", "Token")
    found = await (kept.listed(who) if able else kept.own(who))
    if name:
        access.demand(who, "tokens", "Token")
        one = next((each for each in found if each.id == name), None)
        if one is None:
            raise errors.Gone(f"token {name[:64]!r} does not exist")
        return TokensPage((), revoking=_row(one, now, able=able), mine=one.id == who.id)
    shown = tuple(_row(each, now, able=able) for each in found[: -words.ROWS - 1 : -1])
    given = {each.name: each.first for each in _FIELDS}
    fields = _FIELDS if able else ()
    return TokensPage(shown, fields=fields, given=given, more=len(found) - len(shown))


async def done(
    services: ServiceContext, kept: Tokens, caller: Caller, path: str,
    form: tuple[Mapping[str, str], str],
) -> TokensPage | Done:  # fmt: skip
    """Make a token, or revoke one; the page again where that is refused. `form`: its values, its key."""
    (given, key), who = form, caller.principal
    name = path.removeprefix(ROOT).strip("/")
    if name:
        row = await kept.revoke(who, name)
        return Done(f"Done: token {row.id} of {row.owner} is revoked.", ROOT)
    try:
        new = await _made(services, kept, who, given, key)
    except errors.LabfleetError as error:
        shown = await page(services, kept, caller, ROOT)
        return replace(shown, given={**(shown.given or {}), **given}, problem=sentence(error),
                       places=places(error), status=status_of(error))  # fmt: skip
    shown = await page(services, kept, caller, ROOT)
    made = _row(new.row, services.clock.now(), able=True)
    return replace(shown, secret=new.text, made=made, status=201)


async def _made(
    services: ServiceContext, kept: Tokens, who: Principal, given: Mapping[str, str], key: str
) -> tokens.NewToken:
    access.demand(who, "tokens", "Token")
    typed = forms.read(_FIELDS, given)
    days = typed["days"]
    expires = None if days is None else services.clock.now() + timedelta(days=days)
    return await kept.create(
        who, role=typed["role"], owner=typed["owner"], expires=expires, key=key
    )


def _row(row: stores.TokenRow, now: datetime, *, able: bool) -> Row:
    ended = row.expires is not None and row.expires <= now
    state = Cell("state", "valid", tone="good", shape="●")
    if row.revoked is not None or ended:
        word = "revoked" if row.revoked is not None else "expired"
        state = Cell("state", word, tone="calm", shape="■")
    never = Cell("absent", "never")
    return Row(
        row.id, row.owner, tokens.role_word(row), values.instant(row.created, now),
        never if row.expires is None else values.instant(row.expires, now), state,
        f"{ROOT}/{row.id}" if able and state.text == "valid" else "",
    )  # fmt: skip
