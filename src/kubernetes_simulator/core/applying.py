"""Server-side apply: who set which field, and what an apply by one of them makes of an object.

Field sets are those of `fieldsV1`: `f:name` for a field, `k:{...}` for an entry of a list told
apart by keys, `v:...` for a member of a set. Only appliers own fields here: plain writes change
values without taking them over.
"""

import json
from typing import Any

from kubernetes_simulator.core.errors import ApiError
from kubernetes_simulator.core.inputs import Json, copied, stamp
from kubernetes_simulator.core.lists import ListRule, rule_of

NEVER = {
    (), ("f:apiVersion",), ("f:kind",), ("f:metadata",), ("f:metadata", "f:name"),
    ("f:metadata", "f:namespace"), ("f:metadata", "f:uid"), ("f:metadata", "f:resourceVersion"),
    ("f:metadata", "f:managedFields"), ("f:metadata", "f:creationTimestamp"),
    ("f:metadata", "f:generation"), ("f:metadata", "f:selfLink"),
}  # fmt: skip
Path = tuple[str, ...]


def _entry(rule: ListRule, value: Any) -> str:
    if not rule.keys:
        return "v:" + json.dumps(value, separators=(",", ":"))
    defaults = {"protocol": "TCP"}
    keys = {key: value.get(key, defaults.get(key)) for key in rule.keys}
    return "k:" + json.dumps(keys, separators=(",", ":"), sort_keys=True)


def fields_of(value: Any, path: Path = (), parent: str = "") -> dict[Path, Any]:
    """Return the leaves of an applied object with their values, by path."""
    if not isinstance(value, dict):
        return {path: value}
    if not value and path:
        return {path: value}
    found: dict[Path, Any] = {}
    for key, each in value.items():
        here = (*path, f"f:{key}")
        if here in NEVER and here != ("f:metadata",):
            continue
        rule = rule_of(parent, key) if isinstance(each, list) else None
        if rule is not None and rule.keys and not all(isinstance(one, dict) for one in each):
            rule = None
        if rule is not None and each:
            for one in each:
                there = (*here, _entry(rule, one))
                if rule.keys:
                    found[there] = _ENTRY
                    found |= fields_of(one, there, key)
                else:
                    found[there] = one
        else:
            found |= fields_of(each, here, key)
    return found


_ENTRY: Json = {}
"""The value at the path of an entry itself: what is in it is owned field by field."""


def tree(paths: set[Path]) -> Json:
    """Return paths as `fieldsV1`."""
    root: Json = {}
    for path in sorted(paths):
        here = root
        for part in path:
            here = here.setdefault(part, {})
        if path[-1].startswith("k:"):
            here["."] = {}
    return root


def paths_of(fields: Json, path: Path = ()) -> set[Path]:
    """Return the paths of a `fieldsV1`."""
    found: set[Path] = set()
    inner = {key: value for key, value in fields.items() if key != "."}
    if path and (not inner or "." in fields):
        found.add(path)
    for key, value in inner.items():
        found |= paths_of(value, (*path, key))
    return found


def value_at(obj: Any, path: Path) -> Any:
    """Return what stands at a path; `MISSING` if nothing does."""
    for part in path:
        obj = _child(obj, part)
        if obj is MISSING:
            return MISSING
    return obj


class _Missing:
    pass


MISSING = _Missing()


def _child(obj: Any, part: str) -> Any:
    if part.startswith("f:"):
        return obj.get(part[2:], MISSING) if isinstance(obj, dict) else MISSING
    if not isinstance(obj, list):
        return MISSING
    wanted = json.loads(part[2:])
    if part.startswith("v:"):
        return wanted if wanted in obj else MISSING
    return next((each for each in obj if _matches(each, wanted)), MISSING)


def _matches(entry: Any, keys: Json) -> bool:
    return isinstance(entry, dict) and all(
        entry.get(key, "TCP" if key == "protocol" else None) == value for key, value in keys.items()
    )


def _set(obj: Any, path: Path, value: Any, whole: Json) -> None:
    """Put a value at a path of a copy, making what is missing above it."""
    for depth, part in enumerate(path[:-1]):
        held = _child(obj, part)
        listed = path[depth + 1][0] in "kv"
        if not isinstance(held, list if listed else dict):
            held = [] if listed else {}
            if part.startswith("f:"):
                obj[part[2:]] = held
            else:
                held = json.loads(part[2:])
                obj.append(held)
        obj = held
    last = path[-1]
    if last.startswith("f:"):
        obj[last[2:]] = copied(value)
    elif last.startswith("v:"):
        if value not in obj:
            obj.append(value)
    elif _child(obj, last) is MISSING:
        entry = value_at(whole, path)
        obj.append({key: entry[key] for key in json.loads(last[2:]) if key in entry})


