"""Signing in and out by browser: cookie, origin, where to go next, the stream by cookie."""

from __future__ import annotations

import pytest
from api_caller import ADMIN
from browser import HOST, ORIGIN, Browser, plain

from labfleet.web import doors


@pytest.mark.asyncio
async def test_a_token_becomes_a_cookie(browser: Browser) -> None:
    """The right token sets a strict cookie of this port and leads to the page asked for."""
    token = await browser.token()
    done = await browser.post("/login", {"token": f" {token}\n", "next": "/#x"}, Origin=ORIGIN)
    assert (done.status, done.headers["location"]) == (303, "/#x")
    cookie = done.headers["set-cookie"]
    assert cookie == f"labfleet-8470={token}; Path=/; HttpOnly; SameSite=Strict"
    assert (await browser.get("/", cookie=cookie.partition(";")[0])).status == 200


@pytest.mark.asyncio
async def test_over_tls_the_cookie_is_secure(browser: Browser) -> None:
    """With TLS the cookie is Secure, bound to the host, and one set without TLS does not count."""
    token = await browser.token()
    origin = f"https://{HOST}"
    done = await browser.post("/login", {"token": token}, scheme="https", Origin=origin)
    assert done.headers["set-cookie"].startswith(f"__Host-labfleet-8470={token}; Path=/;")
    assert "; Secure" in done.headers["set-cookie"]
    plain_cookie = await browser.get("/", scheme="https")
    assert plain_cookie.status == 303


@pytest.mark.asyncio
@pytest.mark.parametrize("target", ["/login", "/logout"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": f"http://{HOST}.evil.example"},
        {"Origin": "http://["},
        {"Origin": f"file://{HOST}"},
        {"Origin": ORIGIN, "Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {},
    ],
)
async def test_a_form_of_another_site_does_nothing(
    browser: Browser, target: str, headers: dict[str, str]
) -> None:
    """A POST whose origin is not this server neither signs in nor out."""
    done = await browser.post(target, {"token": await browser.token()}, **headers)
    assert done.status == 403
    assert "set-cookie" not in done.headers


@pytest.mark.asyncio
async def test_wrong_tokens_are_refused_without_echo(browser: Browser) -> None:
    """What is no token, or nobody's, leads back to the form, and is not repeated in it."""
    for text, status in (("", 400), ("x" * 300, 400), ("a;b", 400), ("ä", 400), ("lf_no_no", 401)):
        done = await browser.post("/login", {"token": text}, Origin=ORIGIN)
        assert done.status == status
        assert "set-cookie" not in done.headers
        assert not text or f'value="{text}"' not in plain(done)
    odd = await browser.post("/login", {"token": "x"}, Origin=ORIGIN, Content_Type="text/plain")
    assert odd.status == 400


@pytest.mark.asyncio
async def test_a_revoked_token_ends_the_visit(browser: Browser) -> None:
    """With a token that ended, a page leads to the form, says so and drops the cookie."""
    token = await browser.token("operator")
    cookie = f"labfleet-8470={token}"
    await browser.tokens.revoke(ADMIN, token.split("_")[1])
    done = await browser.get("/sessions/a?namespace=b", cookie=cookie)
    assert done.status == 303
    assert done.headers["location"] == "/login?next=%2Fsessions%2Fa%3Fnamespace%3Db&ended=1"
    assert "Max-Age=0" in done.headers["set-cookie"]
    form = await browser.get(done.headers["location"], cookie=cookie)
    assert form.status == 200
    assert "has ended" in plain(form)
    assert 'value="/sessions/a?namespace=b"' in plain(form)


@pytest.mark.asyncio
async def test_without_a_cookie_every_page_leads_to_the_form(browser: Browser) -> None:
    """Nobody sees a page unasked, also none that is not there; the form and its files are public."""
    for path in ("/", "/workers/w1", "/logout", "/pools"):
        assert (await browser.get(path, None)).status == 303
    html = "text/html,application/xhtml+xml,*/*;q=0.8"
    assert (await browser.get("/nonsense", None, accept=html)).status == 303
    assert (await browser.get("/login", None)).status == 200


@pytest.mark.asyncio
@pytest.mark.parametrize("accept", ["", "*/*", "image/avif,image/webp,*/*;q=0.8"])
async def test_a_program_is_told_that_a_page_is_not_there(browser: Browser, accept: str) -> None:
    """What robots and tools ask for is 404, not a redirect to a form, also with a stale cookie."""
    for path in ("/favicon.ico", "/robots.txt", "/schema", "/.well-known/security.txt"):
        assert (await browser.get(path, None, accept=accept)).status == 404
        stale = await browser.get(path, None, cookie="labfleet-8470=lf_no_no", accept=accept)
        assert stale.status == 404
        assert (await browser.get(path, accept=accept)).status == 404


@pytest.mark.asyncio
async def test_signing_out_drops_the_cookie(browser: Browser) -> None:
    """A POST of ours to /logout forgets the token; reading the page does not."""
    assert "set-cookie" not in (await browser.get("/logout")).headers
    done = await browser.post("/logout", {}, Origin=ORIGIN)
    assert done.headers["set-cookie"].startswith("labfleet-8470=; ")
    assert "Max-Age=0" in done.headers["set-cookie"]


@pytest.mark.asyncio
async def test_the_cookie_reads_the_api_and_changes_nothing(browser: Browser) -> None:
    """The cookie opens the API for reading; a write needs the Authorization header."""
    assert (await browser.get("/api/v1/sessions")).status == 200
    assert (await browser.get("/api/v1/sessions", method="POST")).status == 401
    assert (await browser.get("/api/v1/tokens/x", method="DELETE")).status == 401


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("/sessions/a", "/sessions/a"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nSet-Cookie: x=y", "/"),
        ("/login?next=/", "/"),
        ("/" + "a" * 600, "/"),
        ("", "/"),
    ],
)
def test_next_stays_here(wanted: str, found: str) -> None:
    """After signing in one goes on to a page of this server, never elsewhere."""
    assert doors.safe_next(wanted) == found


@pytest.mark.parametrize(
    ("cookie", "theme"),
    [("labfleet-theme=dark", "dark"), ("labfleet-theme=<b>", "auto"), ("", "auto")],
)
def test_a_theme_is_one_of_three(cookie: str, theme: str) -> None:
    """The theme comes from the browser's cookie, and only a known one."""
    assert doors.theme({"headers": [(b"cookie", cookie.encode())]}) == theme
