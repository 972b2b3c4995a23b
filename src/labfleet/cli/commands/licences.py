"""`license`: a worker's licence, without making the worker anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from labfleet.cli.kit import call as calls
from labfleet.cli.kit import completing, exits, human_units, output, paths, safety, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import backoff

_ROWS = (
    ("Registration", "registration"), ("Authorization", "authorization"), ("Product", "product"),
    ("Licensed", "licensed"), ("Node capacity", "nodeCapacity"), ("Running nodes", "runningNodes"),
    ("Registration expires", "registrationExpires"),
    ("Authorization expires", "authorizationExpires"), ("Smart account", "smartAccount"),
    ("Virtual account", "virtualAccount"), ("Renewal asked for", "renewedAt"),
    ("Not given back", "leak"), ("Wanted", "wanted"), ("Product to register", "wantedProduct"),
)  # fmt: skip
_worker = click.argument("names", nargs=-1, required=True, metavar="WORKER...",
                         shell_complete=completing.of_kind("worker"))  # fmt: skip


def _waits(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options with which the command waits for the worker to have done it."""
    late = click.option(
        "--timeout", default="15m", show_default=True, help="With --wait: exit 8 after."
    )
    wait = click.option("--wait", is_flag=True, help="Wait until it is done or refused.")
    return wait(late(command))


@click.group("license", short_help="Register, renew or give back workers' licences.")
def license() -> None:  # noqa: A001 - the command's name
    """Register, renew or give back workers' licences, and say how they stand."""


@license.command("status", short_help="Show a worker's licence and what was asked of it.")
@_worker
@connected
def status(call: Call, *, names: tuple[str, ...]) -> int:
    """Show a worker's licence as CML told it last, and how far it is what was asked of it."""
    wanted = [targets.one(each, "worker") for each in names]
    found = [_read(call, each) for each in wanted]
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(found[0] if len(found) == 1 else found, "")
        return exits.OK
    for target, each in zip(wanted, found, strict=True):
        rows = [(title, human_units.plain(each.get(key))) for title, key in _ROWS]
        shown = [(title, text) for title, text in rows if text != "-"]
        output.say(f"{target}\n" + "\n".join(f"  {title}: {text}" for title, text in shown))
        order = each.get("order")
        if isinstance(order, dict):
            since = human_units.when(order.get("since") or order.get("askedAt"), call.now())
            said = f"  Asked: {order.get('verb')} by {order.get('by')}: {_state(order)} {since}"
            output.say(human_units.printable(said))
    return exits.OK


@license.command("register", short_help="Register workers, or register them anew.")
@_worker
@click.option("--token", metavar="env=NAME|file=NAME", help="Where the server has the token.")
@click.option("--product", metavar="PRODUCT", help="As what, for example CML_Personal40.")
@click.option("--again", is_flag=True, help="Register anew what is registered.")
@click.option("--force", is_flag=True, help="End the sessions that another product needs gone.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask, even when people are connected.")
@_waits
@connected
def register(
    call: Call,
    *,
    names: tuple[str, ...],
    token: str | None,
    product: str | None,
    again: bool,
    force: bool,
    yes: bool,
    wait: bool,
    timeout: str,
) -> int:
    """Register workers with the licence cloud; sessions go on meanwhile.

    A token or product that is given stands in for the template's from now on. The token itself is
    not taken: name the variable or the file of the server that has it. Another product than the
    registered one needs an empty worker.
    """
    named = None if token is None else _reference(token)
    body = {"token": named, "product": product, "again": again, "force": force}
    action = "Registering" if force else None
    late = timeout if wait else None
    return _order(call, names, "register-licence", body, ending=action, yes=yes, timeout=late)


