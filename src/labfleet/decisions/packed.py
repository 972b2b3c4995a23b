"""All dimensions of an amount in one integer, so that adding and comparing is one operation.

Each dimension has a field of BITS bits, the first of DIMENSIONS lowest, whose top bit stays clear.
To compare, the top bits are set in what is free and what is wanted is subtracted: a field that is
short has borrowed its own top bit and no other's. Exact while no sum of one dimension passes
2**62; a single amount above LIMIT counts as LIMIT, a thousand times what a body may name (`MOST`).
"""

from __future__ import annotations

import functools

from labfleet.resources.amounts import DIMENSIONS, Amounts, vector

BITS = 64
LIMIT = 2**50
TOPS = sum(1 << (BITS * place + BITS - 1) for place in range(len(DIMENSIONS)))
FIELD: int = 2 ** (BITS - 1) - 1
_ALL = TOPS - (TOPS >> (BITS - 1))
_PORTS = BITS * DIMENSIONS.index("ports")
PORTS: int = FIELD << _PORTS
"""All bits of the ports' field."""


@functools.lru_cache(maxsize=4096)
def pack(amounts: Amounts) -> int:
    """Return the amounts as one integer; remembered, since labs of one definition ask alike."""
    packed = 0
    for place, number in enumerate(vector(amounts)):
        packed |= min(number, LIMIT) << (BITS * place)
    return packed


def top(dimension: str) -> int:
    """Return the top bit of a dimension's field; the lowest of several is the first dimension's."""
    return 1 << (BITS * DIMENSIONS.index(dimension) + BITS - 1)


def less(capacity: int, held: int) -> int:
    """Return capacity minus held, zero where more is held than there is."""
    left = (capacity | TOPS) - held
    gone = ~left & TOPS
    if not gone:
        return left & _ALL
    return left & _ALL & ~(gone - (gone >> (BITS - 1)))


def most(one: int, other: int) -> int:
    """Return the larger of each field."""
    larger = ((one | TOPS) - other) & TOPS
    mine = larger - (larger >> (BITS - 1))
    return (one & mine) | (other & ~mine)


def ports(count: int | None) -> int:
    """Return a number of ports in its field; None, which is no limit, as all bits of the field."""
    return PORTS if count is None else count << _PORTS
