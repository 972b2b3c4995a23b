"""The networks that the adapter runs over; `connect` is the one that tests use now.

The fixture `network` (conftest.py) puts each of them here in turn.
"""

from __future__ import annotations

from labfleet.adapters.cml import aiohttp_transport, http_transport
from labfleet.adapters.cml.transport import Connect

ALL: dict[str, Connect] = {"own": http_transport.connect, "aiohttp": aiohttp_transport.connect}
connect: Connect = ALL["own"]
