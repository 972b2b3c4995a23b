"""Resource pools: their users, their usage, and the changes that are allowed.

Pools exist only on products for many users; enforcement is in `admission`.
"""

from typing import Any

from cml_simulator.core.admission import Use, in_use, limit
from cml_simulator.core.errors import CmlError, not_found, refused
from cml_simulator.core.fields import Reader
from cml_simulator.core.licensing import WIDE
from cml_simulator.core.model import Lab, Pool
from cml_simulator.core.server import Server

LIMITS: dict[str, tuple[int, int]] = {
    "licenses": (0, 320),
    "ram": (0, 1_048_576_000),
    "cpus": (0, 4096),
    "disk_space": (0, 1_048_576),
}
UPDATE_KEYS = (*LIMITS, "label", "description", "external_connectors", "users")
CREATE_KEYS = (*UPDATE_KEYS, "shared", "template")
KEPT = 1000


def find(server: Server, key: str) -> Pool:
    """Return a pool, or 404."""
    pool = server.pools.get(key)
    if pool is None:
        raise not_found("Resource pool", key)
    return pool


def read(server: Server, row: dict[str, Any], reader: Reader) -> dict[str, Any]:
    """Return the checked values of a pool body."""
    values: dict[str, Any] = {
        key: reader.whole(row, key, *bounds) for key, bounds in LIMITS.items() if key in row
    }
    if "label" in row:
        values["label"] = reader.text(row, "label", 255, needed=True, line=True, least=1)
    if "description" in row:
        values["description"] = reader.text(row, "description", 4096) or ""
    for key, known in (("external_connectors", None), ("users", server.users)):
        if row.get(key) is None:
            continue
        value = row[key]
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            reader.fail(key, "list_type", "Input should be a valid list")
        elif known is not None and any(v not in known for v in value):
            reader.fail(key, "value_error", "User does not exist")
        else:
            values[key] = value
    return values


def create(
    server: Server, values: dict[str, Any], *, shared: bool, template: str | None
) -> list[Pool]:
    """Add one shared pool, a template, or one pool for each user below a template.

    Without `shared` and without a template given, a template takes the limits and comes first.
    """
    if server.licence.product not in WIDE:
        raise refused("Resource pools need a multi-user product license.")
    if template is not None and not find(server, template).is_template:
        raise refused(f"Resource pool is not a template: {template}")
    users = values.pop("users", [])
    if len(server.pools) + len(users) >= KEPT:
        raise refused("Too many resource pools.")
    values = {"label": "", **values}
    if shared:
        made = [_add(server, values, template=template)]
        join(server, made[0], users)
        return made
    made = []
    if template is None:
        made.append(_add(server, values, is_template=True))
        template, values = made[0].id, {"label": values["label"]}
    for user in users:
        made.append(_add(server, values, template=template))
        join(server, made[-1], [user])
    return made


def _add(
    server: Server,
    values: dict[str, Any],
    *,
    template: str | None = None,
    is_template: bool = False,
) -> Pool:
    pool = Pool(server.new_id(), template=template, is_template=is_template, **values)
    server.pools[pool.id] = pool
    return pool


def join(server: Server, pool: Pool, users: list[str]) -> None:
    """Make these users the pool's users: each user has one pool."""
    for user in server.users.values():
        if user.id in users:
            user.resource_pool = pool.id
        elif user.resource_pool == pool.id:
            user.resource_pool = None
    for other in server.pools.values():
        other.users = [u.id for u in server.users.values() if u.resource_pool == other.id]


def update(server: Server, pool: Pool, values: dict[str, Any]) -> None:
    """Change limits, texts and users."""
    users = values.pop("users", None)
    for key, value in values.items():
        setattr(pool, key, value)
    if users is not None:
        join(server, pool, users)
    server.revision += 1


def remove(server: Server, pool: Pool) -> None:
    """Remove a pool; a template that is in use stays (409)."""
    if any(other.template == pool.id for other in server.pools.values()):
        raise CmlError(409, f"Resource pools still use the template: {pool.id}")
    join(server, pool, [])
    del server.pools[pool.id]
    for node in server.nodes.values():
        if node.pool == pool.id:
            node.pool = None


def view(server: Server, pool: Pool, *, admin: bool) -> dict[str, Any]:
    """Return a pool's body; people without admin rights do not see its users."""
    body: dict[str, Any] = {
        "id": pool.id,
        "label": pool.label,
        "description": pool.description,
        "licenses": pool.licenses,
        "ram": pool.ram,
        "cpus": pool.cpus,
        "disk_space": pool.disk_space,
        "external_connectors": pool.external_connectors,
    }
    if pool.is_template:
        users = [p.id for p in server.pools.values() if p.template == pool.id]
        return {**body, **({"user_pools": users} if admin else {})}
    return {**body, "template": pool.template, **({"users": pool.users} if admin else {})}


def usage_view(server: Server, pool: Pool, use: Use | None = None) -> dict[str, Any]:
    """Return limit and usage; CPUs in hundredths."""
    held = (use or in_use(server)).pool(pool.id)
    cpus = limit(server, pool, "cpus")
    return {
        "id": pool.id,
        "label": pool.label,
        "description": pool.description,
        "limit": {
            "licenses": limit(server, pool, "licenses"),
            "ram": limit(server, pool, "ram"),
            "cpus": None if cpus is None else 100 * cpus,
            "disk_space": limit(server, pool, "disk_space"),
            "external_connectors": pool.external_connectors,
        },
        "usage": {
            "licenses": held.licensed,
            "ram": held.ram,
            "cpus": held.points,
            "disk_space": 0,
            "external_connectors": [],
        },
    }


def of_lab(server: Server, lab: Lab) -> list[str]:
    """Return the pools that a lab's nodes use."""
    return sorted({n.pool for n in lab.nodes.values() if n.pool in server.pools and n.pool})


def choose(server: Server, owner: str) -> str | None:
    """Return the pool that a new start of someone's node is counted in."""
    user = server.users.get(owner)
    return user.resource_pool if user is not None and user.resource_pool in server.pools else None
