"""The whole table of acts: true to the API and the command line, and safe against every role."""

from __future__ import annotations

import itertools
import shlex
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import click
import pytest
from browser import Browser, plain
from fleet_world import who

from labfleet.cli.kit import environment
from labfleet.cli.main import root
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Resource
from labfleet.resources.session import Session, SessionPhase, SessionSpec
from labfleet.resources.simulation import Simulation, SimulationSpec
from labfleet.resources.worker import WorkerPhase
from labfleet.service.core import access
from labfleet.service.core.access import Principal
from labfleet.service.core.roles import FOR_TOKENS
from labfleet.service.verbs import settings_verbs
from labfleet.web.acts import act as acts
from labfleet.web.acts import seals, table
from labfleet.web.acts.act import Act, Doing

HOSTILE = (
    "", " ", "0", "-1", "1", "30", "999999999999", "x" * 30_000, "<script>alert(1)</script>",
    "\x00", "\r\nSet-Cookie: a=b", "\ud800", "٣", "2026-11-31T09:00", "0001-01-01T00:00",
    "9999-12-31T23:59", "Europe/../etc", "custom", "bound", "now", "idle.enabled", "'; drop", "{}",
    "nan", "1e400", "https://169.254.169.254/",
)  # fmt: skip
COURSE = {"start": "2026-12-01T09:00", "zone": "Europe/Warsaw"}
TIMES = {"start": "2026-12-01T09:00:00Z", "end": "2026-12-01T10:00:00Z"}


def whole(browser: Browser, made: Act, obj: Resource | None) -> Doing:
    """Return an act with nothing typed."""
    caller = Principal("a", access.Role.ADMIN, "ada")
    name = "thing" if obj is None and not made.whole else "" if obj is None else obj.name
    who = acts.Caller(caller)
    return Doing(services=browser.world.services, caller=who, obj=obj, name=name)


async def everything(browser: Browser) -> dict[str, Any]:
    """Make one object of each kind that has acts; return them by kind."""
    world = browser.world
    await world.template()
    made: dict[str, Any] = {"Template": await world.template("other")}
    made["Pool"] = await world.make("Pool", "p1", {"template": "metal", "track": "none"})
    made["Worker"] = await world.make("Worker", "w1", {"template": "metal"})
    await world.status(made["Worker"], phase=WorkerPhase.READY)
    made["Definition"] = await world.definition()
    made["Session"] = await world.session("s1", owner="kim", slot=TIMES)
    made["Group"] = await world.make(
        "Group", "g1", {"definition": "two", "slot": TIMES, "size": 1, "owner": "kim"}
    )
    course = {"definition": "two", "slot": COURSE, "repeat": "FREQ=WEEKLY;COUNT=2", "size": 1}
    made["Course"] = await world.make("Course", "c1", {**course, "owner": "kim"})
    made["Webhook"] = await world.make("Webhook", "h1", {"url": "https://example.com/"})
    made["Cluster"] = await world.make("Cluster", "k1", {"capacity": {"cpuMilli": 1000}})
    made["Queue"] = await world.make("Queue", "q1", {"cluster": "k1"})
    await browser.many(Simulation, 1, SimulationSpec(cluster="k1"))
    made["Simulation"] = await world.services.objects.get(Simulation, "x0000", "default")
    await world.services.fresh()
    return made


@pytest.mark.asyncio
async def test_each_act_is_a_route_with_the_same_right(browser: Browser) -> None:
    """What an act needs is what the API's route that does the same needs: nobody may more on a page."""
    routes = {each.name: each for each in browser.app.routes.values()}
    seen: set[tuple[str, str]] = set()
    for each in table.every():
        assert routes[each.routes].needs == (each.right, each.kind), each.verb
        assert (each.verb, each.kind) not in seen
        seen.add((each.verb, each.kind))
        assert table.at(acts.address(each, "" if each.whole else "x").partition("?")[0])


@pytest.mark.asyncio
async def test_each_command_is_one_of_the_command_line(browser: Browser) -> None:
    """The command that a page shows has the commands, options and arguments that the CLI has."""
    made = await everything(browser)
    for each in table.every():
        doing = whole(browser, each, None if each.whole else made.get(each.kind))
        line = each.line(doing).partition(" <<< ")[0]
        words = shlex.split(line)
        assert words[0] == "labfleet"
        try:
            _parse(words[1:])
        except click.ClickException as problem:
            pytest.fail(f"{line}: {problem.format_message()}")


def _parse(words: list[str]) -> None:
    context = root.make_context("labfleet", words, obj=environment.real())
    # private _protected_args: click keeps the name of a subcommand nowhere else
    name, command, rest = root.resolve_command(context, [*context._protected_args, *context.args])
    assert command is not None
    while isinstance(command, click.Group):
        context = command.make_context(name, rest, parent=context)
        name, command, rest = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        assert command is not None
    command.make_context(name, rest, parent=context)


@pytest.mark.asyncio
async def test_every_act_shows_its_page(browser: Browser) -> None:
    """The page of each act of each kind answers an admin: with a form, or with why there is none."""
    made = await everything(browser)
    for each in table.every():
        if not each.whole and each.kind not in made:
            continue
        name = "" if each.whole else made[each.kind].name
        reply = await browser.get(acts.address(each, name))
        text = plain(reply)
        assert reply.status == 200, (each.verb, each.kind, text[:300])
        assert each.title in text
        assert ('name="form"' in text) is not ("cannot be done now" in text)


