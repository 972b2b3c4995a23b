"""The head of a session's explanation: where it stands, why, when it starts, what would help.

Lines that fit 80 columns; a longer text goes on below.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from labfleet.cli.kit import human_units
from labfleet.kernel.clock import in_utc, utc_minute, utc_text

WIDTH = 80
TITLE = 11


def lines(answer: dict[str, Any], now: datetime) -> list[str]:
    """Return the lines; none of what is no session."""
    word, _, rest = str(answer.get("headline") or "").partition(": ")
    if not word:
        return []
    found = [*titled(word, rest), *titled("Why", answer.get("summary"))]
    found += titled("When", when(answer.get("expected"), now))
    for each in answer.get("earlier") or ():
        found += titled("Earlier", each)
    return found


def titled(title: str, text: Any) -> Iterator[str]:
    """Yield a title with its text, in lines of at most 80 columns; nothing for no text."""
    said = human_units.printable(str(text or ""))
    if not said:
        return
    begin = f"{human_units.printable(title)}: ".ljust(TITLE)
    yield from textwrap.wrap(
        said,
        WIDTH,
        initial_indent=begin,
        subsequent_indent=" " * TITLE,
        break_long_words=False,
        break_on_hyphens=False,
    )


def when(expected: Any, now: datetime) -> str:
    """Return `14:35-14:50Z (in 5m to 20m, 80 %); w-eu-5 boots`; empty when nothing is known."""
    if not isinstance(expected, dict):
        return ""
    said = span(expected, now)
    by = human_units.instant(expected.get("workerBy"))
    if by is not None:
        said += f"; worker up by {_clock(by, now)}"
    because = str(expected.get("because") or "")
    return f"{said}; {because}" if because else said


def span(found: dict[str, Any], now: datetime) -> str:
    """Return between when and when, as seen from now, with the share of cases if one is stated."""
    early, late = (human_units.instant(found.get(each)) for each in ("earliest", "latest"))
    if early is None:
        return "unknown"
    share = found.get("coverage")
    sure = f", {100 * share:.3g} %" if isinstance(share, int | float) else ""
    first, begins = _clock(early, now), _away(early, now)
    if late is None:
        return f"{first} or later ({begins}{sure})"
    if early == late:
        return f"{first} ({begins}{sure})"
    last, ends = _clock(late, early), _away(late, now).removeprefix("in ")
    return f"{first.removesuffix('Z')}-{last} ({begins} to {ends}{sure})"


def _away(at: datetime, now: datetime) -> str:
    seconds = (at - now).total_seconds()
    return f"in {human_units.span(seconds)}" if seconds >= 60 else "now"


def _clock(at: datetime, than: datetime) -> str:
    """Return the time of day, after the date where that is another one."""
    same = in_utc(at).date() == in_utc(than).date()
    return utc_minute(at) if same else utc_text(at)
