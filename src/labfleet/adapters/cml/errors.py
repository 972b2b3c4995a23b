"""Turns every bad answer of a CML server into the product's few errors (facts/cml.md#client-rules).

Pure. Besides the status only the way a request may be repeated matters: a lost reply is
Ambiguous only where a repeat would have the effect twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from labfleet.adapters.http.transport import NotSent, Reply, ReplyLost
from labfleet.kernel import errors

Repeat = Literal["read", "safe", "once"]
"""read: changes nothing. safe: doing it twice is doing it once. once: import."""

TEXT_LIMIT = 600
DESCRIPTION_BYTES = 64 * 1024
_PARTS = ("body", "query", "path", "header")
"""What a location of CML begins with: the part of the request."""
KEPT_SECRETS = 14
LINK_REASONS = frozenset({"Timeout", "NoRoute", "Refused", "Closed", "Tls", "BadGateway"})
"""Reasons that show a bad connection, not a bad request: the breaker counts them."""

CAPACITY = (
    (re.compile(r"licen[cs]", re.IGNORECASE), "Licence"),
    (re.compile(r"disk (space|full)|space on (the )?(disk|device)", re.IGNORECASE), "Disk"),
    (
        re.compile(
            r"capacity|insufficient|not enough|no (free |available )?(resources|compute)"
            r"|(node|resource) limit|limit (exceeded|reached)",
            re.IGNORECASE,
        ),
        "Capacity",
    ),
)


@dataclass(frozen=True, slots=True)
class Scrub:
    """Removes known secrets from texts, also in the form that JSON or a URL gives them.

    The first secret (the password) stays; of the later ones (tokens) the newest are kept.
    """

    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Say how many, never which."""
        return f"Scrub({len(self.secrets)} secrets)"

    def add(self, secret: str) -> Scrub:
        """Return one that knows this secret too."""
        if not secret or secret in self.secrets:
            return self
        return Scrub((*self.secrets[:1], *self.secrets[1:][-KEPT_SECRETS:], secret))

    def clean(self, text: str) -> str:
        """Return the text with every secret replaced by three asterisks."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            in_json = msgspec.json.encode(secret).decode()[1:-1]
            for form in (secret, in_json, quote(secret, safe="")):
                text = text.replace(form, "***")
        return text


UNREADABLE = (
    msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError, IndexError,
)  # fmt: skip


def is_page(reply: Reply) -> bool:
    """Tell whether the reply is a web page: nginx speaking for a backend that is not up."""
    kind = reply.headers.get("content-type", "")
    return "html" in kind or reply.body[:64].lstrip().startswith(b"<")


def failure(error: NotSent | ReplyLost, *, where: str, repeat: Repeat) -> errors.LabfleetError:
    """Return the error of a request that got no usable reply."""
    text = f"{where}: {error.detail}"
    reason = {
        "timeout": "Timeout", "no_route": "NoRoute", "refused": "Refused", "closed": "Closed",
        "tls": "Tls", "certificate": "Certificate", "truncated": "Truncated",
        "broken": "ProtocolError", "too_large": "TooLarge",
    }[error.cause]  # fmt: skip
    if error.cause == "certificate":
        return errors.Denied(text, reason=reason)
    if isinstance(error, NotSent):
        if error.cause in ("refused", "closed"):
            return errors.Booting(text, reason=reason)
        if error.cause == "tls":
            return errors.Protocol(text, reason=reason)
        return errors.Unreachable(text, reason=reason)
    if repeat == "once":
        return errors.Ambiguous(text, reason=reason)
    if error.cause in ("truncated", "broken", "too_large"):
        return errors.Protocol(text, reason=reason)
    return errors.Temporary(text, reason=reason)


def refusal(
    reply: Reply, *, where: str, repeat: Repeat, licensing: bool = False
) -> errors.LabfleetError:
    """Return the error of a reply that is not 2xx, or is a web page.

    `licensing` marks the licensing endpoints, whose refusals name the licence without
    being about capacity. The client recognises a 403 that means maintenance mode.
    """
    status = reply.status
    text, problems = description(reply)
    message = f"{where}: {status} {text}".rstrip()
    error: errors.LabfleetError | None = _gateway(reply, message, repeat)
    if error is None and not licensing and not problems:
        error = _shortage(status, text, message)
    if error is not None:
        return error
    match status:
        case 401:
            return errors.Denied(message, reason="Unauthorized")
        case 403:
            return errors.Denied(message, reason="Forbidden")
        case 404:
            return errors.Gone(message)
        case 409:
            return errors.Conflict(message, reason="Later")
        case 429:
            return errors.Throttled(message, retry_after=_retry_after(reply))
        case _ if 400 <= status < 500:
            return errors.Invalid(message, problems=problems)
        case _ if status >= 500 and repeat == "once":
            return errors.Ambiguous(message, reason="ServerError")
        case _ if status >= 500:
            return errors.Temporary(message, reason="ServerError")
    return errors.Protocol(f"{where}: unexpected status {status}")


def _gateway(reply: Reply, message: str, repeat: Repeat) -> errors.LabfleetError | None:
    """Return the error of a reply that CML itself did not write.

    A 404 page is no "lab not found", or a booting server would free the ports of its labs.
    """
    if reply.status not in (502, 503, 504) and (not is_page(reply) or reply.status in (413, 500)):
        return None
    # Behind nginx a 502 or 504 can also mean that the backend died while it worked.
    if repeat == "once" and (reply.status in (502, 504) or reply.status < 300):
        return errors.Ambiguous(message, reason="BadGateway")
    return errors.Booting(message, reason="BadGateway", retry_after=_retry_after(reply))


def _shortage(status: int, text: str, message: str) -> errors.OutOfCapacity | None:
    """Return the error of a refusal that names licence, disk or room.

    Source: facts/cml-issues.md#f14, #f41, #f45.
    """
    if status in (400, 403, 409):
        for pattern, reason in CAPACITY:
            if pattern.search(text):
                return errors.OutOfCapacity(message, reason=reason)
    return None


def description(reply: Reply) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return CML's own words, bounded, and the (where, what) pairs of a validation error.

    A validation error carries JSON inside the description (facts/cml.md#api-rules); only places and
    messages are taken, because it may also echo the input. A place is `links[0].n1` where CML says
    `body.links.0.n1`: the part of the request means nothing to people.
    """
    if is_page(reply):
        return "(a web page instead of an API answer)", ()
    try:
        # What no description fills is not decoded: its values could keep the loop for seconds.
        words = msgspec.json.decode(reply.body[:DESCRIPTION_BYTES])["description"]
    except UNREADABLE:
        return reply.body[:TEXT_LIMIT].decode("utf-8", "replace").strip(), ()
    if not isinstance(words, str):
        return "", ()
    problems = _problems(words)
    if problems:
        said = (f"{at}: {what}" if at else what for at, what in problems)
        words = "Input validation failed: " + "; ".join(said)
    return words[:TEXT_LIMIT], problems


def _problems(words: str) -> tuple[tuple[str, str], ...]:
    try:
        found: Any = msgspec.json.decode(words)["Input validation failed"]
        return tuple((_place(item["location"]), str(item["message"])) for item in found[:20])
    except UNREADABLE:
        return ()


def _place(location: list[str | int]) -> str:
    steps = location[1:] if location[:1] and location[0] in _PARTS else location
    return "".join(
        f"[{each}]" if isinstance(each, int) else f".{each}" for each in steps
    ).removeprefix(".")


def _retry_after(reply: Reply) -> float | None:
    text = reply.headers.get("retry-after", "")
    return min(float(text), 3600.0) if text.isascii() and text.isdigit() else None
