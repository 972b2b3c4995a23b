"""Labels under `labfleet.dev/` are the product's: nobody makes a session look like somebody's seat.

Selectors and people go by them. An object that has one of an earlier release keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping

from labfleet.service.core import intake

PREFIX = "labfleet.dev/"
_WHAT = f"labels that begin with {PREFIX} are set by Labfleet alone; give the label another name"


def refuse(labels: object) -> None:
    """Raise Invalid (ReservedLabel) for a raw new object whose labels hold one of the product's."""
    if isinstance(labels, Mapping):
        _refused(sorted(str(each) for each in labels if str(each).startswith(PREFIX)))


def kept(wanted: dict[str, str], present: Mapping[str, str], *, whole: bool) -> dict[str, str]:
    """Return the labels that a change asks for, with the product's as they are.

    A whole object (`whole`) may leave them out; Invalid (ReservedLabel) for any other change of one.
    """
    ours = {key: value for key, value in present.items() if key.startswith(PREFIX)}
    if whole:
        wanted = {**{key: each for key, each in ours.items() if key not in wanted}, **wanted}
    given = {key: value for key, value in wanted.items() if key.startswith(PREFIX)}
    _refused(sorted(key for key in ours.keys() | given.keys() if ours.get(key) != given.get(key)))
    return wanted


def _refused(names: list[str]) -> None:
    if names:
        problems = ((f"metadata.labels.{each[:80]}", _WHAT) for each in names)
        raise intake.invalid(*problems, reason="ReservedLabel")
