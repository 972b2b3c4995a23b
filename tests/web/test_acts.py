"""Acts on pages: shown with what follows, done once, by those who may, and said as the server said."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote

import pytest
from api_caller import ADMIN
from browser import ORIGIN, Browser, Reader, plain
from fleet_world import who
from hypothesis import given
from hypothesis import strategies as st

from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.verbs import settings_verbs
from labfleet.web.acts import seals

WORKER = "/act/drain/workers/w1"


async def a_worker(browser: Browser, name: str = "w1") -> Worker:
    world = browser.world
    await world.template()
    made = await world.make("Worker", name, {"template": "metal"})
    found: Worker = await world.status(made, phase=WorkerPhase.READY)
    return found


async def now(browser: Browser, kind: type, name: str) -> object:
    return await browser.world.services.objects.get(kind, name, "default")


@pytest.mark.asyncio
async def test_an_act_is_shown_with_what_follows_and_does_nothing(browser: Browser) -> None:
    """The page of a drain names the session that it hits, its command, and changes nothing."""
    await a_worker(browser)
    await browser.world.definition()
    made = await browser.world.session("exam-1", owner="kim")
    await browser.world.status(made, phase=SessionPhase.RUNNING, worker="w1")
    await browser.world.services.fresh()
    text = plain(await browser.get(WORKER))
    assert "exam-1 of kim (RUNNING)" in text
    assert "<code>labfleet drain w1</code>" in text
    assert "Cancel drain opens it again" in text
    found = await now(browser, Worker, "w1")
    assert isinstance(found, Worker)
    assert found.spec.drain is None


@pytest.mark.asyncio
async def test_an_act_is_done_and_said_once(browser: Browser) -> None:
    """A form that is sent drains the worker, leads to its page, and what is said shows there once."""
    await a_worker(browser)
    done = await browser.send(WORKER, {"minutes": "90", "reason": "disk"})
    assert (done.status, done.headers["location"]) == (303, "/workers/w1")
    found = await now(browser, Worker, "w1")
    assert isinstance(found, Worker)
    assert found.spec.drain is not None
    assert (found.spec.drain.reason, found.spec.drain.requested_by) == ("disk", "admin")
    said = done.headers["set-cookie"]
    assert "HttpOnly" in said
    assert "SameSite=Strict" in said
    cookie = f"labfleet-8470={await browser.token()}; {said.partition(';')[0]}"
    page = await browser.get("/workers/w1", cookie=cookie)
    assert "Asked: w1 is to be empty by" in plain(page)
    assert "Max-Age=0" in page.headers["set-cookie"]
    assert "Asked: w1" not in plain(await browser.get("/workers/w1"))


@given(
    st.text(max_size=1200),
    st.sampled_from(["", "/act/resume/pools/exam", "/" + "x" * 899, "/" + "x" * 900]),
)
def test_what_is_said_fits_a_cookie(text: str, undo: str) -> None:
    """Whatever its letters, a browser keeps it; where it is too long its beginning is said."""
    for each in (text, text + "\N{SNOWMAN}" * 900):
        value = seals.said("token", each, undo)
        assert len(value) < 4000
        heard = seals.heard("token", value)
        assert heard is not None
        assert heard.undo == (undo if len(undo) <= seals.SAID_LIMIT else "")
        assert each.startswith(heard.text.removesuffix("\N{HORIZONTAL ELLIPSIS}"))


@pytest.mark.asyncio
async def test_words_of_others_are_not_said(browser: Browser) -> None:
    """A cookie that somebody else sealed, or nobody, says nothing on a page."""
    for value in ("x", seals.said("other", "Give me your token"), "é", "a.b.c"):
        cookie = f"labfleet-8470={await browser.token()}; labfleet-8470-said={value}"
        assert "Give me" not in plain(await browser.get("/", cookie=cookie))
        assert 'class="said"' not in plain(await browser.get("/", cookie=cookie))


@pytest.mark.asyncio
async def test_a_form_of_another_visit_or_site_does_nothing(browser: Browser) -> None:
    """Without the seal of this visit's token, or from elsewhere, a POST is refused."""
    await a_worker(browser)
    await browser.token("operator")
    theirs = await browser.seal(WORKER, "operator")
    own = await browser.seal(WORKER)
    cookie = f"labfleet-8470={await browser.token()}"
    for fields in ({}, {"form": ""}, {"form": theirs}, {"form": own[:-1]}, {"form": "é.é"}):
        assert (await browser.sent(WORKER, dict(fields))).status == 403
    for headers in ({}, {"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
        reply = await browser.post(WORKER, {"form": own}, Cookie=cookie, **headers)
        assert reply.status == 403
    assert (await browser.post(WORKER, {"form": own}, Origin=ORIGIN)).status == 303
    found = await now(browser, Worker, "w1")
    assert isinstance(found, Worker)
    assert found.spec.drain is None


@pytest.mark.asyncio
async def test_a_second_click_counts_once(browser: Browser) -> None:
    """The same form sent twice extends a session once."""
    await browser.world.definition()
    slot = {"start": "2026-11-28T09:00:00Z", "end": "2026-11-28T10:00:00Z"}
    await browser.world.session("s1", owner="kim", slot=slot)
    where = "/act/extend/sessions/s1"
    seal = await browser.seal(where, "user", "kim")
    for _ in range(2):
        done = await browser.sent(where, {"form": seal, "minutes": "30"}, "user", "kim")
        assert done.status == 303, plain(done)
    found = await now(browser, Session, "s1")
    assert isinstance(found, Session)
    assert found.spec.slot.end is not None
    assert f"{found.spec.slot.end:%H:%M}" == "10:30"


@pytest.mark.asyncio
async def test_a_second_click_is_answered_as_the_first(browser: Browser) -> None:
    """What cannot be done twice, such as a drain or a retry, is told as done both times."""
    await a_worker(browser)
    await browser.world.definition()
    made = await browser.world.session("s1", owner="kim")
    await browser.world.status(made, phase=SessionPhase.FAILED)
    for where, fields in ((WORKER, {"minutes": "9"}), ("/act/retry/sessions/s1", {"when": "now"})):
        seal = await browser.seal(where)
        done = [await browser.sent(where, {"form": seal, **fields}) for _ in range(2)]
        assert [each.status for each in done] == [303, 303], plain(done[1])
        assert done[0].headers["set-cookie"] == done[1].headers["set-cookie"]
    assert await now(browser, Session, "s1-3") is None


@pytest.mark.asyncio
async def test_too_many_writes_are_told_on_the_form(browser: Browser) -> None:
    """Beyond the writes of one token the form says so, and keeps what was typed."""
    await browser.world.definition()
    await browser.world.session("s1", owner="kim")
    change = {"limits.writesPerMinute": 6}
    await settings_verbs.change(browser.world.services, who(), change)
    await browser.world.services.fresh()
    where, fields = "/act/hand-over/sessions/s1", {"to": "eve", "look": "1"}
    seen = [await browser.send(where, fields, "user", "kim") for _ in range(3)]
    assert seen[-1].status == 429
    assert "One token may write 6 times a minute" in plain(seen[-1])
    assert 'value="eve"' in plain(seen[-1])


@pytest.mark.asyncio
async def test_a_refusal_keeps_what_was_typed(browser: Browser) -> None:
    """What the service refuses stands on the form with its place, and nothing typed is lost."""
    await a_worker(browser)
    reply = await browser.send(WORKER, {"minutes": "-3", "reason": "<b>disk"})
    page = Reader(plain(reply))
    assert reply.status == 400
    assert "must be a whole number" in plain(reply)
    values = {each.get("name"): each.get("value") for each in page.all("input")}
    assert values["reason"] == "<b>disk"
    assert values["minutes"] == "-3"
    assert "<b>disk" not in plain(reply)


@pytest.mark.asyncio
async def test_looking_shows_what_follows_of_what_was_typed(browser: Browser) -> None:
    """The button that only looks tells of the new end, and leaves the session as it is."""
    await browser.world.definition()
    slot = {"start": "2026-11-28T09:00:00Z", "end": "2026-11-28T10:00:00Z"}
    await browser.world.session("s1", owner="kim", slot=slot)
    where = "/act/extend/sessions/s1"
    reply = await browser.send(where, {"minutes": "45", "look": "1"}, "user", "kim")
    assert reply.status == 200
    assert "It ends 2026-11-28 10:45Z instead of 2026-11-28 10:00Z" in plain(reply)
    found = await now(browser, Session, "s1")
    assert isinstance(found, Session)
    assert f"{found.spec.slot.end:%H:%M}" == "10:00"


@pytest.mark.asyncio
async def test_a_changed_drain_says_what_it_ends_and_when(browser: Browser) -> None:
    """Force without a deadline ends what runs now; with one, or where the drain has it already, then."""
    await a_worker(browser)
    await browser.world.definition()
    made = await browser.world.session("s1", owner="kim")
    end = browser.world.clock.now() + timedelta(hours=5)
    await browser.world.status(made, phase=SessionPhase.RUNNING, worker="w1", end=end)
    await browser.send(WORKER, {"minutes": "60", "force": "1"})
    where = "/act/change-drain/workers/w1"
    for typed, told in (
        ({"force": "1"}, "1 session is ended now, with its lab: s1 of kim"),
        ({"minutes": "90"}, "What still runs at the deadline is ended"),
        ({}, "1 session ends after the deadline, 2026-11-27 10:00Z: s1 of kim"),
    ):
        assert told in plain(await browser.send(where, {**typed, "look": "1"})), typed


@pytest.mark.asyncio
async def test_what_one_may_not_do_says_whom_to_ask(browser: Browser) -> None:
    """A user is told whom to ask, and is shown no act on workers; another's session is not there."""
    await a_worker(browser)
    reply = await browser.get(WORKER, "user", "kim")
    assert reply.status == 403
    assert "ask somebody with role operator or admin" in plain(reply)
    await browser.world.definition()
    await browser.world.session("s1", owner="kim")
    assert (await browser.get("/act/cancel/sessions/s1", "user", "eve")).status == 404
    mine = await browser.page("/sessions/s1", "user", "kim")
    hrefs = [each.get("href") or "" for each in mine.all("a")]
    assert any(each.startswith("/act/cancel/sessions/s1?uid=") for each in hrefs)


@pytest.mark.asyncio
async def test_another_object_of_the_name_is_not_meant(browser: Browser) -> None:
    """A form of a worker that is gone does nothing to the one that has its name now."""
    await a_worker(browser)
    reply = await browser.get(f"{WORKER}?uid={quote('00000000-0000')}")
    assert reply.status == 404


@pytest.mark.asyncio
async def test_what_makes_no_sense_now_is_closed_with_the_reason(browser: Browser) -> None:
    """An ended worker cannot be drained: its page says so and has no form."""
    made = await a_worker(browser)
    await browser.world.status(made, phase=WorkerPhase.TERMINATED)
    text = plain(await browser.get(WORKER))
    assert "This cannot be done now: it is TERMINATED" in text
    assert 'name="form"' not in text
    seal = seals.sealed(await browser.token(), "k1")
    reply = await browser.sent(WORKER, {"form": seal})
    assert "cannot be done now" in plain(reply)
    await browser.tokens.revoke(ADMIN, (await browser.token()).split("_")[1])
    assert (await browser.get(WORKER)).status == 303
