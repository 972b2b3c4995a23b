"""Users and groups: section 2.7."""

from typing import Any

from cml_simulator.core.errors import CmlError, refused
from cml_simulator.core.inputs import iso
from cml_simulator.core.model import Group, User
from cml_simulator.core.views import user_view
from cml_simulator.routes.web import NO_CONTENT, Access, Call, Reply, Route, json_reply

TEXTS = ("fullname", "description", "email")


def _user_of(call: Call) -> User:
    key = call.params["user_id"]
    user = call.server.users.get(key)
    if user is None:
        raise CmlError(404, f"User does not exist: {key}")
    if not call.account.admin and user is not call.account:
        raise CmlError(403, "User does not have permission for this user.")
    return user


def list_users(call: Call) -> Any:
    """Return every account."""
    return [user_view(call.server, user) for user in call.server.users.values()]


def create_user(call: Call) -> Reply:
    """Create an account (201)."""
    keys = (*TEXTS, "username", "password", "admin", "groups", "resource_pool", "opt_in")
    body = call.document((*keys, "tour_version", "pubkey", "associations"), keys[3:5])
    name = body.read.text(body.row, "username", 32, line=True, least=1) or ""
    password = body.read.text(body.row, "password", 128, least=1) or ""
    texts = {key: body.read.text(body.row, key, 256) or "" for key in TEXTS}
    admin = body.flag("admin") or False
    body.done()
    if any(user.username == name for user in call.server.users.values()):
        raise refused(f"User already exists: {name}")
    user = User(call.server.new_id(), name, password, admin=admin)
    _set_texts(user, texts)
    user.created = user.modified = call.now
    call.server.users[user.id] = user
    return json_reply(user_view(call.server, user), 201)


def _set_texts(user: User, texts: dict[str, str]) -> None:
    for key, text in texts.items():
        setattr(user, key, text)


def get_user(call: Call) -> Any:
    """Return one account."""
    return user_view(call.server, _user_of(call))


def patch_user(call: Call) -> Any:
    """Change an account; a password change gives the old one too, unless an admin does it."""
    user = _user_of(call)
    body = call.document((*TEXTS, "password", "admin", "opt_in"))
    texts = {k: body.read.text(body.row, k, 256) or "" for k in TEXTS if k in body}
    admin = body.flag("admin")
    change = body.row.get("password")
    good = isinstance(change, dict) and change.keys() == {"old_password", "new_password"}
    if change is not None and not good:
        body.read.fail("password", "dict_type", "Input should be {old_password, new_password}")
    body.done()
    if isinstance(change, dict):
        if change["old_password"] != user.password and user is call.account:
            raise CmlError(403, "Wrong password.")
        user.password = str(change["new_password"])
    if admin is not None:
        if not call.account.admin:
            raise CmlError(403, "Only admins make admins.")
        user.admin = admin
    _set_texts(user, texts)
    user.modified = call.now
    return user_view(call.server, user)


def delete_user(call: Call) -> Reply:
    """Remove an account and end its sessions."""
    user = _user_of(call)
    if user is call.account:
        raise refused("Users cannot delete themselves.")
    del call.server.users[user.id]
    call.server.sessions.revoke_user(user.id)
    return NO_CONTENT


def user_id(call: Call) -> Any:
    """Return the id of a user name."""
    name = call.params["user_id"]
    for user in call.server.users.values():
        if user.username == name:
            return user.id
    raise CmlError(404, f"User does not exist: {name}")


def _group_view(group: Group) -> dict[str, Any]:
    return {
        "id": group.id,
        "name": group.name,
        "description": group.description,
        "members": group.members,
        "labs": [],
        "associations": group.associations,
        "created": iso(group.created),
        "modified": iso(group.modified),
        "directory_dn": "",
        "directory_exists": None,
    }


def list_groups(call: Call) -> Any:
    """Return every group."""
    return [_group_view(group) for group in call.server.groups.values()]


def create_group(call: Call) -> Reply:
    """Create a group (201)."""
    body = call.document(("name", "description", "members", "labs", "associations"), ("name",))
    name = body.read.text(body.row, "name", 64, line=True, least=1) or ""
    text = body.read.text(body.row, "description", 4096) or ""
    members = body.row.get("members") or []
    if not isinstance(members, list) or any(m not in call.server.users for m in members):
        body.read.fail("members", "value_error", "Unknown member")
    body.done()
    if any(group.name == name for group in call.server.groups.values()):
        raise refused(f"Group already exists: {name}")
    group = Group(call.server.new_id(), name, text, members, [], call.now, call.now)
    call.server.groups[group.id] = group
    return json_reply(_group_view(group), 201)


def _group_of(call: Call) -> Group:
    group = call.server.groups.get(call.params["group_id"])
    if group is None:
        raise CmlError(404, f"Group does not exist: {call.params['group_id']}")
    return group


def get_group(call: Call) -> Any:
    """Return one group."""
    return _group_view(_group_of(call))


def delete_group(call: Call) -> Reply:
    """Remove a group."""
    del call.server.groups[_group_of(call).id]
    return NO_CONTENT


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
    Route("GET", "/groups", list_groups),
    Route("POST", "/groups", create_group, Access.ADMIN),
    Route("GET", "/groups/{group_id}", get_group),
    Route("DELETE", "/groups/{group_id}", delete_group, Access.ADMIN),
    Route("GET", "/groups/{group_id}/id", group_id),
)
