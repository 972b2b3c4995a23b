"""What comes back when a request was right, in words for the OpenAPI document. Pure.

A reply's words follow from its status and its type; what a record is stands in its docstring.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import get_args, get_origin

import msgspec

from labfleet.api.core.route import Route
from labfleet.resources import descriptions
from labfleet.resources.kinds import KINDS

_OF_A_MEDIUM = {
    "text/event-stream": "Server-sent events, until one side ends the stream.",
    "text/plain": "Lines of text.",
}
_LISTS = {f"{row.name}List": row for row in KINDS.values()}
_SENTENCE = re.compile(r".*?[.!?](?=\s|$)", re.DOTALL)


def said(route: Route, status: int) -> str:
    """Return what a reply with this status holds: one sentence."""
    if status >= HTTPStatus.BAD_REQUEST:
        return f"Not now: {HTTPStatus(status).phrase.lower()}; the body says why."
    if get_origin(route.reply) is list:
        row = KINDS.get(get_args(route.reply)[0].__name__)
        if row is not None:
            return f"All {row.plural} that were asked for."
        return f"A list. {_first_sentence(descriptions.about(get_args(route.reply)[0]))}"
    name = route.reply.__name__ if isinstance(route.reply, type) else ""
    if name in KINDS:
        word, many = name.lower(), KINDS[name].plural
        return _of_a_kind(route.method, f"{word} object" if word == many else word, status)
    if name in _LISTS:
        return f"A page of {_LISTS[name].plural}, and where the next one begins."
    if isinstance(route.reply, type) and issubclass(route.reply, msgspec.Struct):
        return _first_sentence(descriptions.about(route.reply))
    return _OF_A_MEDIUM.get(route.reply_type, "A JSON object, as the operation's description says.")


def _of_a_kind(method: str, word: str, status: int) -> str:
    if status == HTTPStatus.ACCEPTED and method == "DELETE":
        return f"The {word}, which is ending: what it holds goes first."
    if status == HTTPStatus.ACCEPTED:
        return f"The {word}; what was asked for is still to happen."
    if status == HTTPStatus.CREATED:
        return f"The new {word}."
    if method == "DELETE":
        return f"The {word} as it last was: it is gone."
    return f"The {word} as it is now."


def _first_sentence(text: str) -> str:
    whole = " ".join(text.partition("\n\n")[0].split())
    found = _SENTENCE.match(whole)
    return whole if found is None else found[0]