@pytest.mark.asyncio
async def test_nothing_typed_breaks_a_page_and_no_role_passes_its_rights(browser: Browser) -> None:
    """Each act, by each role, with hostile values: never a defect, and never done without the right."""
    made = await everything(browser)
    await settings_verbs.change(browser.world.services, who(), {"limits.writesPerMinute": 900_000})
    values = itertools.cycle(HOSTILE)
    for number, (each, role) in enumerate(itertools.product(table.every(), FOR_TOKENS)):
        token = await browser.token(role, "eve")
        name = "" if each.whole else made[each.kind].name if each.kind in made else "x"
        where, before = acts.address(each, name), (await browser.world.store.head()).revision
        fields = each.fields(browser.world.services, acts.Caller(Principal("a", role)),
                             None if each.whole else made.get(each.kind))  # fmt: skip
        form = {field.name: next(values) for field in fields}
        form = {key: text.encode("utf-8", "surrogatepass") for key, text in form.items()}
        form["form"] = seals.sealed(token, f"key-{number}").encode()
        reply = await browser.sent(where, form, role, "eve")
        assert reply.status < 500, (each.verb, each.kind, role, form, plain(reply)[:500])
        if not access.may(Principal("a", role), each.right, each.kind):
            assert reply.status == 403, (each.verb, each.kind, role)
            assert (await browser.world.store.head()).revision == before
        asked = urlencode({key: text for key, text in form.items() if key != "form"})
        shown = await browser.get(acts.address(each, name) + f"?{asked[:2000]}", role, "eve")
        assert shown.status < 500, (each.verb, each.kind, role, asked[:200])
        if role == "user" and each.kind in {"Session", "Group", "Course"} and not each.whole:
            assert reply.status == 404, (each.verb, each.kind)


@pytest.mark.asyncio
async def test_several_are_done_one_by_one(browser: Browser) -> None:
    """Of four names two sessions are ended, and the page says of each what became of it."""
    await browser.world.definition()
    for name in ("a", "b", "c"):
        made = await browser.world.session(name, owner="kim", slot=TIMES)
    await browser.world.status(made, phase=SessionPhase.COMPLETED)
    await browser.world.services.fresh()
    assert 'form="several" name="o" value="default/a"' in plain(
        await browser.get("/sessions", "user", "kim")
    )
    chosen = "&".join(f"o=default/{name}" for name in ("a", "b", "c", "none"))
    where = f"/acts/sessions?verb=cancel&{chosen}"
    text = plain(await browser.get(where, "user", "kim"))
    assert text.count(' checked><span class="vh">Choose') == 2
    assert "does not exist" in text
    seal = await browser.seal(where, "user", "kim")
    form = {"form": seal, "verb": "cancel", "reason": "over",
            "o": [f"default/{name}" for name in ("a", "b", "c", "none")]}  # fmt: skip
    reply = await browser.sent("/acts/sessions", form, "user", "kim")
    assert "3 done, 1 not" in plain(reply)
    assert "c is over already (COMPLETED)" in plain(reply)
    ended = [await browser.world.services.objects.get(Session, name, "default") for name in "abc"]
    assert [each.spec.cancel is not None for each in ended if each] == [True, True, False]
    theirs = await browser.get(f"{where}", "user", "eve")
    assert "kim" not in plain(theirs)


@pytest.mark.asyncio
async def test_a_form_for_several_sent_again_for_fewer_counts_once(browser: Browser) -> None:
    """Two are extended; back, one left out, named twice and sent again: the other keeps its new end."""
    await browser.world.definition()
    for name in ("a", "b"):
        await browser.world.session(name, owner="kim", slot=TIMES)
    await browser.world.services.fresh()
    before = await browser.world.services.objects.get(Session, "b", "default")
    assert before is not None
    seal = await browser.seal("/acts/sessions?verb=extend&o=default/a&o=default/b")
    form = {"form": seal, "verb": "extend", "minutes": "30"}
    for chosen in (["default/a", "default/b"], ["default/b", f"default/b/{before.metadata.uid}"]):
        reply = await browser.sent("/acts/sessions", {**form, "o": chosen})
        assert "2 done, 0 not" in plain(reply)
    after = await browser.world.services.objects.get(Session, "b", "default")
    assert before.spec.slot.end is not None
    assert after is not None
    assert after.spec.slot.end == before.spec.slot.end + timedelta(minutes=30)


@pytest.mark.asyncio
async def test_several_are_bounded_and_need_the_right(browser: Browser) -> None:
    """Nothing, more than 200, another kind's objects and what the role may not are refused."""
    await browser.many(Session, 201, SessionSpec(definition="two", owner="kim"))
    await browser.world.services.fresh()
    await browser.token("user", "kim")
    for target, role, status in (
        ("/acts/workers?verb=drain&o=default/w1", "user", 403),
        ("/acts/sessions?verb=drain&o=default/x0000", "admin", 403),
        ("/acts/sessions?verb=cancel", "admin", 400),
        ("/acts/sessions?verb=cancel&o=w1&o=x", "admin", 400),
        ("/acts/nothing", "admin", 404),
        ("/acts/groups?verb=extend&o=default/x", "admin", 403),
    ):
        assert (await browser.get(target, role, "kim")).status == status, target
    seal = seals.sealed(await browser.token(), "k")
    many = [f"default/x{number:04d}" for number in range(201)]
    form = {"form": seal, "verb": "cancel", "o": many}
    assert (await browser.sent("/acts/sessions", form)).status == 400
    ended = await browser.sent("/acts/sessions", {**form, "o": many[:200]})
    assert "200 done, 0 not" in plain(ended)


def test_each_kind_with_a_page_for_several_has_a_verb_for_it() -> None:
    """Workers, sessions, pools, definitions and simulations can be chosen together."""
    able = {each.kind for each in table.every() if each.many}
    assert {"Worker", "Session", "Pool", "Definition", "Simulation"} <= able
    assert able <= {*KINDS}
