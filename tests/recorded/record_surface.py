"""Records what clients see: the OpenAPI document, and manifests and objects of every kind.

Run by `record.py` with the checkout that is to be recorded; the tests compare with today's.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import inspect

from labfleet.app.demo import cast
from labfleet.resources import fleet_settings, kinds

FENCE = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTANT = "2026-11-27T09:00:00Z"
WORDS = ("example", "1.2.3", "10.0.0.0/8", "https://example.org/", "i-0123456789abcdef0",
         "ann@example.org", "2026-11-30", "2026-11-30T09:00", "09:30")  # fmt: skip
"""Texts of which one fits each pattern."""


def openapi(root: Path) -> dict[str, Any]:
    """Return the document as a client of this checkout gets it."""
    for room in ("service", "api"):
        sys.path.insert(0, str(root / "tests" / room))
    from api_caller import api

    async def asked() -> dict[str, Any]:
        async with api() as opened:
            reply = await opened.call("GET", "/api/v1/openapi.json", role=None)
            found: dict[str, Any] = reply.json
            return found

    return asyncio.run(asked())


def manifests(root: Path) -> list[dict[str, Any]]:
    """Return every manifest of the tutorials, the guides and the demo, as a mapping."""
    found: list[dict[str, Any]] = []
    folders = (root / "docs" / "tutorials", root / "docs" / "how-to")
    texts = [text for each in folders for page in sorted(each.glob("*.md"))
             for text in FENCE.findall(page.read_text())]  # fmt: skip
    texts += [path.read_text() for each in folders for path in sorted(each.rglob("*.yaml"))]
    for text in texts:
        for value in yaml.safe_load_all(text):
            if isinstance(value, dict) and {"kind", "spec"} <= value.keys():
                found.append(_whole(root, value))
    made = cast.compose(
        cast.built_in_labs(), copies=1, minutes=30, maximum=4, cml_port=8443,
        region="eu-west-1", subnets=["subnet-1"], unreadable={},
    )  # fmt: skip
    return [*found, made.template, made.pool, made.cluster, *made.definitions, *made.sessions]


def _whole(root: Path, value: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest with the file that it names in it, as `labfleet apply` sends it."""
    named = value["spec"].pop("topologyFile", None)
    if named is not None:
        (path,) = (root / "docs").rglob(named)
        value["spec"]["topology"] = path.read_text()
    return value


# --- objects with every field -------------------------------------------------------------


def fullest() -> dict[str, list[dict[str, Any]]]:
    """Return stored objects of each kind that have, between them, every field set."""
    made = {
        name: [{**each, "kind": name} for each in _records(inspect.type_info(row.type))]
        for name, row in kinds.KINDS.items()
        if name != "Settings"
    }
    # Their sections are layers, which the types of records do not tell; every value is set.
    layers = msgspec.to_builtins(fleet_settings.effective(None, {}))
    spec = {name: {key: value for key, value in layer.items() if value is not None}
            for name, layer in layers.items()}  # fmt: skip
    status = _records(inspect.type_info(fleet_settings.SettingsStatus))[0]
    metadata = made["Template"][0]["metadata"]
    settings = {"kind": "Settings", "metadata": metadata, "spec": spec, "status": status}
    return {**made, "Settings": [settings]}


def _records(info: Any) -> list[dict[str, Any]]:
    """Return valid values of a record, among which each field stands, in each of its forms."""
    forms = {each.encode_name: _forms(each.type) for each in info.fields}
    needed = _least({each.encode_name: forms[each.encode_name] for each in info.fields
                     if each.required}, info.cls)  # fmt: skip
    left = [name for name in forms if name not in needed]
    made: list[dict[str, Any]] = []
    while left or not made:
        one = dict(needed)
        for name in left:
            fits = (form for form in forms[name] if _valid({**one, name: form}, info.cls))
            one |= {name: form for form in itertools.islice(fits, 1)}
        if one.keys() == needed.keys() and left:
            raise AssertionError(f"{info.cls.__name__}: no valid value with any of {left}")
        left = [name for name in left if name not in one]
        made.append(one)
    for name, others in forms.items():
        base = next(one for one in made if name in one)
        for form in others:
            if form != base[name]:
                small = {**needed, name: form}
                made += [each for each in (small, {**base, name: form})
                         if _valid(each, info.cls)][:1]  # fmt: skip
    return made


def _least(forms: dict[str, list[Any]], kind: Any) -> dict[str, Any]:
    """Return the first choice of the required fields' forms that is valid, and is so alone."""
    choices = (dict(zip(forms, each, strict=True)) for each in itertools.product(*forms.values()))
    first = next((each for each in choices if _valid(each, kind)), None)
    return first or {name: each[0] for name, each in forms.items()}


def _valid(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _forms(info: Any) -> list[Any]:
    """Return values of a type that are not empty; several where its records have forms."""
    if isinstance(info, inspect.UnionType):
        return [
            form
            for each in info.types
            if not isinstance(each, inspect.NoneType)
            for form in _forms(each)
        ]
    if isinstance(info, inspect.StructType):
        tag = {} if info.tag_field is None else {info.tag_field: info.tag}
        return [{**tag, **each} for each in _records(info)]
    if isinstance(info, inspect.LiteralType):
        return list(info.values)
    if isinstance(info, inspect.EnumType):
        return [each.value for each in info.cls]
    if isinstance(info, inspect.DictType):
        keys = _forms(info.key_type)
        return [{keys[0]: form} for form in _forms(info.value_type)]
    if isinstance(info, inspect.VarTupleType | inspect.ListType | inspect.SetType):
        forms = _forms(info.item_type)
        most = info.max_length or len(forms)
        return [forms[at : at + most] for at in range(0, len(forms), most)]
    if isinstance(info, inspect.TupleType):
        return [[_forms(each)[0] for each in info.item_types]]
    return _plain(info)


def _plain(info: Any) -> list[Any]:
    if isinstance(info, inspect.StrType):
        return [word for word in WORDS if re.search(info.pattern or "", word)]
    if isinstance(info, inspect.BoolType):
        return [True, False]
    if isinstance(info, inspect.IntType | inspect.FloatType):
        low, high = info.ge or info.gt or 0, info.le or info.lt or 1e9
        return [number for number in (3, low + 1, high) if low <= number <= high][:1]
    if isinstance(info, inspect.DateTimeType):
        return [INSTANT]
    if isinstance(info, inspect.AnyType):
        return [{"any": ["value", 1, None]}]
    raise AssertionError(f"no example of {info!r}")
