"""DescribeInstances and DescribeInstanceStatus, implemented without moto: pages, all filters.

A page counts instances, in the order of their launch; its token names the last one, so a change
between pages repeats or skips none. Callers hold no lock; the world is locked here.
"""

from typing import Any

from aws_simulator import filters, writer
from aws_simulator.calls import Call, Refusal, Reply
from aws_simulator.paging import number_of, token_of
from aws_simulator.seen import ShownInstance, see
from aws_simulator.world import World

PAGE = 1000
LEAST = 5
STATUS_IDS = 100


def describe_instances(world: World, call: Call, backend: Any) -> Reply:
    """Answer DescribeInstances; Refusal for what EC2 refuses."""
    chosen = filters.parse(call.form, filters.INSTANCES)
    with world.lock:
        page, token = _page(world, call, backend, chosen)
        return _reply(call.action, writer.instances(page), token)


def describe_status(world: World, call: Call, backend: Any) -> Reply:
    """Answer DescribeInstanceStatus: running ones only unless all are asked for."""
    if len(call.instance_ids) > STATUS_IDS:
        raise Refusal(400, "InvalidParameterValue", "At most 100 instance ids may be named")
    chosen = filters.parse(call.form, filters.STATUSES)
    if call.form.get("IncludeAllInstances", "false").lower() != "true":
        chosen.append(((lambda seen: (seen.state,)), filters.matcher(["running"])))
    with world.lock:
        page, token = _page(world, call, backend, chosen)
        return _reply(call.action, writer.statuses(page), token)


def _reply(action: str, inner: str, token: str | None) -> Reply:
    body = writer.document(action, inner, token)
    return Reply("200 OK", [("Content-Type", "text/xml;charset=UTF-8")], body)


def _page(
    world: World, call: Call, backend: Any, chosen: list[filters.Filter]
) -> tuple[list[ShownInstance], str | None]:
    size, after = _bounds(call)
    now = world.clock.now()
    found = _named(world, call, backend, now) if call.instance_ids else _all(world, backend, now)
    rule = world.request.rule
    if rule is not None and rule.fault == "empty_page":
        return [], token_of(after)
    page: list[ShownInstance] = []
    for seen in found:
        if seen.machine.number <= after or not filters.passes(seen, chosen):
            continue
        if len(page) == size:
            return _unsteady(world, page), token_of(page[-1].machine.number)
        page.append(seen)
    return _unsteady(world, page), None


def _bounds(call: Call) -> tuple[int, int]:
    text = call.form.get("MaxResults")
    if text is not None and call.instance_ids:
        message = "The parameter instancesSet cannot be used with the parameter maxResults"
        raise Refusal(400, "InvalidParameterCombination", message)
    if text is not None and not (text.isdecimal() and LEAST <= int(text) <= PAGE):
        message = f"Value ( {text} ) for parameter maxResults is invalid: 5..1000"
        raise Refusal(400, "InvalidParameterValue", message)
    return (int(text) if text else PAGE), number_of(call.form.get("NextToken"))


def _all(
    world: World, backend: Any, now: float, wanted: frozenset[str] | None = None
) -> list[ShownInstance]:
    action = world.request.action
    found = [
        see(world, instance, reservation.id, now)
        for reservation in list(backend.reservations.values())
        for instance in reservation.instances
        if (wanted is None or instance.id in wanted)
        and world.visible(world.machines[instance.id], action, now)
    ]
    found.sort(key=lambda seen: seen.machine.number)
    return found


def _named(world: World, call: Call, backend: Any, now: float) -> list[ShownInstance]:
    wanted = frozenset(call.instance_ids)
    found = _all(world, backend, now, wanted)
    lost = sorted(wanted - {seen.instance.id for seen in found})
    if lost:
        word = "IDs" if len(lost) > 1 else "ID"
        text = (
            f"The instance {word} '{', '.join(lost)}' do{'' if len(lost) > 1 else 'es'} not exist"
        )
        raise Refusal(400, "InvalidInstanceID.NotFound", text)
    return found


def _unsteady(world: World, page: list[ShownInstance]) -> list[ShownInstance]:
    """Leave instances out at random (`flap`), and shuffle the order when that is switched on."""
    flap = world.config.lags.flap
    if flap:
        page = [seen for seen in page if world.rng.random() >= flap]
    if world.config.shuffled:
        page = list(page)
        world.rng.shuffle(page)
    return page
