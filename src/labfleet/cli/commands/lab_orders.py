"""`lab`: start, stop, restart or wipe a session's lab, a lab of no session, or one node of either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

import click

from labfleet.cli.kit import call as calls
from labfleet.cli.kit import completing, exits, human_units, output, paths, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import backoff


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments and options that all orders have."""
    late = click.option(
        "--timeout", default="20m", show_default=True, help="With --wait: exit 8 after."
    )
    wait = click.option("--wait", is_flag=True, help="Wait until it is done or refused.")
    node = click.option("--node", default="", metavar="LABEL", help="Only this node of the lab.")
    of = click.option("--lab", "lab_id", default="", metavar="ID",
                      help="A lab of no session, of the worker that is named.")  # fmt: skip
    name = click.argument("name", metavar="SESSION", shell_complete=completing.of_kind("session"))
    return name(of(node(wait(late(command)))))


@click.group("lab", short_help="Start, stop, restart or wipe a session's lab.")
def lab() -> None:
    """Start, stop, restart or wipe the lab of a session that runs, or one of its nodes.

    For operators also a lab of no session: `labfleet lab stop worker/NAME --lab ID`. What is off as
    it was ordered stays off, and the session goes on. People may order what the definition of their
    session allows (labControl); operators may order all of it.
    """


def _power(verb: str, short: str, told: str) -> None:
    """Add an order that loses nothing: what is sent names the verb and the node alone."""

    @lab.command(verb, short_help=short, help=told)
    @_options
    @connected
    def ordered(call: Call, *, name: str, lab_id: str, node: str, wait: bool, timeout: str) -> int:
        body = {"order": verb, "node": node}
        return _order(call, _target(name, lab_id), body, timeout if wait else None)


_power(
    "start",
    "Start what is off.",
    "Start what is off of a session's lab; done when its nodes are booted.",
)
_power(
    "stop",
    "Stop it; nothing is lost.",
    "Stop a session's lab or a node of it; what was saved in its nodes stays.",
)
_power(
    "restart",
    "Stop it, and start it once everything is off.",
    "Stop a session's lab or a node of it, and start it again once everything is off.",
)


@lab.command("wipe", short_help="Stop and wipe it; what was done in it is lost.")
@_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask whether the loss is meant.")
@connected
def wipe(
    call: Call, *, name: str, lab_id: str, node: str, wait: bool, timeout: str, yes: bool
) -> int:
    """Stop and wipe a session's lab or a node of it: it is as when it was imported, and off.

    Everything that was done in it and not saved outside is lost: its disks, and what was configured.
    """
    where = _target(name, lab_id)
    lab = f"lab {lab_id} on {where.target}" if lab_id else f"the lab of {where.target}"
    what = f"node {node} of {lab}" if node else lab
    call.confirm(f"Wiping {what} loses what was done in it and not saved outside.", yes=yes)
    body = {"order": "wipe", "node": node, "confirm": True}
    return _order(call, where, body, timeout if wait else None)


class _Where(NamedTuple):
    """Whose lab is meant, and where orders for it are sent."""

    target: targets.Target
    path: str


def _target(name: str, lab_id: str) -> _Where:
    if not lab_id:
        target = targets.one(name, "session")
        return _Where(target, f"{target.path}/lab")
    target = targets.one(name, "worker")
    return _Where(target, f"{target.path}/labs/{quote(lab_id, safe='')}/order")


def _order(call: Call, where: _Where, body: dict[str, Any], timeout: str | None) -> int:
    patience = 0.0 if timeout is None else calls.seconds(timeout, "--timeout")
    target, path = where
    answer = call.api.post(path, body, namespace=call.settings.namespace)
    order = str(paths.simple(answer, "spec.labOrder.id") or "")
    if timeout is not None:
        answer = _done(call, target, order, call.environment.monotonic() + patience)
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    what = f"{body['order']} of node {body['node']}" if body["node"] else f"{body['order']}"
    told = f"{what} is {'ordered' if timeout is None else 'done'}"
    output.say(human_units.printable(f"{target}: {told}"))
    return exits.OK


def _done(call: Call, target: targets.Target, order: str, deadline: float) -> Any:
    """Return the session or worker once the order is done; Failure when it is refused, replaced or late."""
    looks = 0
    while True:
        obj = targets.fetch(call, target)
        if obj is None or str(paths.simple(obj, "spec.labOrder.id") or "") != order:
            raise exits.Failure(
                exits.UNMET, f"{target}: it is gone, or ordered otherwise meanwhile"
            )
        found = paths.simple(obj, "status.labOrder")
        known = found if isinstance(found, dict) and found.get("id") == order else {}
        if known.get("state") == "done":
            return obj
        if known.get("state") == "refused":
            cause = human_units.printable(f"{target}: refused: {known.get('message')}")
            raise exits.Failure(exits.REFUSED, cause, hint=f"See labfleet explain {target}.")
        left = deadline - call.environment.monotonic()
        if left <= 0:
            cause = f"{target}: not done in time, it is {known.get('state') or 'not begun'}"
            raise exits.Failure(exits.TIMEOUT, cause, hint=f"See labfleet explain {target}.")
        looks += 1
        call.environment.sleep(min(left, backoff.delay(looks, 1.0, base=0.2, limit=2.0)))
