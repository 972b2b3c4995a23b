"""What is answered at the addresses of acts: a page with a form, or where a result is seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labfleet.kernel import errors
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.web.acts import many, page, table
from labfleet.web.acts.act import ROOT
from labfleet.web.acts.many import Sent
from labfleet.web.acts.page import Done

__all__ = ["FIELDS_LIMIT", "FORM_LIMIT", "ROOTS", "Acts", "Done", "Sent", "Shown"]

ROOTS = (ROOT, many.ROOT)
"""The beginnings of the addresses of acts."""
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


class Acts:
    """Answers for all acts of an installation."""

    def __init__(self, services: ServiceContext) -> None:
        self._services = services

    async def shown(self, caller: Caller, path: str, query: Query) -> Shown:
        """Return the page at an address of an act; nothing is done."""
        if path.startswith(many.ROOT):
            row = many.kind_at(path)
            return _several(await many.choosing(self._services, caller, row, query))
        act, name = _at(path)
        asked = _last(query)
        doing, closed = await page.begun(self._services, caller, act, name, asked)
        return _shown(await page.asking(doing, act, closed, first=asked))

    async def done(self, caller: Caller, sent: Sent) -> Shown | Done:
        """Do what a form asks for; return its page again when it is refused, or only looked at."""
        if sent.path.startswith(many.ROOT):
            row = many.kind_at(sent.path)
            return _several(await many.done(self._services, caller, row, sent))
        act, name = _at(sent.path)
        given, asked = _last(sent.form), _last(sent.query)
        doing, closed = await page.begun(self._services, caller, act, name, asked)
        if closed or page.LOOK in given:
            return _shown(await page.asking(doing, act, closed, given))
        try:
            return await page.done(replace(doing, key=sent.key), act, given)
        except errors.LabfleetError as error:
            return _shown(await page.asking(doing, act, closed, given, error))


def _at(path: str) -> tuple[Any, str]:
    found = table.at(path)
    if found is None:
        raise errors.Gone("There is nothing to do at this address.")
    return found


def _shown(asking: page.Asking) -> Shown:
    return Shown("act.html", asking, asking.status, f"/{asking.act.plural}")


def _several(several: many.Several) -> Shown:
    return Shown("several.html", several, several.status, f"/{several.plural}")


def _last(values: Query) -> dict[str, str]:
    return {name: found[-1] for name, found in values.items()}
