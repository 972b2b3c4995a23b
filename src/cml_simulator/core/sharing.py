"""Who may do what with a lab: its owner, admins, and whom it is shared with.

Both forms show the same shares: `associations` (2.8+) and the deprecated `groups` (until 2.9).
"""

from typing import Any

from cml_simulator.core.errors import Problem, invalid
from cml_simulator.core.model import Lab, User
from cml_simulator.core.server import Server

PERMISSIONS = ("lab_view", "lab_edit", "lab_exec", "lab_admin")
READ_WRITE = {"lab_view", "lab_edit", "lab_exec"}


def permissions(server: Server, lab: Lab, user: User | None) -> list[str]:
    """Return what a user may do; an owner and an admin (or nobody in particular): everything."""
    if user is None or user.admin or lab.owner == user.id:
        return list(PERMISSIONS)
    held: set[str] = set(lab.shares.get(("users", user.id), ()))
    for group in server.groups.values():
        if user.id in group.members:
            held |= lab.shares.get(("groups", group.id), set())
    return [name for name in PERMISSIONS if name in held]


def visible(server: Server, lab: Lab, user: User) -> bool:
    """Whether a user may see a lab."""
    return bool(permissions(server, lab, user))


def associations(lab: Lab) -> dict[str, list[dict[str, Any]]]:
    """Return the shares of a lab in the present form."""
    found: dict[str, list[dict[str, Any]]] = {"groups": [], "users": []}
    for (kind, key), held in lab.shares.items():
        found[kind].append({"id": key, "permissions": [p for p in PERMISSIONS if p in held]})
    return found


def of_subject(server: Server, kind: str, key: str) -> list[dict[str, Any]]:
    """Return the labs that are shared with a user or group."""
    return [
        {"id": lab.id, "permissions": [p for p in PERMISSIONS if p in held]}
        for lab in server.labs.values()
        if (held := lab.shares.get((kind, key)))
    ]


def old_groups(lab: Lab) -> list[dict[str, str]]:
    """Return the groups of a lab in the deprecated form."""
    return [
        {"id": key, "permission": "read_write" if "lab_edit" in held else "read_only"}
        for (kind, key), held in lab.shares.items()
        if kind == "groups"
    ]


def _rows(
    value: Any, where: tuple[str | int, ...], problems: list[Problem]
) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        problems.append(Problem(where, "list_type", "Input should be a list of objects"))
        return []
    return value


def _read(
    value: Any,
    where: tuple[str | int, ...],
    known: dict[str, Any],
    what: str,
    problems: list[Problem],
) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for index, row in enumerate(_rows(value, where, problems)):
        key, names = row.get("id"), row.get("permissions")
        if not isinstance(key, str) or key not in known:
            text = f"{what} does not exist: {key}"
            problems.append(Problem((*where, index, "id"), "value_error", text))
        elif not isinstance(names, list) or any(name not in PERMISSIONS for name in names):
            text = f"Input should be a list of {', '.join(PERMISSIONS)}"
            problems.append(Problem((*where, index, "permissions"), "enum", text))
        elif set(row) - {"id", "permissions"}:
            problems.append(Problem((*where, index), "extra_forbidden", "Extra inputs"))
        elif names:
            found[key] = {*names, "lab_view"}
    return found


def set_associations(server: Server, lab: Lab, value: Any) -> None:
    """Replace the shares of a lab; a kind that is absent stays as it is."""
    if not isinstance(value, dict) or value.keys() - {"groups", "users"}:
        raise invalid([Problem(("body",), "dict_type", "Input should be {groups, users}")])
    problems: list[Problem] = []
    fresh = {
        kind: _read(value[kind], ("body", kind), known, what, problems)
        for kind, known, what in (
            ("groups", server.groups, "Group"),
            ("users", server.users, "User"),
        )
        if value.get(kind) is not None
    }
    if problems:
        raise invalid(problems)
    for kind, rows in fresh.items():
        lab.shares = {key: held for key, held in lab.shares.items() if key[0] != kind}
        lab.shares |= {(kind, key): held for key, held in rows.items()}


def set_of_subject(server: Server, kind: str, key: str, value: Any, *, labs_key: str) -> None:
    """Replace the labs shared with a user or group; `labs_key` names the place for problems."""
    problems: list[Problem] = []
    rows = _read(value, ("body", labs_key), server.labs, "Lab", problems)
    if problems:
        raise invalid(problems)
    for lab in server.labs.values():
        lab.shares.pop((kind, key), None)
        if lab.id in rows:
            lab.shares[kind, key] = rows[lab.id]


def set_old_groups(server: Server, lab: Lab, value: Any) -> None:
    """Replace the groups of a lab, given in the deprecated form."""
    problems: list[Problem] = []
    rows = _rows(value, ("body",), problems)
    turned = [
        {
            "id": row.get("id"),
            "permissions": sorted(READ_WRITE)
            if row.get("permission") == "read_write"
            else ["lab_view"]
            if row.get("permission") == "read_only"
            else None,
        }
        for row in rows
    ]
    if problems:
        raise invalid(problems)
    set_associations(server, lab, {"groups": turned})


def forget(server: Server, kind: str, key: str) -> None:
    """Drop every share of a user or group that is gone."""
    for lab in server.labs.values():
        lab.shares.pop((kind, key), None)
