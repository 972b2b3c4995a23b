"""Tries TCP ports of labs from here, as a user would (facts/cml-issues.md#f40).

It connects and hangs up; it sends nothing, knows nothing of labs and decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TcpProbe:
    """A PortProbe by TCP connect; `deadline` is machine seconds for the whole attempt."""

    deadline: float = 3.0

    async def answers(self, address: str, port: int) -> bool:
        """Tell whether a TCP connection is accepted in time; never raises for a dead port.

        Refused, unroutable, silent and impossible (number outside 1-65535) are all False.
        """
        if not 0 < port < 65536:
            return False
        try:
            async with asyncio.timeout(self.deadline):
                _, writer = await asyncio.open_connection(address, port)
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
        except OSError:  # TimeoutError and name errors are OSErrors too
            return False
        return True
