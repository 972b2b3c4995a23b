"""Which outer ports of a server are open now: claims of running nodes, as of PATty's last poll."""

import math
from collections.abc import Iterator

from cml_simulator.core import addresses
from cml_simulator.core.model import Node
from cml_simulator.core.ports import Claim, Clash, OpenPort, PortRequest, requests, resolve
from cml_simulator.core.world import BootStage, Server, boot_stage, settle


def open_ports(server: Server, now: float) -> tuple[list[OpenPort], list[Clash]]:
    """Return the ports that are open at a time, and the claims that another node won."""
    settle(server, now)
    if boot_stage(server, now) is not BootStage.READY:
        return [], []
    if server.claims[0] != server.revision:
        server.claims = (server.revision, list(_claims(server)))
    revision, until, found = server.opened
    if revision != server.revision or now >= until:
        claims = server.claims[1]
        found = resolve(claims, now, server.config.rules.patty_ties)
        until = min((claim.at for claim in claims if claim.at > now), default=math.inf)
        server.opened = (server.revision, until, found)
    return found


def _claims(server: Server) -> Iterator[Claim]:
    rules = server.config.rules
    for node in list(server.active.values()):
        if not node.tags or not node.kind.has_vm or node.lost:
            continue
        for wish in requests(node.tags, rules.patty_first, rules.patty_last):
            since = _runs_since(server, node, wish)
            if since is None:
                continue
            since = max(since, node.tagged_at.get(wish.tag, since))
            yield Claim(_next_poll(server, since), node.id, wish, node.started_at)


def _runs_since(server: Server, node: Node, wish: PortRequest) -> float | None:
    """Return since when a wish can be served: PAT needs an address on the NAT bridge."""
    if wish.kind == "serial":
        return node.started_at if wish.inner < node.kind.serial else None
    if wish.kind == "vnc":
        return node.started_at
    return addresses.learnt_at(server, node)


def _next_poll(server: Server, since: float) -> float:
    poll, phase = server.config.rules.patty_poll, server.power.ready_at
    if poll <= 0:
        return since
    return phase + math.ceil((since - phase) / poll) * poll
