"""What kind of policy a pool has, for who asks no more than that: pure.

Apart from `policies`, whose functions read a pool's claims, which ask this.
"""

from __future__ import annotations

from labfleet.resources.pool import Scaling, ScalingPolicy

DEMAND = frozenset({ScalingPolicy.NEED_BASED})
TIMED = frozenset({ScalingPolicy.SCHEDULED, ScalingPolicy.HYBRID})


def resting(scaling: Scaling) -> bool:
    """Tell whether the pool neither grows nor shrinks by itself: only its bounds are kept."""
    return not scaling.enabled or scaling.policy is ScalingPolicy.NONE


def demand(scaling: Scaling) -> bool:
    """Tell whether the pool makes workers for what waits and what is promised, up to its maximum."""
    return scaling.enabled and scaling.policy in DEMAND


def timed(scaling: Scaling) -> bool:
    """Tell whether a timetable says how many workers the pool has."""
    return scaling.enabled and scaling.policy in TIMED
