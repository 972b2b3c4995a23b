"""Users and groups."""

import hmac
from typing import Any

from cml_simulator.core import pools, sharing
from cml_simulator.core.errors import CmlError, refused
from cml_simulator.core.model import Group, User
from cml_simulator.core.views import user_view
from cml_simulator.routes.login import read_opt_in
from cml_simulator.routes.web import NO_CONTENT, Access, Call, Document, Reply, Route, json_reply

TEXTS = {"fullname": 128, "description": 4096, "email": 128, "tour_version": 128, "pubkey": 16_384}
USER_KEYS = (*TEXTS, "username", "password", "admin", "groups", "resource_pool", "opt_in")
KEPT = 5000


def _user_of(call: Call) -> User:
    key = call.params["user_id"]
    user = call.server.users.get(key)
    if user is None:
        raise CmlError(404, f"User does not exist: {key}")
    if not call.account.admin and user is not call.account:
        raise CmlError(403, "User does not have permission for this user.")
    return user


def _keys(call: Call, keys: tuple[str, ...]) -> tuple[str, ...]:
    return (*keys, "associations") if call.server.config.profile.associations else keys


def _values(call: Call, body: Document) -> dict[str, Any]:
    """Return the checked plain fields of a user body that are given."""
    row, read = body.row, body.read
    values: dict[str, Any] = {
        k: read.text(row, k, most) or "" for k, most in TEXTS.items() if k in row
    }
    if "admin" in row:
        values["admin"] = bool(body.flag("admin"))
    if "opt_in" in row:
        values["opt_in"] = read_opt_in(call, body)
    pool = read.text(row, "resource_pool", 64)
    if pool is not None and pool not in call.server.pools:
        read.fail("resource_pool", "value_error", f"Resource pool not found: {pool}")
    if "username" in row:
        name = read.text(row, "username", 32, needed=True, line=True, least=1)
        values["username"] = name
    groups = row.get("groups")
    if groups is not None and not _all_in(groups, call.server.groups):
        read.fail("groups", "value_error", "Group does not exist")
    return values


def _all_in(value: Any, known: dict[str, Any]) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) and v in known for v in value)


def _apply(call: Call, user: User, body: Document, values: dict[str, Any]) -> None:
    name = values.get("username", user.username)
    others = (u for u in call.server.users.values() if u is not user)
    if any(other.username == name for other in others):
        raise refused(f"User already exists: {name}")
    if body.row.get("associations") is not None:
        rows = body.row["associations"]
        sharing.set_of_subject(call.server, "users", user.id, rows, labs_key="associations")
    for key, value in values.items():
        setattr(user, key, value)
    groups = body.row.get("groups")
    if groups is not None:
        for group in call.server.groups.values():
            wanted = group.id in groups
            group.members = [m for m in group.members if m != user.id]
            group.members += [user.id] if wanted else []
    if "resource_pool" in body:
        user.resource_pool = body.row["resource_pool"]
        for pool in call.server.pools.values():
            members = [u.id for u in call.server.users.values() if u.resource_pool == pool.id]
            pools.join(call.server, pool, members)
    user.modified = call.now


def list_users(call: Call) -> Any:
    """Return every account."""
    return [user_view(call.server, user) for user in call.server.users.values()]


def create_user(call: Call) -> Reply:
    """Create an account (201)."""
    body = call.document(_keys(call, USER_KEYS), ("username", "password"))
    password = body.read.text(body.row, "password", 128, least=1) or ""
    values = _values(call, body)
    body.done()
    if len(call.server.users) >= KEPT:
        raise refused("Too many users.")
    user = User(call.server.new_id(), "", password, created=call.now)
    _apply(call, user, body, values)
    call.server.users[user.id] = user
    return json_reply(user_view(call.server, user), 201)


def get_user(call: Call) -> Any:
    """Return one account."""
    return user_view(call.server, _user_of(call))


def patch_user(call: Call) -> Any:
    """Change an account; a password change gives the old one too, unless an admin does it."""
    user = _user_of(call)
    body = call.document(_keys(call, USER_KEYS))
    values = _values(call, body)
    change = body.row.get("password")
    if change is not None and not _is_change(change):
        body.read.fail("password", "dict_type", "Input should be {old_password, new_password}")
    body.done()
    if not call.account.admin and any(key in body for key in ("admin", "groups", "resource_pool")):
        raise CmlError(403, "Only admins change rights, groups and resource pools.")
    if change is not None:
        old = str(change.get("old_password", ""))
        same = hmac.compare_digest(old.encode(), user.password.encode())
        if not same and user is call.account:
            raise CmlError(403, "Wrong password.")
        user.password = change["new_password"]
    _apply(call, user, body, values)
    return user_view(call.server, user)


