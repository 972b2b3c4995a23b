"""Conditions in a status: made, and put in so that times move only when the answer does."""

from kubernetes_simulator.core.inputs import Json, stamp


def condition(kind: str, status: str, now: float, reason: str = "", message: str = "") -> Json:
    """Return a condition."""
    found = {"type": kind, "status": status, "lastTransitionTime": stamp(now)}
    if reason:
        found["reason"] = reason
    if message:
        found["message"] = message
    return found


def with_conditions(status: Json, *conditions: Json) -> Json:
    """Return a status with conditions put in; one whose answer stays keeps its time."""
    held = {each["type"]: each for each in status.get("conditions") or ()}
    for each in conditions:
        before = held.get(each["type"])
        if before is not None and before["status"] == each["status"]:
            held[each["type"]] = {**before, **each}
            if "lastTransitionTime" in before:
                held[each["type"]]["lastTransitionTime"] = before["lastTransitionTime"]
        else:
            held[each["type"]] = each
    return {**status, "conditions": list(held.values())}


def holds(obj: Json, kind: str) -> bool:
    """Tell whether an object's condition is true."""
    rows = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in rows)