@license.command("deregister", short_help="Give workers' licences back.")
@_worker
@click.option("--force", is_flag=True, help="End the sessions there, and stop what else runs.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask, even when people are connected.")
@_waits
@connected
def deregister(
    call: Call, *, names: tuple[str, ...], force: bool, yes: bool, wait: bool, timeout: str
) -> int:
    """Give workers' licences back; they stay without one until `register`.

    CML gives none back while nodes run, so this is refused while sessions are there.
    """
    action = "Deregistering" if force else None
    body = {"force": force}
    late = timeout if wait else None
    return _order(call, names, "deregister-licence", body, ending=action, yes=yes, timeout=late)


@license.command("renew", short_help="Renew workers' licences now.")
@_worker
@_waits
@connected
def renew(call: Call, *, names: tuple[str, ...], wait: bool, timeout: str) -> int:
    """Renew registration and authorization now; CML does so by itself once a month."""
    return _order(call, names, "renew-licence", {}, timeout=timeout if wait else None)


def _reference(text: str) -> dict[str, str]:
    """Return where the token is; what else was given may be the token, and is not repeated."""
    kind, _, name = text.partition("=")
    if kind not in {"env", "file"} or not name:
        hint = "For example --token env=LABFLEET_SECRET_TOKEN; the token itself is not taken."
        raise exits.usage("--token takes env=NAME or file=NAME of the server", hint)
    return {kind: name}


def _order(
    call: Call,
    names: tuple[str, ...],
    verb: str,
    body: dict[str, Any],
    *,
    timeout: str | None,
    ending: str | None = None,
    yes: bool = False,
) -> int:
    """Ask each worker, and wait for each when that is wanted; nobody's lab ends unasked."""
    patience = 0.0 if timeout is None else calls.seconds(timeout, "--timeout")
    wanted = [targets.one(each, "worker") for each in names]
    if ending is not None:
        for target, obj in safety.each_target(call, wanted, missing_ok=False):
            safety.ask(call, ending, target, obj, yes=yes)
    ids: list[str] = []
    for target in wanted:
        answer = call.api.post(f"{target.path}/{verb}", body, namespace=call.settings.namespace)
        ids.append(str(paths.simple(answer, "spec.licence.id") or ""))
        if call.out.structured:
            call.out.show(target.kind, answer)
        else:
            said = f"{target}: {verb.removesuffix('-licence')} was asked for"
            output.say(target.name if call.out.quiet else said)
    if timeout is None:
        return exits.OK
    deadline = call.environment.monotonic() + patience
    for target, each in zip(wanted, ids, strict=True):
        _done(call, target, each, deadline)
    return exits.OK


def _done(call: Call, target: targets.Target, order: str, deadline: float) -> None:
    """Return once the order is done; Failure when it is refused, replaced or late."""
    looks = 0
    while True:
        found = _read(call, target).get("order") or {}
        if found.get("id") != order:
            raise exits.Failure(exits.UNMET, f"{target}: something else was asked meanwhile")
        if found.get("state") == "done":
            call.out.note(human_units.printable(f"{target}: {_state(found)}"))
            return
        if found.get("state") == "refused":
            hint = f"See labfleet explain {target}."
            cause = human_units.printable(f"{target}: {_state(found)}")
            raise exits.Failure(exits.REFUSED, cause, hint=hint)
        left = deadline - call.environment.monotonic()
        if left <= 0:
            cause = f"{target}: not done in time, it is {found.get('state')}"
            raise exits.Failure(exits.TIMEOUT, cause, hint=f"See labfleet explain {target}.")
        looks += 1
        call.environment.sleep(min(left, backoff.delay(looks, 1.0, base=0.2, limit=2.0)))


def _read(call: Call, target: targets.Target) -> dict[str, Any]:
    found = call.api.get(f"{target.path}/licence", namespace=call.settings.namespace)
    if not isinstance(found, dict):
        raise call.api.unexpected("a licence was expected")
    return found


def _state(order: dict[str, Any]) -> str:
    why = order.get("message")
    return f"{order.get('state')} ({why})" if why else str(order.get("state"))
