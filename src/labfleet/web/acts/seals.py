"""What proves that a form was made here for this visit, and that it is sent once.

Each form carries a key and a seal of it by the visitor's token, which no other site can know
(facts/fleet-bugs.md#t45). The key is the idempotency key of what the form does: sent twice, by a
second click or a reload, it counts once (facts/fleet-bugs.md#t31). The same seal marks what is said
after an act, so that nobody else puts words into a page.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import NamedTuple

FIELD = "form"
SAID_LIMIT = 900
"""Bytes of what is said after an act, and of the address that takes it back: they travel in a cookie,
of which browsers keep 4 KB."""


def sealed(token: str, key: str) -> str:
    """Return the value of a form's hidden field for a visitor's token."""
    return f"{key}.{_seal(token, 'form', key)}"


def key_of(token: str, value: str) -> str | None:
    """Return the key of a form's hidden field; None when it was not made for this token."""
    key, _, seal = value.rpartition(".")
    if not key or not value.isascii() or not hmac.compare_digest(seal, _seal(token, "form", key)):
        return None
    return key


class Said(NamedTuple):
    """What is said after an act, and the address of what takes it back ("" for none)."""

    text: str
    undo: str = ""


def said(token: str, text: str, undo: str = "") -> str:
    """Return what is said after an act, as the value of a cookie."""
    told = text.encode("utf-8", "replace")
    if len(told) > SAID_LIMIT:
        told = told[:SAID_LIMIT].decode("utf-8", "ignore").encode() + "…".encode()
    raw = (undo if len(undo) <= SAID_LIMIT else "").encode() + b"\n" + told
    body = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    return f"{body}.{_seal(token, 'said', body)}"


def heard(token: str, value: str) -> Said | None:
    """Return what such a cookie says; None when it was not made for this token."""
    body, _, seal = value.partition(".")
    if not value.isascii() or not hmac.compare_digest(seal, _seal(token, "said", body)):
        return None
    try:
        raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    except (ValueError, binascii.Error):
        return None
    undo, _, text = raw.decode("utf-8", "replace").partition("\n")
    return Said(text, undo)


def _seal(token: str, use: str, text: str) -> str:
    return hmac.new(token.encode(), f"{use}:{text}".encode(), hashlib.sha256).hexdigest()[:40]
