"""The settings of what labs are asked to ask for; `fleet_settings` puts them together with the others."""

from __future__ import annotations

from typing import Annotated

import msgspec

from labfleet.resources.meta import Record


class Review(Record, frozen=True, kw_only=True):
    """When what a definition asks for needs a review, by what its past sessions used.

    A difference counts when it is more than the share of what is declared, and than the amount.

    enabled: Whether definitions are judged; recommendations can be read anyway.
    least_sessions: Measured sessions of its family below which there is no bound.
    coverage_percent: Share of sessions that shall stay within a bound.
    difference_percent: Difference in percent of what is declared that counts.
    difference_memory_mib: Difference in MiB of memory that counts.
    difference_cpu_milli: Difference in thousandths of a CPU that counts.
    """

    enabled: bool = True
    least_sessions: Annotated[int, msgspec.Meta(ge=2, le=200)] = 5
    coverage_percent: Annotated[float, msgspec.Meta(ge=50, le=99.9)] = 95.0
    difference_percent: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 20.0
    difference_memory_mib: Annotated[int, msgspec.Meta(ge=1, le=1_048_576)] = 256
    difference_cpu_milli: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 250
