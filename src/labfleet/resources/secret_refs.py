"""Finds the secretRefs of an object, whichever kind it is and wherever in its spec they stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import inspect

from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Resource, SecretRef


def kinds() -> tuple[str, ...]:
    """Return the kinds whose specs can hold a secretRef."""
    return tuple(name for name, row in KINDS.items() if _holds(row.type))


def of(obj: Resource) -> Iterator[tuple[str, SecretRef]]:
    """Yield each reference of an object's spec with its path, `spec.machine.cml.adminPassword`."""
    return _of(obj.spec, "spec")


def _of(value: object, path: str) -> Iterator[tuple[str, SecretRef]]:
    if isinstance(value, SecretRef):
        yield path, value
    elif isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            yield from _of(getattr(value, field.name), f"{path}.{field.encode_name}")
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _of(each, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for place, each in enumerate(value):
            yield from _of(each, f"{path}[{place}]")


def _holds(kind: type[Resource]) -> bool:
    """Tell whether a SecretRef stands anywhere in the declaration of a kind's spec."""
    waiting: list[object] = [
        inspect.type_info(each.type) for each in msgspec.structs.fields(kind) if each.name == "spec"
    ]
    seen: set[type] = set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, inspect.StructType):
            if each.cls is SecretRef:
                return True
            if each.cls not in seen:
                seen.add(each.cls)
                waiting += (field.type for field in each.fields)
        elif isinstance(each, inspect.UnionType):
            waiting += each.types
        elif isinstance(each, inspect.DictType):
            waiting.append(each.value_type)
        elif isinstance(each, inspect.TupleType):
            waiting += each.item_types
        elif isinstance(each, inspect.CollectionType):
            waiting.append(each.item_type)
    return False
