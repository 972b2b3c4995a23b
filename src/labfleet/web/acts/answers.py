"""What is answered at the addresses of acts: a page with a form, or where a result is seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labfleet.kernel import errors
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.core.tokens import Tokens
from labfleet.web.acts import many, page, table, token_page
from labfleet.web.acts.act import ROOT
from labfleet.web.acts.many import Sent
from labfleet.web.acts.page import Done

__all__ = ["FIELDS_LIMIT", "FORM_LIMIT", "Acts", "Done", "Sent", "Shown", "is_ours"]

ROOTS = (ROOT, many.ROOT)
"""The beginnings of the addresses of acts; `is_ours` knows all of them."""
FORM_LIMIT = 64 * 1024
FIELDS_LIMIT = 300
Query = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Shown:
    """A page with a form: its template, its data, its status, and where in the navigation it is."""

    template: str
    page: Any
    status: int = 200
    here: str = ""


def is_ours(path: str) -> bool:
    """Tell whether an address is one of acts, or of the page of tokens."""
    tokens = path == token_page.ROOT or path.startswith(f"{token_page.ROOT}/")
    return tokens or path.startswith(ROOTS)


class Acts:
    """Answers for all acts of an installation."""

    def __init__(self, services: ServiceContext, tokens: Tokens) -> None:
        self._services = services
        self._tokens = tokens

    async def shown(self, caller: Caller, path: str, query: Query) -> Shown:
        """Return the page at an address of an act; nothing is done."""
        if path.startswith(many.ROOT):
            row = many.kind_at(path)
            return _several(await many.chosen(self._services, caller, row, query))
        if path.startswith(token_page.ROOT):
            return _tokens(await token_page.page(self._services, self._tokens, caller, path))
        act, name = _at(path)
        asked = _last(query)
        doing, closed = await page.begun(self._services, caller, act, name, asked)
        return _shown(await page.asking(doing, act, closed, first=asked))

    async def done(self, caller: Caller, sent: Sent) -> Shown | Done:
        """Do what a form asks for; return its page again when it is refused, or only looked at."""
        if sent.path.startswith(many.ROOT):
            row = many.kind_at(sent.path)
            sent.take()
            return _several(await many.done(self._services, caller, row, sent))
        if sent.path.startswith(token_page.ROOT):
            form = (_last(sent.form), sent.key)
            sent.take()
            made = await token_page.done(self._services, self._tokens, caller, sent.path, form)
            return made if isinstance(made, Done) else _tokens(made)
        act, name = _at(sent.path)
        given, asked = _last(sent.form), _last(sent.query)
        doing, closed = await page.begun(self._services, caller, act, name, asked)
        error: errors.LabfleetError | None = None
        try:
            sent.take()
            if page.LOOK not in given:
                # Also what is closed by now: a second click is answered as the first one was.
                return await page.done(replace(doing, key=sent.key), act, given)
        except errors.LabfleetError as refused:
            error = refused
        return _shown(await page.asking(doing, act, closed, given, error))


def _at(path: str) -> tuple[Any, str]:
    found = table.at(path)
    if found is None:
        raise errors.Gone("There is nothing to do at this address.")
    return found


def _shown(asking: page.Asking) -> Shown:
    return Shown("act.html", asking, asking.status, f"/{asking.act.plural}")


def _several(several: many.Several) -> Shown:
    return Shown("several.html", several, several.status, f"/{several.act.plural}")


def _tokens(found: token_page.TokensPage) -> Shown:
    return Shown("tokens.html", found, found.status, token_page.ROOT)


def _last(values: Query) -> dict[str, str]:
    return {name: found[-1] for name, found in values.items()}
