"""What a store tells whoever watches its health."""

from __future__ import annotations

from typing import Protocol

from labfleet.kernel import errors


class StoreObserver(Protocol):
    """Is told how each write ended. Must not raise."""

    def wrote(self) -> None:
        """Note that the store took a write, or refused it for a reason of the caller's."""
        ...

    def refused(self, error: errors.LabfleetError) -> None:
        """Note that the store itself could not take a write."""
        ...
