"""Remaining routes: keys, sample labs and their sources, VIRL 1.x, feedback, login, archive."""

import io
import tarfile
from typing import Any

from cml_simulator.core import builder, sharing, topology
from cml_simulator.core.errors import not_found, refused
from cml_simulator.core.model import Node
from cml_simulator.core.samples import SAMPLES, virl
from cml_simulator.routes.web import NO_CONTENT, Access, Call, Reply, Route, json_reply

METHODS = ("local", "ldap", "radius")
REPOS_KEPT = 100


def _running(call: Call) -> list[Node]:
    """Return the running nodes whose keys the caller may see."""
    everything = call.flag("show_all")
    labs, user = call.server.labs, call.account
    return [
        node
        for node in call.server.active.values()
        if labs[node.lab_id].owner == user.id
        or (everything and sharing.visible(call.server, labs[node.lab_id], user))
    ]


def _place(call: Call, node: Node) -> dict[str, Any]:
    return {
        "node_id": node.id,
        "compute_id": call.server.compute_id,
        "lab_id": node.lab_id,
        "label": node.label,
        "driver": node.kind.driver.upper(),
    }


def console_keys(call: Call) -> Any:
    """Return every console key that the caller may see."""
    return {
        key: {**_place(call, node), "line": line}
        for node in _running(call)
        for line, key in enumerate(node.console_keys)
    }


def vnc_keys(call: Call) -> Any:
    """Return every VNC key that the caller may see."""
    return {
        node.vnc_key: {**_place(call, node), "compute_address": "fe80::1%cluster"}
        for node in _running(call)
        if node.vnc_key is not None
    }


# ------------------------------------------------------------------ sample labs


def samples(call: Call) -> Any:
    """Return what sample labs there are, by title."""
    _ = call
    return {
        title: {
            "title": title,
            "description": body["lab"]["description"],
            "node_count": len(body["nodes"]),
            "link_count": len(body["links"]),
            "file_path": f"{title.lower().replace(' ', '-')}.yaml",
        }
        for title, body in SAMPLES.items()
    }


def _sample(call: Call) -> dict[str, Any]:
    title = call.params["title"]
    if title not in SAMPLES:
        raise not_found("Sample lab", title)
    return SAMPLES[title]


def get_sample(call: Call) -> Any:
    """Return the topology of a sample lab."""
    return _sample(call)


def put_sample(call: Call) -> Any:
    """Make a lab of a sample; return its id."""
    return _import(call, _sample(call))["id"]


def import_old(call: Call) -> Any:
    """Make a lab of a VIRL 1.x file."""
    return _import(call, virl(call.request.body))


def _import(call: Call, document: Any) -> Any:
    title = call.request.query.get("title")
    if title is not None:
        topology.check_title(title)
    parsed = topology.parse(document, call.server.config.profile)
    lab, warnings = builder.import_topology(call.server, parsed, title, call.account.id, call.now)
    return {"id": lab.id, "warnings": warnings or None}


def repos(call: Call) -> Any:
    """Return the git sources of sample labs."""
    return list(call.server.repos.values())


def add_repo(call: Call) -> Any:
    """Add a git source; nothing is fetched."""
    body = call.document(("url", "name", "folder"), ("url", "name"))
    read, row = body.read, body.row
    texts = {key: read.text(row, key, 1024, line=True) for key in ("url", "name", "folder")}
    body.done()
    if len(call.server.repos) >= REPOS_KEPT:
        raise refused("Too many lab repositories.")
    key = call.server.new_id()
    repo = call.server.repos[key] = {"id": key, **texts}
    return repo


def delete_repo(call: Call) -> Reply:
    """Remove a git source."""
    if call.server.repos.pop(call.params["repo_id"], None) is None:
        raise not_found("Lab repository", call.params["repo_id"])
    return NO_CONTENT


def refresh_repos(call: Call) -> Any:
    """Say that every source was fetched."""
    return {repo["name"]: {"status": "Success"} for repo in call.server.repos.values()}


# ------------------------------------------------------------------ feedback and login settings


def feedback(call: Call) -> Reply:
    """Take feedback (201): kept, and sent nowhere."""
    text = call.request.body[:4096].decode(errors="replace")
    call.server.feedback.append({"at": call.server.stamp(call.now), "text": text})
    return json_reply("Success", 201)


def get_auth(call: Call) -> Any:
    """Return the login settings."""
    return call.server.auth


def set_auth(call: Call) -> Any:
    """Change the login settings: only `method` is checked, and only local logins work."""
    body = call.document(("method", *AUTH_TEXTS, *AUTH_FLAGS))
    if "method" in body and body.row["method"] not in METHODS:
        body.read.fail("method", "enum", f"Input should be one of {', '.join(METHODS)}")
    values = {k: body.read.text(body.row, k, 4096) for k in AUTH_TEXTS if k in body}
    flags = {k: body.flag(k) for k in AUTH_FLAGS if k in body}
    body.done()
    kept = {k: v for k, v in values.items() if "password" not in k and "secret" not in k}
    method = {"method": body.row["method"]} if "method" in body else {}
    call.server.auth = {**call.server.auth, **method, **kept, **flags}
    return call.server.auth


AUTH_TEXTS = (
    "server_urls",
    "cert_data_pem",
    "root_dn",
    "user_search_base",
    "user_search_filter",
    "admin_search_filter",
    "group_search_base",
    "group_search_filter",
    "group_membership_filter",
    "manager_dn",
    "manager_password",
    "display_attribute",
    "email_address_attribute",
    "secret",
    "nas_identifier",
    "resource_pool",
)
AUTH_FLAGS = ("verify_tls", "use_ntlm", "group_via_user", "group_user_attribute")


def try_auth(call: Call) -> Any:
    """Refuse: there is no directory to ask."""
    _ = call
    raise refused("The authentication server cannot be reached.")


def auth_groups(call: Call) -> Any:
    """Return the directory's groups: none."""
    _ = call
    return []


def refresh_auth(call: Call) -> Reply:
    """Say that the directory was read again."""
    _ = call
    return NO_CONTENT


def archive(call: Call) -> Reply:
    """Return the (deprecated) archive of the system: one small file in a tar."""
    data = f"{call.server.config.profile.version}\n".encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        entry = tarfile.TarInfo("version")
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    return Reply(200, out.getvalue(), "application/gzip")


ADMIN = Access.ADMIN
ROUTES = (
    Route("GET", "/keys/console", console_keys),
    Route("GET", "/keys/vnc", vnc_keys),
    Route("GET", "/sample/labs", samples),
    Route("GET", "/sample/labs/{title}", get_sample),
    Route("PUT", "/sample/labs/{title}", put_sample),
    Route("POST", "/import/virl-1x", import_old),
    Route("GET", "/lab_repos", repos),
    Route("POST", "/lab_repos", add_repo, ADMIN),
    Route("PUT", "/lab_repos/refresh", refresh_repos, ADMIN),
    Route("DELETE", "/lab_repos/{repo_id}", delete_repo, ADMIN),
    Route("POST", "/feedback", feedback),
    Route("GET", "/system/auth/config", get_auth, ADMIN),
    Route("PUT", "/system/auth/config", set_auth, ADMIN),
    Route("PATCH", "/system/auth/config", set_auth, ADMIN),
    Route("POST", "/system/auth/test", try_auth, ADMIN),
    Route("GET", "/system/auth/groups", auth_groups, ADMIN),
    Route("PUT", "/system/auth/refresh", refresh_auth, ADMIN),
    Route("GET", "/system_archive", archive, ADMIN),
)
