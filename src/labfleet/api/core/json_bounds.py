"""Refuses a body that is too deep or too full before anything is made of it."""

from __future__ import annotations

from labfleet.kernel import errors, json_bounds
from labfleet.service.core import intake


def check(raw: bytes, most: int) -> None:
    """Raise Invalid for a text of more than `most` values, or one that is nested too deep."""
    wrong = json_bounds.fault(raw, most)
    if wrong == "deep":
        told = f"nested deeper than {json_bounds.DEPTH_LIMIT} levels"
        raise intake.invalid(("body", told))
    if wrong == "full":
        raise errors.Invalid(f"a body has at most {most} values here", reason="TooLarge")
