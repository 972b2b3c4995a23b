"""The fleet's settings of scheduling: a section of `settings/fleet`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from labfleet.resources import providers
from labfleet.resources.meta import Record, Text
from labfleet.resources.strategy import Strategy


class Scheduling(Record, frozen=True, kw_only=True):
    """By what the worker of a session is chosen (docs/how-to/choose-a-strategy.md).

    strategy: Strategy of pools that name none, and of workers outside every pool.
    require_licence: Whether only licensed workers take sessions, also of labs of five nodes.
    regions: Regions in order of preference; pools and workers of others come last. Empty prefers
    none.
    """

    strategy: Strategy = Strategy.PACKED
    require_licence: bool = False
    regions: Annotated[tuple[Text, ...], msgspec.Meta(max_length=100)] = ()

    def __post_init__(self) -> None:
        for each in self.regions:
            if not providers.serves(each):
                raise ValueError(f"regions: {each!r} is no region, for example us-east-1")
        if len(set(self.regions)) < len(self.regions):
            raise ValueError("regions: one stands there twice")
