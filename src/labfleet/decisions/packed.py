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
FIELD = 2 ** (BITS - 1) - 1
_ALL = TOPS - (TOPS >> (BITS - 1))
_PORTS = BITS * DIMENSIONS.index("ports")


@functools.lru_cache(maxsize=4096)
def pack(amounts: Amounts) -> int:
    """Return the amounts as one integer; remembered, since labs of one definition ask alike."""
    packed = 0
    for place, number in enumerate(vector(amounts)):
        packed |= min(number, LIMIT) << (BITS * place)
    return packed


def short(wanted: int, free: int) -> int:
    """Return the top bits of the fields in which more is wanted than is free; 0 when it fits."""
    return ~((free | TOPS) - wanted) & TOPS


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


def with_ports(free: int, ports: int | None) -> int:
    """Return what is free with no more ports than this; None means that no such limit is known."""
    if ports is None or (free >> _PORTS) & FIELD <= ports:
        return free
    others: int = free & ~(FIELD << _PORTS)
    return others | (ports << _PORTS)
