"""Addresses of the page that is shown, with another part of its query: tabs, filters, next pages."""

from __future__ import annotations

from urllib.parse import urlencode

from labfleet.web.view import Asked


def changed(asked: Asked, part: str = "", **values: str | int | None) -> str:
    """Return the address of this page with some values of its query changed; None or "" drops one.

    `part` is the id of the element that it leads to. The order of what stays does not change.
    """
    kept = {name: found[-1] for name, found in asked.query.items() if found}
    kept |= {name: str(value) for name, value in values.items() if value is not None}
    for name, value in values.items():
        if value is None or value == "":
            kept.pop(name, None)
    return f"?{urlencode(kept)}" + (f"#{part}" if part else "")


def tab(page: str, name: str) -> str:
    """Return the address of a tab of the page at an address."""
    return f"{page}{'&' if '?' in page else '?'}{urlencode({'tab': name})}"
