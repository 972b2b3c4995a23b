"""Resource pools and what they use."""

from typing import Any

from cml_simulator.core import pools
from cml_simulator.core.errors import not_found
from cml_simulator.core.model import Pool
from cml_simulator.core.world import admit, in_use
from cml_simulator.routes.web import NO_CONTENT, Access, Call, Reply, Route


def _seen(call: Call) -> list[Pool]:
    user = call.account
    return [
        pool for pool in call.server.pools.values() if user.admin or pool.id == user.resource_pool
    ]


def _pool_of(call: Call) -> Pool:
    pool = pools.find(call.server, call.params["pool_id"])
    if pool not in _seen(call):
        raise not_found("Resource pool", pool.id)
    return pool


def _view(call: Call, pool: Pool) -> dict[str, Any]:
    return pools.view(call.server, pool, admin=call.account.admin)


def list_pools(call: Call) -> Any:
    """Return the ids of the pools, or with data their bodies."""
    seen = _seen(call)
    return [_view(call, p) for p in seen] if call.flag("data") else [p.id for p in seen]


def create_pools(call: Call) -> Any:
    """Add a pool: with shared false one for each user, without users a template."""
    body = call.document(pools.CREATE_KEYS, ("label",))
    values = pools.read(call.server, body.row, body.read)
    shared = body.flag("shared")
    template = body.read.text(body.row, "template", 64)
    body.done()
    made = pools.create(call.server, values, shared=shared is not False, template=template)
    shown = [_view(call, pool) for pool in made]
    many = shared is False and bool(body.row.get("users"))
    return shown if many else shown[0]


def get_pool(call: Call) -> Any:
    """Return one pool."""
    return _view(call, _pool_of(call))


def patch_pool(call: Call) -> Any:
    """Change a pool's limits, texts and users."""
    pool = pools.find(call.server, call.params["pool_id"])
    body = call.document(pools.UPDATE_KEYS)
    values = pools.read(call.server, body.row, body.read)
    body.done()
    pools.update(call.server, pool, values)
    admit(call.server, call.now)
    return _view(call, pool)


def delete_pool(call: Call) -> Reply:
    """Remove a pool."""
    pools.remove(call.server, pools.find(call.server, call.params["pool_id"]))
    admit(call.server, call.now)
    return NO_CONTENT


def list_usage(call: Call) -> Any:
    """Return limit and usage of every pool."""
    use = in_use(call.server)
    return [pools.usage_view(call.server, pool, use) for pool in _seen(call)]


def get_usage(call: Call) -> Any:
    """Return limit and usage of one pool."""
    return pools.usage_view(call.server, _pool_of(call), in_use(call.server))


ROUTES = (
    Route("GET", "/resource_pools", list_pools),
    Route("POST", "/resource_pools", create_pools, Access.ADMIN),
    Route("GET", "/resource_pools/{pool_id}", get_pool),
    Route("PATCH", "/resource_pools/{pool_id}", patch_pool, Access.ADMIN),
    Route("DELETE", "/resource_pools/{pool_id}", delete_pool, Access.ADMIN),
    Route("GET", "/resource_pool_usage", list_usage),
    Route("GET", "/resource_pool_usage/{pool_id}", get_usage),
)
