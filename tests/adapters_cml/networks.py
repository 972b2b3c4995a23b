"""The network that the adapter runs over; a test of a missing defence puts another one here."""

from __future__ import annotations

from labfleet.adapters.cml import transport

connect: transport.Connect = transport.connect
