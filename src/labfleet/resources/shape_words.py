"""What is wrong with a value, in words that say what to write instead.

msgspec's messages name neither the words that a field takes nor the form of an instant; this adds
both. It judges nothing: who decodes a value hands over the message and where it is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import inspect

INSTANT = "write an instant with seconds and its zone, for example 2026-12-02T10:00:00Z"
EMPTY = "must not be empty"
_ENUMS = ("Invalid enum value ", "Invalid value ")  # the second is of a union's tag


def plainly(told: str, shape: inspect.Type, steps: Sequence[str | int]) -> str:
    """Return a message of msgspec about the value at `steps` of a shape, in plain words.

    A message that needs none stays as it is; its place (` - at ...`) is cut off before.
    """
    for start in _ENUMS:
        known = choices(shape, steps) if told.startswith(start) else ()
        if known:
            return f"is one of {', '.join(known)}, not {told.removeprefix(start)}"
    if told.startswith("Expected `datetime") or told == "Invalid RFC3339 encoded datetime":
        return INSTANT
    return EMPTY if told == "Expected `str` of length >= 1" else told


def has(shape: inspect.Type, steps: Sequence[str | int], name: str) -> bool:
    """Tell whether the value at `steps` is a record with this field."""
    return _has(shape, [*steps, name])


def choices(shape: inspect.Type, steps: Sequence[str | int]) -> tuple[str, ...]:
    """Return the words that the value at `steps` may be; none where it may be any."""
    return tuple(dict.fromkeys(_choices(shape, list(steps))))


def _choices(shape: inspect.Type, steps: list[str | int]) -> Iterator[str]:
    match shape:
        case inspect.Metadata(type=inner):
            yield from _choices(inner, steps)
        case inspect.UnionType(types=options):
            for option in options:
                yield from _choices(option, steps)
        case inspect.EnumType(cls=words) if not steps:
            yield from (str(each.value) for each in words)
        case inspect.LiteralType(values=values) if not steps:
            yield from map(str, values)
        case inspect.StructType(fields=fields) if steps:
            if steps == [shape.tag_field]:
                yield str(shape.tag)
            for field in fields:
                if field.encode_name == steps[0]:
                    yield from _choices(field.type, steps[1:])
        case inspect.DictType(value_type=inner) | inspect.VarTupleType(item_type=inner) if steps:
            yield from _choices(inner, steps[1:])
        case inspect.ListType(item_type=inner) if steps:
            yield from _choices(inner, steps[1:])
        case _:
            return


def _has(shape: inspect.Type, steps: list[str | int]) -> bool:
    match shape:
        case inspect.Metadata(type=inner):
            return _has(inner, steps)
        case inspect.UnionType(types=options):
            return any(_has(option, steps) for option in options)
        case inspect.StructType(fields=fields):
            below = [field.type for field in fields if field.encode_name == steps[0]]
            return bool(below) and (len(steps) == 1 or _has(below[0], steps[1:]))
        case inspect.VarTupleType(item_type=inner) | inspect.ListType(item_type=inner):
            return len(steps) > 1 and _has(inner, steps[1:])
        case _:
            return False
