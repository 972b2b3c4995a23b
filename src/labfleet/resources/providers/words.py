"""What a provider's own words mean: why a machine changed, and what is planned for it.

Codes and reasons are stored as the provider spells them. Decisions read them only through the
`Words` of the worker's provider, and know nothing of the spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Planned(StrEnum):
    """What a provider will do to a machine."""

    RECLAIM = "reclaim"
    RETIRE = "retire"
    STOP = "stop"
    REBOOT = "reboot"
    REBOOT_HOST = "reboot-host"
    MAINTAIN = "maintain"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one provider.

    `events` are codes of planned events, `reclaims` parts of a state reason by which it takes the
    machine back, `changes` beginnings of state reasons with who or what they point to; `announces`
    is where people read of events, `suspects` whom to look for behind a change without a reason.
    """

    events: Mapping[str, Planned] = field(default_factory=dict)
    reclaims: tuple[str, ...] = ()
    changes: tuple[tuple[str, str], ...] = ()
    announces: str = "ask whoever runs the machine"
    suspects: str = "look for other people and tools that switch machines"

    def planned(self, code: str) -> Planned:
        """Return what an event of this code does."""
        return self.events.get(code, Planned.OTHER)

    def reclaimed(self, reason: str) -> bool:
        """Tell whether a state reason says that the provider takes the machine back."""
        return any(part in reason for part in self.reclaims)

    def hint(self, reason: str) -> str:
        """Return as text who or what a state reason points to."""
        known = (text for begin, text in self.changes if reason.startswith(begin))
        return next(known, self.suspects)
