"""The working state of a decision on any object: its new status and finalizers."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeVar

import msgspec

from labfleet.resources import conditions
from labfleet.resources.meta import Metadata

StatusT = TypeVar("StatusT", bound=msgspec.Struct)
ConditionT = TypeVar("ConditionT", bound=conditions.ConditionType)
ReasonT = TypeVar("ReasonT", bound=conditions.Reason)


class StatusDraft(Generic[StatusT, ConditionT, ReasonT]):
    """Collects changes of a status, so that each rule reads as a sentence.

    The status must have `conditions`, as those of all kinds that are decided on do.
    """

    def __init__(self, metadata: Metadata, status: StatusT, now: datetime) -> None:
        self.status = status
        self.finalizers = metadata.finalizers
        self.generation = metadata.generation
        self.now = now

    def set(self, **changes: object) -> None:
        """Change fields of the status."""
        self.status = msgspec.structs.replace(self.status, **changes)

    def fact(
        self,
        name: ConditionT,
        status: conditions.Status,
        reason: ReasonT | conditions.ErrorReason,
        message: str = "",
        *,
        measured: conditions.Measured | None = None,
    ) -> None:
        """Record a fact; unchanged when it is so already."""
        before = self._conditions
        after = conditions.put(
            before,
            name,
            status,
            reason,
            message,
            now=self.now,
            generation=self.generation,
            measured=measured,
        )
        if after is not before:
            self.set(conditions=after)

    def forget(self, *names: ConditionT) -> None:
        """Remove conditions that no longer apply."""
        before = after = self._conditions
        for name in names:
            after = conditions.drop(after, name)
        if after is not before:
            self.set(conditions=after)

    def hold(self, name: str) -> None:
        """Add a finalizer: the object stays until it is dropped."""
        if name not in self.finalizers:
            self.finalizers = (*self.finalizers, name)

    def drop(self, name: str) -> None:
        """Remove a finalizer."""
        self.finalizers = tuple(each for each in self.finalizers if each != name)

    @property
    def _conditions(self) -> tuple[conditions.Condition, ...]:
        found: tuple[conditions.Condition, ...] = self.status.conditions  # type: ignore[attr-defined]
        return found
