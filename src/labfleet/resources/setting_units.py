"""In which unit a setting counts, as its name says."""

from __future__ import annotations

UNITS = ("Seconds", "Minutes", "Hours", "Days", "Percent")


def unit_of(path: str) -> str:
    """Return the unit in which a setting counts, `` when it is no amount."""
    return next((unit.lower() for unit in UNITS if path.endswith(unit)), "")
