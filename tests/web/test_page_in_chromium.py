"""The live page in a real browser (Debian's chromium): signing in, following, holding still."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleet_world import ADMIN, MACHINE
from screen import Screen

from labfleet.interfaces.store import Cause, Commit, Teach
from labfleet.resources import conditions
from labfleet.resources.conditions import Condition
from labfleet.resources.history import Run, RunKind
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionPhase, SessionSpec
from labfleet.resources.worker_conditions import WorkerCondition
from labfleet.service.verbs import objects, settings_verbs

pytestmark = pytest.mark.real
EVIL = "<img src=x onerror=document.title='broken'>"
# What the server would draw now, beside what stands in the page. How long ago something was goes on
# by the browser's clock while the fleet's stands: only the instant itself is compared.
COMPARE = """(async () => {
  const page = new DOMParser().parseFromString(await (await fetch('/live')).text(), 'text/html');
  const text = (node) => [...node.querySelectorAll('tr[data-key]')].map((row) =>
    [row.dataset.key, row.className.replace('fresh', '').trim(),
     ...[...row.cells].map((cell) => cell.innerHTML.replace(/ data-zoned="1"/g, '')
       .replace(/(<time [^>]*><span [^>]*>)(now|\\d+ s ago)</g, '$1<')
       .replace(/\\.000Z"/g, 'Z"') + '|' + (cell.title ?? ''))].join('\\n')).join('\\n\\n');
  return [text(page.querySelector('main')), text(document.querySelector('main'))];
})()"""


def cells(key: str) -> str:
    return f"document.querySelector('tr[data-key=\"{key}\"]')?.innerText"


@pytest.mark.asyncio
async def test_the_page_follows_the_fleet(screen: Screen, tmp_path: Path) -> None:
    """From an empty page a session appears, moves on and goes, and its text stays text."""
    world = screen.browser.world
    tab = await screen.signed_in()
    assert await tab.run("!document.querySelector('[data-empty=Session]').hidden")
    await world.definition()
    made = await world.session("s1", owner=EVIL)
    await tab.until(f"{cells('Session/default/s1')}?.includes('PENDING')")
    assert await tab.run("document.querySelector('[data-empty=Session]').hidden")
    await world.status(made, phase=SessionPhase.RUNNING, message=EVIL, worker="w1")
    await tab.until(f"{cells('Session/default/s1')}.includes('RUNNING')")
    assert EVIL in await tab.run(cells("Session/default/s1"))
    assert await tab.run("document.querySelectorAll('main img').length") == 0
    assert await tab.run("document.title") == "Live tables · Labfleet"
    assert await tab.run("document.querySelector('table[data-events] tbody').rows.length") == 2
    shown, drawn = await tab.run(COMPARE)
    assert drawn == shown
    assert len(await tab.picture(tmp_path / "page.png")) > 10_000


@pytest.mark.asyncio
async def test_what_repeats_while_somebody_looks_is_one_row(screen: Screen) -> None:
    """Live lines fold as the server folds them, go on from its lines, and tell two objects apart."""
    world, row = screen.browser.world, "document.querySelectorAll('[data-events] tbody tr')"
    await world.make("Worker", "old", {"machine": MACHINE})
    await world.definition()
    made = await world.session("s1")
    said = {"phase": SessionPhase.STOPPING, "message": "stopping the lab"}
    await world.status(made, **said)
    await world.status(made, **said, errors=1)
    tab = await screen.signed_in()
    assert "(2 times since" in await tab.run(f"{row}[0].innerText")
    for number in range(2, 6):
        await world.status(made, **said, errors=number)
    await tab.until(f"{row}[0].innerText.includes('stopping the lab (6 times since 2026-11-27')")
    await objects.delete(world.services, ADMIN, KINDS["Worker"], "old", "default")
    await world.make("Worker", "old", {"machine": MACHINE})
    await tab.until(f"{row}[0].innerText.includes('another object had this name before')")
    # What is measured of the new worker, or why nothing is, comes up to half a second later.
    await tab.until(f"{COMPARE}.then(([shown, drawn]) => shown === drawn)")
    shown, drawn = await tab.run(COMPARE)
    assert drawn == shown


@pytest.mark.asyncio
async def test_a_pause_comes_and_goes_by_itself(screen: Screen, tmp_path: Path) -> None:
    """The banner appears with the pause, also a pool's own, and leaves with the resume."""
    world = screen.browser.world
    await world.template()
    await world.make("Pool", "exam", {"template": "metal"})
    tab = await screen.signed_in()
    shown = "[...document.querySelectorAll('.banner')].map((each) => each.innerText)"
    assert await tab.run(shown) == []
    await settings_verbs.pause(world.services, ADMIN, reason="network work")
    await tab.until(f"{shown}.length === 1")
    await settings_verbs.pause_pool(world.services, ADMIN, "exam", "default", reason="firmware")
    await tab.until(f"{shown}.length === 2")
    both = await tab.run(shown)
    assert "network work" in both[0]
    assert "firmware" in both[1]
    for theme in ("light", "dark"):
        await tab.run(f"document.documentElement.dataset.theme = '{theme}'")
        assert len(await tab.picture(tmp_path / f"paused-{theme}.png")) > 10_000
    await settings_verbs.resume(world.services, ADMIN)
    await settings_verbs.pause_pool(world.services, ADMIN, "exam", "default", paused=False)
    await tab.until(f"{shown}.length === 0")


@pytest.mark.asyncio
async def test_rows_hold_still_while_somebody_is_there(screen: Screen) -> None:
    """With focus in a table new rows wait and are counted; cells still change; R lets them in."""
    browser, world = screen.browser, screen.browser.world
    await browser.many(Session, 1000, SessionSpec(definition="two", owner="kim"))
    tab = await screen.signed_in()
    keys = (
        "[...document.querySelectorAll('table[data-kind=Session] tr[data-key]')]"
        ".map((row) => row.dataset.key)"
    )
    assert len(await tab.run(keys)) == 200
    assert await tab.run("document.querySelector('[data-more=Session] b').textContent") == "800"
    await tab.run("document.querySelector('table[data-kind=Session] a').focus()")
    before = await tab.run(keys)
    third = await world.services.objects.get(Session, "x0003", "default")
    await world.status(third, phase=SessionPhase.RUNNING)
    await tab.until(f"{cells('Session/default/x0003')}.includes('RUNNING')")
    await tab.until("!document.querySelector('[data-apply=Session]').hidden")
    said = await tab.run("document.querySelector('[data-apply=Session]').textContent")
    assert said.endswith("press R")
    assert await tab.run(keys) == before
    assert await tab.run("document.activeElement.textContent") == "x0000"
    await tab.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'r'}))")
    after = await tab.run(keys)
    assert "Session/default/x0003" not in after
    assert after[-1] == "Session/default/x0200"
    assert await tab.run("document.activeElement.textContent") == "x0000"


@pytest.mark.asyncio
async def test_tabs_share_one_stream(screen: Screen) -> None:
    """Two tabs hold one connection between them, and both follow (facts/fleet-bugs.md#t33)."""
    first = await screen.signed_in()
    second = await screen.signed_in()
    assert screen.browser.app.streams.clients == 1
    await screen.browser.world.definition()
    await screen.browser.world.session("s1")
    for tab in (first, second):
        await tab.until(f"{cells('Session/default/s1')}?.includes('PENDING')")


@pytest.mark.asyncio
async def test_a_tab_of_another_version_is_not_listened_to(screen: Screen) -> None:
    """Tabs that an upgrade left open may say other things: a page hears only its own version."""
    tab = await screen.signed_in()
    await tab.run(
        "new BroadcastChannel(`labfleet ${document.body.dataset.who}`)"
        ".postMessage({all: 'in another form', changes: [{event: {key: '1'}}]})"
    )
    await screen.browser.world.definition()
    await screen.browser.world.session("s1")
    await tab.until(f"{cells('Session/default/s1')}?.includes('PENDING')")
    assert await tab.run("document.querySelectorAll('[data-events] tbody tr').length") == 1


@pytest.mark.asyncio
async def test_an_object_page_follows_too(screen: Screen) -> None:
    """The page of one object shows its new state, and where it went when it is gone."""
    world = screen.browser.world
    await world.definition()
    made = await world.session("s1")
    tab = await screen.signed_in("/sessions/s1")
    await world.status(made, phase=SessionPhase.RUNNING)
    await tab.until("document.querySelector('h1').innerText.includes('RUNNING')")


@pytest.mark.asyncio
async def test_a_page_of_a_kind_without_a_table_follows_too(screen: Screen) -> None:
    """A pool has no row on the first page, and its own page is live all the same."""
    world = screen.browser.world
    await world.template()
    await world.make("Pool", "exam", {"template": "metal"})
    tab = await screen.signed_in("/pools/exam")
    await settings_verbs.pause_pool(world.services, ADMIN, "exam", "default", reason="firmware")
    await tab.until("document.getElementById('live').innerText.includes('firmware')")


@pytest.mark.asyncio
async def test_the_mark_tells_that_the_server_is_away(screen: Screen) -> None:
    """When the stream ends the page says that it reconnects, and keeps what it shows."""
    await screen.browser.world.definition()
    await screen.browser.world.session("s1")
    tab = await screen.signed_in()
    screen.browser.app.shutdown()
    await tab.until("document.getElementById('mark').dataset.state === 'reconnecting'")
    assert "PENDING" in await tab.run(cells("Session/default/s1"))


@pytest.mark.asyncio
async def test_a_phone_shows_the_page_in_its_width(screen: Screen) -> None:
    """Tables scroll in their frames; what only screen readers see made the page twice as wide."""
    await screen.browser.world.definition()
    await screen.browser.world.session("s1")
    tab = await screen.signed_in()
    await tab.call(
        "Emulation.setDeviceMetricsOverride",
        width=390, height=844, deviceScaleFactor=1, mobile=True,
    )  # fmt: skip
    for path in ("/", "/live", "/sessions/s1", "/logout"):
        await tab.go(screen.url + path)
        await tab.until("document.getElementById('mark').dataset.state === 'live'")
        assert await tab.run("document.documentElement.scrollWidth") == 390


# What axe calls scrollable-region-focusable and link-in-text-block (both serious), as functions of
# the page: frames that scroll and take no focus; links that only colour tells from text beside them.
STUCK = """[...document.querySelectorAll('*')].filter((each) => {
  const style = getComputedStyle(each);
  const scrolls = (size, room, flow) => size > room + 1 && ['auto', 'scroll'].includes(flow);
  return each !== document.documentElement && each !== document.body
    && (scrolls(each.scrollHeight, each.clientHeight, style.overflowY)
      || scrolls(each.scrollWidth, each.clientWidth, style.overflowX))
    && each.tabIndex < 0 && !each.querySelector('a[href], button, input, [tabindex="0"]');
}).map((each) => each.outerHTML.slice(0, 120))"""
UNTOLD = """[...document.querySelectorAll('main a[href]')].filter((link) => {
  const beside = [...link.parentElement.childNodes].filter((node) => node !== link
    && /\\p{L}/u.test(node.textContent) && node.nodeName !== 'A');
  const flow = getComputedStyle(link);
  return beside.length && flow.display === 'inline' && !flow.textDecorationLine.includes('underline');
}).map((each) => each.parentElement.outerHTML.slice(0, 160))"""


# What axe calls target-size (serious; WCAG 2.5.8): links and buttons outside of prose that are
# smaller than 24 px and so near to another one that a circle of 24 px around them meets it.
TIGHT = """(() => {
  const found = [...document.querySelectorAll('a[href], button, summary, input')].filter((each) => {
    const inProse = each.localName === 'a' && getComputedStyle(each).display === 'inline'
      && [...each.parentElement.childNodes].some((node) => node !== each
        && /\\p{L}/u.test(node.textContent));
    const [box, frame] = [each, each.closest('.scroll') ?? document.documentElement]
      .map((one) => one.getBoundingClientRect());
    const seen = box.top < frame.bottom && box.left < frame.right && box.right > 0;
    return !inProse && seen && each.checkVisibility();
  }).map((each) => [each, each.getBoundingClientRect()]);
  const small = found.filter(([, box]) => box.width < 23.9 || box.height < 23.9);
  const middle = (box) => [box.x + box.width / 2, box.y + box.height / 2];
  const away = ([x, y], box) => Math.hypot(
    Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));
  return small.filter(([each, box]) => found.some(([other, its]) => {
    if (other === each || other.contains(each) || each.contains(other)) return false;
    const [x, y] = middle(its);
    const between = Math.hypot(middle(box)[0] - x, middle(box)[1] - y);
    return away(middle(box), its) < 12 || (small.some(([one]) => one === other) && between < 24);
  })).map(([each]) => each.outerHTML.slice(0, 120));
})()"""


# Tables of the first page that a laptop does not show in their whole width.
WIDE = """[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth)
  .map((each) => [each.dataset.full, each.scrollWidth, each.clientWidth])"""


@pytest.mark.asyncio
async def test_nothing_is_blank_out_of_reach_or_told_by_colour_alone(screen: Screen) -> None:
    """Long pages end with their content; frames that scroll take focus; links stand apart."""
    world = screen.browser.world
    await world.definition()
    await world.template()
    await world.make("Pool", "exam", {"template": "metal"})
    await screen.browser.many(Session, 400, SessionSpec(definition="two", owner="kim"))
    worker = await world.make("Worker", "w1", {"template": "metal"})
    facts: tuple[Condition, ...] = ()
    for each in WorkerCondition:
        facts = conditions.put(facts, each, "False", next(iter(each.reasons)), "x " * 90,
                               now=world.clock.now())  # fmt: skip
    await world.status(worker, conditions=facts)
    for number in range(60):
        session = await world.services.objects.get(Session, "x0003", "default")
        await world.status(session, message=f"step {number}")
        run = Run(kind=RunKind.BOOT, uid=f"u{number}", name="w" * 60, family="f" * number or "f",
                  censored="BootTimeout", ended_at=world.clock.now())  # fmt: skip
        await world.store.commit(Commit(Cause("test", world.clock.now()), (Teach(run),)))
    tab = await screen.signed_in()
    paths = ("/", "/live", "/alerts", "/fleet", "/fleet?view=table", "/discovery", "/garbage",
             "/workers/w1", "/workers/w1?tab=machine", "/workers/w1?tab=ports",
             "/sessions/x0003", "/pools/exam", "/pools", "/regions", "/history",
             "/docs", "/docs/sessions", "/docs/seeds", "/docs/schemas/WorkerStatus")  # fmt: skip
    for width in (1440, 390):
        await tab.call("Emulation.setDeviceMetricsOverride",
                       width=width, height=844, deviceScaleFactor=1, mobile=False)  # fmt: skip
        for path in paths:
            await tab.go(screen.url + path)
            await tab.until("document.getElementById('mark').dataset.state === 'live'")
            high, content, wide = await tab.run(
                "[document.documentElement.scrollHeight, Math.max(innerHeight, "
                "...[...document.querySelectorAll('main, .side')]"
                ".map((each) => each.getBoundingClientRect().bottom + scrollY)), "
                "document.documentElement.scrollWidth]"
            )
            assert high <= content + 1, (path, width)
            assert wide <= width, (path, width)
            assert await tab.run(STUCK) == [], (path, width)
            assert await tab.run(UNTOLD) == [], (path, width)
            assert await tab.run(TIGHT) == [], (path, width)
            assert path != "/live" or width < 1440 or await tab.run(WIDE) == []
            asked = await tab.run(
                "performance.getEntriesByType('resource').map((each) => new URL(each.name).origin)"
            )
            assert set(asked) == {screen.url}


@pytest.mark.asyncio
async def test_the_theme_is_kept(screen: Screen) -> None:
    """A chosen theme holds over a reload, without a flash of the other one."""
    tab = await screen.signed_in()
    await tab.run("document.getElementById('theme').click()")
    await tab.run("document.getElementById('theme').click()")
    await tab.go(f"{screen.url}/login")
    assert await tab.run("document.documentElement.dataset.theme") == "dark"
    colour = await tab.run("getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(18, 22, 28)"
