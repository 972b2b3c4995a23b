"""Strategic merge patches: merge patches that know which lists are told apart by a key.

The directives `$patch`, `$deleteFromPrimitiveList`, `$setElementOrder` and `$retainKeys` are read.
"""

from typing import Any

from kubernetes_simulator.core.errors import bad_request
from kubernetes_simulator.core.inputs import Json, copied
from kubernetes_simulator.core.lists import ListRule, rule_of

DELETE_FROM, ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


def patched(target: Json, patch: Any) -> Json:
    """Return an object after a strategic merge patch."""
    if not isinstance(patch, dict):
        raise bad_request("a strategic merge patch is an object")
    return _object(target, patch, "")


def _object(target: Any, patch: Json, parent: str) -> Json:
    how = patch.get("$patch")
    if how == "replace":
        return {key: copied(value) for key, value in patch.items() if key != "$patch"}
    if how == "delete":
        return {}
    found: Json = dict(target) if isinstance(target, dict) else {}
    if "$retainKeys" in patch:
        kept = set(patch["$retainKeys"])
        found = {key: value for key, value in found.items() if key in kept}
    for key, value in patch.items():
        if not key.startswith("$"):
            _field(found, key, value, parent)
    for key, value in patch.items():
        if key.startswith(DELETE_FROM):
            name = key.removeprefix(DELETE_FROM)
            found[name] = [each for each in found.get(name) or [] if each not in value]
        elif key.startswith(ORDER):
            name = key.removeprefix(ORDER)
            if isinstance(found.get(name), list):
                found[name] = _ordered(found[name], value, rule_of(parent, name))
    return found


def _field(found: Json, key: str, value: Any, parent: str) -> None:
    rule = rule_of(parent, key)
    if value is None:
        found.pop(key, None)
    elif isinstance(value, dict):
        found[key] = _object(found.get(key), value, key)
    elif isinstance(value, list) and rule is not None:
        held = found.get(key)
        found[key] = _list(held if isinstance(held, list) else [], value, rule, key)
    else:
        found[key] = copied(value)


def _list(target: list[Any], patch: list[Any], rule: ListRule, parent: str) -> list[Any]:
    if rule.keys and not all(isinstance(one, dict) for one in target):
        return [copied(each) for each in patch]
    if not rule.keys:
        return [*target, *(copied(each) for each in patch if each not in target)]
    if any(isinstance(each, dict) and each.get("$patch") == "replace" for each in patch):
        return [copied(each) for each in patch if "$patch" not in each]
    found = list(target)
    for each in patch:
        if not isinstance(each, dict) or rule.merge not in each:
            raise bad_request(f"map does not contain declared merge key: {rule.merge}")
        at = next(
            (n for n, one in enumerate(found) if one.get(rule.merge) == each[rule.merge]), None
        )
        if each.get("$patch") == "delete":
            found = [one for one in found if one.get(rule.merge) != each[rule.merge]]
        elif at is None:
            found.append(_object({}, each, parent))
        else:
            found[at] = _object(found[at], each, parent)
    return found


def _ordered(values: list[Any], order: list[Any], rule: ListRule | None) -> list[Any]:
    """Return a list with what the patch names in its order; the rest keeps its places after it."""
    if rule is None or not isinstance(order, list):
        return values
    if rule.keys:
        places = {each.get(rule.merge): n for n, each in enumerate(order) if isinstance(each, dict)}
        return sorted(values, key=lambda each: places.get(each.get(rule.merge), len(places)))
    spots = {each: n for n, each in enumerate(order)}
    return sorted(values, key=lambda each: spots.get(each, len(spots)))