def _is_change(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() - {"old_password", "new_password"}:
        return False
    new, old = value.get("new_password"), value.get("old_password", "")
    good = isinstance(new, str) and 0 < len(new) <= 128 and isinstance(old, str)
    return good and _encodes(str(new)) and _encodes(str(old))


def _encodes(text: str) -> bool:
    return not any(0xD800 <= ord(letter) <= 0xDFFF for letter in text)


def delete_user(call: Call) -> Reply:
    """Remove an account, its labs' shares and its sessions."""
    user = _user_of(call)
    if user is call.account:
        raise refused("Users cannot delete themselves.")
    if any(lab.owner == user.id for lab in call.server.labs.values()):
        raise refused(f"User owns labs: {user.id}")
    del call.server.users[user.id]
    for group in call.server.groups.values():
        group.members = [m for m in group.members if m != user.id]
    for pool in call.server.pools.values():
        pool.users = [m for m in pool.users if m != user.id]
    sharing.forget(call.server, "users", user.id)
    call.server.sessions.revoke_user(user.id)
    return NO_CONTENT


def user_id(call: Call) -> Any:
    """Return the id of a user name."""
    name = call.params["user_id"]
    for user in call.server.users.values():
        if user.username == name:
            return user.id
    raise CmlError(404, f"User does not exist: {name}")


def user_groups(call: Call) -> Any:
    """Return the groups of a user (deprecated)."""
    user = _user_of(call)
    return [g.id for g in call.server.groups.values() if user.id in g.members]


def _group_view(call: Call, group: Group) -> dict[str, Any]:
    server = call.server
    shares = sharing.of_subject(server, "groups", group.id)
    body = {
        "id": group.id,
        "name": group.name,
        "description": group.description,
        "members": group.members,
        "associations": shares,
        "created": server.stamp(group.created),
        "modified": server.stamp(group.modified),
        "directory_dn": "",
        "directory_exists": None,
    }
    if server.config.profile.group_lists:
        body["labs"] = [
            {
                "id": s["id"],
                "permission": "read_write" if "lab_edit" in s["permissions"] else "read_only",
            }
            for s in shares
        ]
    return body


def list_groups(call: Call) -> Any:
    """Return every group."""
    return [_group_view(call, group) for group in call.server.groups.values()]


GROUP_KEYS = ("name", "description", "members", "labs")


def _group_values(call: Call, body: Document) -> dict[str, Any]:
    read, row = body.read, body.row
    values: dict[str, Any] = {}
    if "name" in row:
        values["name"] = read.text(row, "name", 64, needed=True, line=True, least=1)
    if "description" in row:
        values["description"] = read.text(row, "description", 4096) or ""
    if row.get("members") is not None:
        if not _all_in(row["members"], call.server.users):
            read.fail("members", "value_error", "User does not exist")
        else:
            values["members"] = list(dict.fromkeys(row["members"]))
    return values


def _share(call: Call, group: Group, body: Document) -> None:
    """Share labs with a group, in either form."""
    old, rows = body.row.get("labs"), body.row.get("associations")
    if isinstance(old, list) and rows is None:
        words = {"read_write": ["lab_view", "lab_edit", "lab_exec"], "read_only": ["lab_view"]}
        rows = [
            {"id": row.get("id"), "permissions": words.get(str(row.get("permission")))}
            for row in old
            if isinstance(row, dict)
        ]
    if rows is not None:
        sharing.set_of_subject(call.server, "groups", group.id, rows, labs_key="associations")


def create_group(call: Call) -> Reply:
    """Create a group (201)."""
    body = call.document(_keys(call, GROUP_KEYS), ("name",))
    values = _group_values(call, body)
    body.done()
    _unique_group(call, values["name"], None)
    if len(call.server.groups) >= KEPT:
        raise refused("Too many groups.")
    group = Group(call.server.new_id(), created=call.now, modified=call.now, **values)
    _share(call, group, body)
    call.server.groups[group.id] = group
    return json_reply(_group_view(call, group), 201)


def _unique_group(call: Call, name: str, me: Group | None) -> None:
    if any(group.name == name and group is not me for group in call.server.groups.values()):
        raise refused(f"Group already exists: {name}")


def _group_of(call: Call) -> Group:
    group = call.server.groups.get(call.params["group_id"])
    if group is None:
        raise CmlError(404, f"Group does not exist: {call.params['group_id']}")
    return group


def get_group(call: Call) -> Any:
    """Return one group."""
    return _group_view(call, _group_of(call))


def patch_group(call: Call) -> Any:
    """Change a group's name, members or labs."""
    group = _group_of(call)
    body = call.document(_keys(call, GROUP_KEYS))
    values = _group_values(call, body)
    body.done()
    if "name" in values:
        _unique_group(call, values["name"], group)
    _share(call, group, body)
    for key, value in values.items():
        setattr(group, key, value)
    group.modified = call.now
    return _group_view(call, group)


def delete_group(call: Call) -> Reply:
    """Remove a group and what was shared with it."""
    group = _group_of(call)
    del call.server.groups[group.id]
    sharing.forget(call.server, "groups", group.id)
    return NO_CONTENT


def group_labs(call: Call) -> Any:
    """Return the labs of a group (deprecated)."""
    return [row["id"] for row in sharing.of_subject(call.server, "groups", _group_of(call).id)]


def group_members(call: Call) -> Any:
    """Return the members of a group (deprecated)."""
    return _group_of(call).members


def group_id(call: Call) -> Any:
    """Return the id of a group name."""
    name = call.params["group_id"]
    for group in call.server.groups.values():
        if group.name == name:
            return group.id
    raise CmlError(404, f"Group does not exist: {name}")


ROUTES = (
    Route("GET", "/users", list_users),
    Route("POST", "/users", create_user, Access.ADMIN),
    Route("GET", "/users/{user_id}", get_user),
    Route("PATCH", "/users/{user_id}", patch_user),
    Route("DELETE", "/users/{user_id}", delete_user, Access.ADMIN),
    Route("GET", "/users/{user_id}/id", user_id),
    Route("GET", "/users/{user_id}/groups", user_groups),
    Route("GET", "/groups", list_groups),
    Route("POST", "/groups", create_group, Access.ADMIN),
    Route("GET", "/groups/{group_id}", get_group),
    Route("PATCH", "/groups/{group_id}", patch_group, Access.ADMIN),
    Route("DELETE", "/groups/{group_id}", delete_group, Access.ADMIN),
    Route("GET", "/groups/{group_id}/id", group_id),
    Route("GET", "/groups/{group_id}/labs", group_labs),
    Route("GET", "/groups/{group_id}/members", group_members),
)