def _unset(obj: Any, path: Path) -> None:
    above = value_at(obj, path[:-1])
    last = path[-1]
    if above is MISSING:
        return
    if last.startswith("f:"):
        if isinstance(above, dict):
            above.pop(last[2:], None)
    elif isinstance(above, list):
        gone = _child(above, last)
        if gone is not MISSING:
            above.remove(gone)


def applied(live: Json, wanted: Json, who: str, now: float, *, force: bool) -> Json:
    """Return an object after an apply; 409 with the owners when it would change another's field.

    who: the field's owner that applies. What it applied before and leaves out now is removed,
    unless somebody else applied it too.
    """
    rows = list(live["metadata"].get("managedFields") or ())
    owned = {
        row.get("manager", ""): paths_of(row.get("fieldsV1") or {})
        for row in rows
        if row.get("operation") == "Apply"
    }
    asked = fields_of(wanted)
    others = {name: paths for name, paths in owned.items() if name != who}
    clashes = [
        (name, path)
        for name, paths in sorted(others.items())
        for path, value in asked.items()
        if path in paths and _differs(value, value_at(live, path))
    ]
    if clashes and not force:
        raise _clash(clashes)
    result: Json = copied(live)
    for path, value in asked.items():
        if _differs(value, value_at(result, path)):
            _set(result, path, value, wanted)
    kept = set[Path]().union(*others.values()) if others else set[Path]()
    dropped = owned.get(who, set()) - asked.keys() - kept
    # An entry goes before what is in it; a key of it must not go first, or it is not found.
    for path in sorted(dropped, key=len):
        held = value_at(result, path)
        full = isinstance(held, dict) and bool(held) and not path[-1].startswith("k:")
        if not full and not _holds_other(path, kept | asked.keys()):
            _unset(result, path)
    taken = {path for _, path in clashes}
    result["metadata"]["managedFields"] = _rows(rows, who, (set(asked), taken), wanted, now)
    return result


def _differs(wanted: Any, held: Any) -> bool:
    """Tell whether an applied value is another one; an empty object asks for nothing in it."""
    if wanted == {} and isinstance(held, dict):
        return False
    return held is MISSING or wanted != held


def _holds_other(path: Path, kept: set[Path]) -> bool:
    return any(each[: len(path)] == path for each in kept)


def _clash(clashes: list[tuple[str, Path]]) -> ApiError:
    shown = [(name, ".".join(("", *(part[2:] for part in path)))) for name, path in clashes]
    names = ", ".join(sorted({f'"{name}"' for name, _ in shown}))
    word = "conflict" if len(shown) == 1 else "conflicts"
    lines = "\n".join(f"- {field}" for _, field in shown)
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{name}"', "field": field}
        for name, field in shown[:50]
    ]
    text = f"Apply failed with {len(shown)} {word}: {word} with {names}:\n{lines}"
    return ApiError(409, "Conflict", text, {"causes": causes})


def _rows(
    rows: list[Json], who: str, paths: tuple[set[Path], set[Path]], wanted: Json, now: float
) -> list[Json]:
    """Return who owns what after an apply of one; paths: what it asks, what it takes of others."""
    asked, taken = paths
    found = []
    for row in rows:
        if row.get("operation") != "Apply":
            found.append(row)
        elif row.get("manager") != who:
            left = paths_of(row.get("fieldsV1") or {}) - taken
            if left:
                found.append({**row, "fieldsV1": tree(left)})
    mine: Json = {
        "manager": who,
        "operation": "Apply",
        "apiVersion": wanted.get("apiVersion", ""),
        "time": stamp(now),
        "fieldsType": "FieldsV1",
        "fieldsV1": tree(asked),
    }
    same = next(
        (row for row in rows if row.get("operation") == "Apply" and row.get("manager") == who), None
    )
    if same is not None and same.get("fieldsV1") == mine["fieldsV1"]:
        mine["time"] = same.get("time", mine["time"])
    return [*found, mine]
