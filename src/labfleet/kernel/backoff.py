"""Back-off arithmetic: how long to wait before the n-th try."""

from __future__ import annotations


def delay(failures: int, rng: float, *, base: float = 1.0, limit: float = 60.0) -> float:
    """Return seconds to wait after this many failures in a row (1 or more).

    Exponential with half jitter: between half and all of min(limit, base * 2**(n-1)).
    `rng` is a number in [0, 1). Because of the lower bound and the jitter, clients that fail
    together neither retry together nor too fast.
    """
    full = min(limit, base * 2.0 ** min(max(failures, 1) - 1, 40))
    return full * (0.5 + rng / 2)
