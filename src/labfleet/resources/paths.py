"""Reads a field of an object at a camelCase path, as columns, filters and sorting name it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from labfleet.resources import spellings
from labfleet.resources.meta import Resource

ALTERNATIVES = 4
Getter = Callable[[Resource], Any]


@functools.cache
def getter(kind: type, path: str) -> Getter | None:
    """Return a reader of the field at a camelCase path, or None when a kind has no such field.

    `metadata.labels.x` and other free mappings are followed by key. A field of an absent
    record gives None; `a.b|c.d` gives the first of both that has a value. A field of a list of
    records gives a list.
    """
    if "|" in path:
        ways = path.split("|")
        known = [r for r in (getter(kind, one) for one in ways[:ALTERNATIVES]) if r is not None]
        return _first_of(known) if len(known) == len(ways) else None
    path = spellings.path(path)
    steps: list[tuple[str, bool]] = []
    shape: Any = msgspec.inspect.type_info(kind)
    rest = path.split(".")
    while rest:
        options = shape.types if isinstance(shape, msgspec.inspect.UnionType) else (shape,)
        lists = [o for o in options if isinstance(o, msgspec.inspect.VarTupleType)]
        options = (*options, *(each.item_type for each in lists))
        structs = [o for o in options if isinstance(o, msgspec.inspect.StructType)]
        if structs:
            step = rest.pop(0)
            fields = (f for struct in structs for f in struct.fields)
            field = next((f for f in fields if f.encode_name == step), None)
            if field is None:
                return None
            steps.append((field.name, False))
            shape = field.type
        elif any(isinstance(o, msgspec.inspect.DictType) for o in options):
            steps.append((".".join(rest), True))
            break
        else:
            return None

    def read(obj: Any) -> Any:
        for step, keyed in steps:
            if obj is None:
                return None
            if isinstance(obj, tuple):
                obj = tuple(getattr(each, step, None) for each in obj)
            else:
                obj = obj.get(step) if keyed else getattr(obj, step, None)
        return obj

    return read


def _first_of(readers: Sequence[Getter]) -> Getter:
    return lambda obj: next((v for v in (read(obj) for read in readers) if v is not None), None)
