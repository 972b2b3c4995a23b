"""The ways into a lab, as pages show them: what to click, how to sign in, which consoles there are.

Made of `status.access`, which holds no more than its reader may see. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from labfleet.resources.session import SessionAccess

_KINDS = {"serial": "console", "vnc": "screen", "pat": "port"}
_TEXT = frozenset({"tcp", "udp"})
"""Schemes of bare ports, which no client opens: text to copy."""


@dataclass(frozen=True, slots=True)
class Console:
    """One way into a lab: what it leads to, and a link or what to open in a terminal."""

    name: str
    where: str
    linked: bool


@dataclass(frozen=True, slots=True)
class Reached:
    """Where to click: the lab's own pages, how to sign in there, and its consoles."""

    pages: tuple[tuple[str, str], ...] = ()
    sign_in: str = ""
    consoles: tuple[Console, ...] = ()
    more: int = 0
    note: str = ""


def reached(access: SessionAccess | None, most: int) -> Reached:
    """Return where a lab is reached as far as the caller is shown it; nothing while it is not.

    `most` consoles are listed.
    """
    if access is None:
        return Reached()
    pages = tuple(
        (title, url)
        for title, url in (("Open the lab", access.lab_url), ("Open CML", access.cml_url))
        if url is not None
    )
    user, sign_in = access.lab_user, ""
    if user is not None:
        sign_in = f"Sign in there as {user.name}."
        sign_in += f" Its password: {user.ask}." if user.ask else ""
    consoles = tuple(
        Console(
            f"{each.node} {_KINDS[each.kind]}", each.url, each.url.partition(":")[0] not in _TEXT
        )
        for each in access.ports[:most]
    )
    note = access.message[:1].upper() + access.message[1:]
    return Reached(pages, sign_in, consoles, len(access.ports) - len(consoles), note)
