"""What a CML server's licence means, and how it is taken and given back (facts/cml.md#licensing).

The sequence is safe to repeat from any point. Waiting for the licence cloud is the
controller's: these calls return at once.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Literal

import msgspec

from labfleet.adapters.cml import parsing
from labfleet.adapters.cml.client import Call, Client
from labfleet.kernel import errors
from labfleet.resources.telemetry import Feature, Licensing

UNREGISTERED_NODES = 5
INCLUDED = {
    "CML_Personal": 20,
    "CML_Personal40": 40,
    "CML_Enterprise": 20,
    "CML_Education": 20,  # as Enterprise; not proven
}
EXPANDABLE = frozenset({"CML_Enterprise", "CML_Education"})
EXPANSION = "CML_NODE_COUNT"
DIAGNOSTICS = "diagnostics/licensing"

REGISTERED = "COMPLETED"
COMPLIANT = "IN_COMPLIANCE"
# Words that say "not registered"; any other unknown word leaves the capacity unknown.
NOT_REGISTERED = frozenset({"NOT_REGISTERED", "UNREGISTERED", "INIT", "IN_PROGRESS", "FAILED"})


def parse(value: Any) -> Licensing:
    """Return the licence of GET /licensing with the words kept as they came."""
    raw = parsing.mapping(value)
    registration = parsing.mapping(raw.get("registration"))
    authorization = parsing.mapping(raw.get("authorization"))
    udi = parsing.mapping(raw.get("udi"))
    active = parsing.mapping(raw.get("product_license"))
    product = parsing.text(active.get("active"))
    status = parsing.text(registration.get("status"))
    registered = status == REGISTERED
    allowed = parsing.text(authorization.get("status"))
    features = _features(raw)
    nodes = capacity(product, status, features)
    told: dict[str, Any] = {
        "registration": status,
        "authorization": allowed,
        "product": product,
        "product_uuid": parsing.text(udi.get("product_uuid")),
        "hostname": parsing.text(udi.get("hostname")),
        "smart_account": parsing.text(registration.get("smart_account")),
        "virtual_account": parsing.text(registration.get("virtual_account")),
        "registration_expires": parsing.text(registration.get("expires")),
        "authorization_expires": parsing.text(authorization.get("expires")),
        "transport": parsing.text(parsing.mapping(raw.get("transport")).get("ssms")),
    }
    gaps = {name: "the server does not tell" for name, found in told.items() if found is None}
    if nodes is None:
        gaps["node_capacity"] = f"no rule for product {product}, registration {status}"
    return Licensing(
        **told,
        is_enterprise=parsing.flag(active.get("is_enterprise")),
        licensed=registered and allowed == COMPLIANT,
        registered=registered,
        node_capacity=nodes,
        reservation_mode=parsing.flag(raw.get("reservation_mode")),
        features={name: _feature(each) for name, each in features.items()},
        gaps=gaps,
    )


def with_diagnostics(found: Licensing, value: Any) -> Licensing:
    """Return the licence with diagnostics' quota and started; never the user quota.

    Source: facts/cml-issues.md#f4.
    """
    raw = parsing.mapping(value)
    quota, started = parsing.integer(raw.get("quota")), parsing.integer(raw.get("started"))
    gaps = dict(found.gaps)
    if None not in {quota, found.node_capacity} and quota != found.node_capacity:
        gaps["quota"] = (
            f"nodes: diagnostics say {quota}, product and features {found.node_capacity}: "
            "the second is counted with"
        )
    return msgspec.structs.replace(found, quota=quota, started=started, gaps=gaps)


async def read(client: Client) -> Licensing:
    """Return the licence; the diagnostics in it are best effort.

    2.7 and 2.8 lack their path; the client asks for it once per boot.
    """
    found = await client.read("licensing", parse)
    why = client.absent.get(DIAGNOSTICS)
    if why is None:
        try:
            return with_diagnostics(found, await client.get(DIAGNOSTICS))
        except errors.LabfleetError as problem:
            why = problem.message
            if isinstance(problem, errors.Gone):
                client.absent[DIAGNOSTICS] = why
    gaps = {**found.gaps, "quota": why, "started": why}
    return msgspec.structs.replace(found, gaps=gaps)


def capacity(
    product: str | None, registration: str | None, features: dict[str, dict[str, Any]]
) -> int | None:
    """Return how many nodes may run at once; None when a word or number is not known.

    The product's included nodes plus the expansion count asked for (`in_use`); never
    `max`, which is what may be bought (facts/cml-issues.md#f3).
    """
    if registration in NOT_REGISTERED:
        return UNREGISTERED_NODES
    if registration != REGISTERED or product is None:
        return None
    included = INCLUDED.get(product)
    if included is None or product not in EXPANDABLE or EXPANSION not in features:
        return included
    expansion = parsing.integer(features[EXPANSION].get("in_use"))
    return None if expansion is None else included + expansion


async def register(
    client: Client, product: str, token: str, *, expansion_nodes: int, again: bool = False
) -> None:
    """Take product, registration and expansion nodes, each only when not yet done.

    Call it again until the capacity is as wished: the expansion can be asked for only once
    the server knows the feature. `again` registers anew what is registered. Invalid when another
    product is registered.
    """
    client.keep_secret(token)
    raw = await client.get("licensing")
    now = parse(raw)
    if now.registered and now.product != product:
        raise errors.Invalid(
            f"{client.worker}: registered as {now.product}, wanted {product}: give the licence "
            "back first",
            reason="OtherProduct",
        )
    anew = now.registered and again
    if anew or (not now.registered and now.registration != "IN_PROGRESS"):
        if now.product != product:
            await client.change("PUT", "licensing/product_license", product)
        await client.change("POST", "licensing/registration", {"token": token, "reregister": anew})
        raw = await client.get("licensing")
        now = parse(raw)
    if now.registered and product in EXPANDABLE:
        feature = _features(raw).get(EXPANSION)
        if feature is not None and feature.get("in_use") != expansion_nodes:
            wanted = [{"id": feature.get("id"), "count": expansion_nodes}]
            await client.change("PATCH", "licensing/features", wanted)


async def renew(client: Client) -> None:
    """Ask for a new authorization and a new registration; each may be refused by itself."""
    refusal: errors.LabfleetError | None = None
    for what in ("authorization", "registration"):
        try:
            await client.change("PUT", f"licensing/{what}/renew")
        except (errors.Invalid, errors.Conflict) as problem:
            refusal = refusal or problem
    if refusal is not None:
        raise refusal


async def deregister(client: Client) -> Literal["done", "not_registered", "cloud_not_told"]:
    """Give the licence back; Conflict NodesRunning when nodes still run, Later when busy.

    Ambiguous when the reply was lost.
    """
    try:
        # Not "safe": a second try answers only "already"; the lost reply said whether the licence
        # cloud was told.
        call = Call("DELETE", "licensing/deregistration", client.limits.write, "once")
        reply = await client.send(call)
    except errors.Invalid as error:
        words = error.message.lower()
        if "running" in words:
            raise errors.Conflict(error.message, reason="NodesRunning") from None
        if "already" in words or "not registered" in words:
            return "not_registered"
        raise
    return "cloud_not_told" if reply.status == 202 else "done"


def _features(raw: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the features by short name, such as CML_NODE_COUNT."""
    listed = raw.get("features")
    found: dict[str, dict[str, Any]] = {}
    for item in listed if isinstance(listed, list) else ():
        feature = parsing.mapping(item)
        identifier = parsing.text(feature.get("id")) or ""
        name = short_name(identifier) or parsing.text(feature.get("name"))
        if name is not None:
            found[name] = feature
    return found


@functools.lru_cache(maxsize=256)
def short_name(identifier: str) -> str | None:
    """Return what a feature is called between its authority and its version."""
    found = re.search(r"\.(CML_\w+)", identifier)
    return found.group(1) if found else None


def _feature(raw: dict[str, Any]) -> Feature:
    return Feature(
        id=parsing.text(raw.get("id")),
        name=parsing.text(raw.get("name")),
        in_use=parsing.integer(raw.get("in_use")),
        status=parsing.text(raw.get("status")),
        min=parsing.integer(raw.get("min")),
        max=parsing.integer(raw.get("max")),
    )
