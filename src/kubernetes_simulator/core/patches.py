"""JSON patch (RFC 6902) and merge patch (RFC 7386) on JSON values; results are new values."""

from typing import Any

from kubernetes_simulator.core.errors import ApiError, bad_request
from kubernetes_simulator.core.inputs import Json, copied

MOST_STEPS = 10_000
NEEDED = {"add": "value", "replace": "value", "test": "value", "move": "from", "copy": "from"}


def merged(target: Any, patch: Any) -> Any:
    """Return a target after a merge patch: null removes, objects merge, all else replaces."""
    if not isinstance(patch, dict):
        return copied(patch)
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


def _refused(text: str) -> ApiError:
    return ApiError(422, "Invalid", f"the server rejected our request due to an error: {text}")


def _path(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise bad_request(f"a path of a JSON patch begins with /, not {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _index(part: str, length: int, *, end: bool) -> int:
    if part == "-" and end:
        return length
    if not part.isdigit() or int(part) > length - (0 if end else 1):
        raise _refused(f"no such index: {part}")
    return int(part)


def _found(value: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(value, list):
            value = value[_index(part, len(value), end=False)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            raise _refused(f"no such path: /{'/'.join(path)}")
    return value


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _found(document, path[:-1])
    if isinstance(parent, list):
        parent.insert(_index(path[-1], len(parent), end=True), value)
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise _refused(f"nothing can be added at /{'/'.join(path)}")
    return document


def _remove(document: Any, path: list[str]) -> Any:
    if not path:
        return None
    _found(document, path)
    parent = _found(document, path[:-1])
    if isinstance(parent, list):
        del parent[int(path[-1])]
    else:
        del parent[path[-1]]
    return document


def _step(document: Any, step: Json) -> Any:
    how, path = step.get("op"), _path(step.get("path"))
    if how in NEEDED and NEEDED[how] not in step:
        raise bad_request(f"an {how} of a JSON patch needs {NEEDED[how]}")
    match how:
        case "add":
            return _add(document, path, copied(step["value"]))
        case "remove":
            return _remove(document, path)
        case "replace":
            _found(document, path)
            parent = _found(document, path[:-1]) if path else None
            if isinstance(parent, list):
                parent[int(path[-1])] = copied(step["value"])
                return document
            return _add(document, path, copied(step["value"]))
        case "test":
            if _found(document, path) != step["value"]:
                raise _refused(f"testing value {step.get('path')} failed")
            return document
        case "copy":
            return _add(document, path, copied(_found(document, _path(step["from"]))))
        case "move":
            source = _path(step["from"])
            value = _found(document, source)
            if path[: len(source)] == source and path != source:
                raise _refused("a value cannot be moved into itself")
            return _add(_remove(document, source), path, value)
        case _:
            raise bad_request(f"no such operation of a JSON patch: {how!r}")


def stepped(target: Json, patch: Any) -> Any:
    """Return a target after a JSON patch; 422 if a step cannot be taken, and then none is."""
    if not isinstance(patch, list) or not all(isinstance(step, dict) for step in patch):
        raise bad_request("a JSON patch is a list of operations")
    if len(patch) > MOST_STEPS:
        raise bad_request(f"a JSON patch has at most {MOST_STEPS} operations")
    document = copied(target)
    for step in patch:
        document = _step(document, step)
    return document
