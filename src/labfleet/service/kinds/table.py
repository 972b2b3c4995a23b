"""Collects the rules of all kinds; the other half of a kind is its row in `resources.kinds`."""

from __future__ import annotations

from labfleet.service.core.kind_table import TABLE
from labfleet.service.kinds import (
    cluster,
    course,
    definition,
    group,
    image,
    leak,
    pool,
    queue,
    region,
    session,
    settings,
    simulation,
    template,
    webhook,
    worker,
)

TABLE.update(
    {
        each.RULES.name: each.RULES
        for each in (
            worker,
            session,
            group,
            course,
            pool,
            definition,
            template,
            settings,
            simulation,
            cluster,
            queue,
            webhook,
            region,
            image,
            leak,
        )
    }
)
