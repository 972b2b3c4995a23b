"""Regular expressions set by people: which are accepted, so that none can block a process.

Python's matcher goes back over what it has tried; a repeat within a repeat takes longer than the
universe lasts on forty letters that somebody chose as a user name. It has no time limit, so the
form is judged. Pure.
"""

from __future__ import annotations

import functools
import re

REPEATS = 3
"""Repeats in one expression: with three, a name of 100 letters costs milliseconds at most."""
_ESCAPE_OR_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_HIDING = re.compile(r"\(\?(?:#|[a-zA-Z]*x)")
"""Comments, and the flag that lets space and comments stand anywhere: no need for them here."""
_COUNTED = re.compile(r"\{\d*(?:,\d*)?\}")


@functools.lru_cache(maxsize=64)
def problem(pattern: str) -> str | None:
    """Return why an expression is not taken, or None.

    Refused: what does not compile, more than `REPEATS` repeats, a repeat of a group that holds a
    repeat or a choice, and what matches everybody.
    """
    try:
        made = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as wrong:
        return f"no regular expression: {wrong}"
    found = _slow(pattern)
    if found is None and pattern and made.search("") is not None:
        return "matches every text, also an empty one"
    return found


def _slow(pattern: str) -> str | None:
    if _HIDING.search(pattern):
        return "comments and the flag x are not taken"
    repeats = 0
    groups: list[bool] = []
    closed: bool | None = None  # of a group that just ended: whether it holds what may not repeat
    at = 0
    while at < len(pattern):
        token = _ESCAPE_OR_CLASS.match(pattern, at)
        counted = _COUNTED.match(pattern, at)
        each = pattern[at]
        repeated = counted is not None or (each in "*+?" and pattern[at - 1 : at] != "(")
        if token is None and repeated:
            if closed:
                return "a repeat of a group that holds a repeat or a choice can take for ever"
            repeats += 1
            groups = [True for _ in groups]
        elif token is None and each == "|":
            groups = [True for _ in groups]
        if token is None and each == "(":
            groups.append(False)
        closed = groups.pop() if token is None and each == ")" and groups else None
        at = (token or counted).end() if token or counted else at + 1  # type: ignore[union-attr]
    if repeats > REPEATS:
        return f"at most {REPEATS} repeats (* + ? {{}}): more can take for ever"
    return None
