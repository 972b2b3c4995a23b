"""The pages as an ASGI application: every path that is not the API's.

The pages of `view_table` (`/` is the overview), `/<plural>` (a list), `/<plural>/<name>` (an object's
page, its further tabs in `panel_table`), `/docs` (the API), `/login`, `/logout`, `/static/`. This
module answers the request; the modules that the tables name make the page's data, the templates its
look, and `doors` has the sign-in rules. `api.front` limits the body and adds the headers.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import jinja2

from labfleet.kernel import clock, errors
from labfleet.resources.kinds import KINDS, Kind
from labfleet.service.core import access
from labfleet.service.core.access import Principal
from labfleet.service.core.fleet_settings import Pause
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.core.tokens import Tokens
from labfleet.service.reads import raised
from labfleet.web import api_docs, details, doors, lists, navigation, overview, view_table, words
from labfleet.web.acts import answers as acts
from labfleet.web.acts import many, seals, table
from labfleet.web.statuses import sentence, status_of
from labfleet.web.values import exact, instant
from labfleet.web.view import Asked

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

FORM_LIMIT = 8192
_NO_PAGE = "There is no page at this address."
_NOT_OURS = "This form was not sent from a page of this server."
ENDS_SOON = timedelta(hours=24)
"""From so long before the end of a token on, its owner is told on every page."""
TAKER = "labfleet.taker"
"""Where the scope has the function that counts a caller's writes (`api.front`)."""
_HERE = Path(__file__).parent
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply."""

    status: int
    body: bytes = b""
    media_type: str = "text/html; charset=utf-8"
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class File:
    """One static file, read once. `address` changes with it, so it may be cached for ever."""

    body: bytes = field(repr=False)
    media_type: str
    address: str


def build(services: ServiceContext, tokens: Tokens) -> App:
    """Return the application; `doors.credentials` goes with it to `api.application.build`."""
    return Pages(services, tokens)


class Pages:
    """All pages of an installation."""

    def __init__(self, services: ServiceContext, tokens: Tokens) -> None:
        self._services = services
        self._tokens = tokens
        self._files = _files()
        self._jinja = _templates()
        self._read: api_docs.ApiDocs | None = None
        self._acts = acts.Acts(services, tokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        # Before anything is read: what happens from here on the page's script hears of the stream.
        scope["labfleet.at"] = self._services.cache.cursor
        try:
            answer = await self._answer(scope, receive)
        except errors.LabfleetError as error:
            answer = await self._trouble(scope, error)
        length = str(len(answer.body)).encode()
        headers = [
            (b"content-type", answer.media_type.encode()),
            (b"content-length", length),
            # Forms need an Origin, which browsers withhold under the API's no-referrer.
            (b"referrer-policy", b"same-origin"),
            *answer.headers,
        ]
        start = {"type": "http.response.start", "status": answer.status, "headers": headers}
        await send(start)
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path, method = scope["path"], scope["method"]
        if path in {"/login", "/logout"} and method == "POST":
            return await self._door(scope, receive)
        if method == "POST" and acts.is_ours(path):
            return await self._acted(scope, receive)
        if method not in {"GET", "HEAD"}:
            return self._error(
                scope, 405, "This page can only be read.", ((b"allow", b"GET, HEAD"),),
                await self._known(scope),
            )  # fmt: skip
        if path.startswith("/static/"):
            return self._static(scope)
        if path == "/login":
            return self._login(scope, 200, "")
        caller = await self._caller(scope)
        if path == api_docs.ROOT or path.startswith(f"{api_docs.ROOT}/"):
            return self._docs(scope, path, caller)
        if caller is None:
            return _to_the_form(scope, path)
        if path == "/logout":
            return self._page(scope, "logout.html", 200, caller=caller)
        if acts.is_ours(path):
            found = await self._acts.shown(caller, path, _query(scope))
            return self._shown(scope, caller, found)
        asked = view_table.at(path)
        if asked is not None and asked[0].means(_query(scope)):
            view, name = asked
            data = await view.make(self._services, caller, Asked(_query(scope), name))
            return self._page(scope, view.template, 200, caller=caller, page=data, here=view.path)
        return await self._object(scope, caller, path)

    async def _acted(self, scope: Scope, receive: Receive) -> Answer:
        """Do what a form of ours asks for; it is one only with the seal of this visit's token."""
        if not doors.same_site(scope):
            return self._error(scope, 403, _NOT_OURS)
        path, token, caller = scope["path"], doors.token(scope), await self._caller(scope)
        if caller is None or token is None:
            return _to_the_form(scope, path)
        form = await _form(scope, receive, acts.FORM_LIMIT, acts.FIELDS_LIMIT)
        key = seals.key_of(token, form.get(seals.FIELD, [""])[-1])
        if key is None:
            return self._error(scope, 403, f"{_NOT_OURS} Open it again.", caller=caller)
        take = functools.partial(scope.get(TAKER, _take_nothing), caller.principal)
        found = await self._acts.done(caller, acts.Sent(path, _query(scope), form, key, take))
        if isinstance(found, acts.Done):
            return _redirect(
                found.where, doors.say(scope, seals.said(token, found.said, found.undo))
            )
        return self._shown(scope, caller, found)

    def _shown(self, scope: Scope, caller: Caller, found: acts.Shown) -> Answer:
        """Answer with a page that has a form, sealed for this visit."""
        key = self._services.ids.uid()
        return self._page(
            scope, found.template, found.status, caller=caller, page=found.page, here=found.here,
            seal=seals.sealed(doors.token(scope) or "", key),
        )  # fmt: skip

    async def _object(self, scope: Scope, caller: Caller, path: str) -> Answer:
        plural, _, name = path.strip("/").partition("/")
        row = next((each for each in KINDS.values() if each.plural == plural), None)
        if row is None:
            raise errors.Gone(_NO_PAGE)
        if not name:
            return await self._list(scope, caller, row)
        found = await details.detail(self._services, caller, row, name, Asked(_query(scope)))
        return self._page(
            scope, "detail.html", 200, caller=caller, page=found, here=f"/{row.plural}"
        )

    async def _list(self, scope: Scope, caller: Caller, row: Kind) -> Answer:
        """Show the list of a kind as the query asks for it."""
        found = await lists.page(self._services, caller, row, Asked(_query(scope)))
        return self._page(
            scope, "list.html", 200, caller=caller, page=found, here=f"/{row.plural}",
            acts=table.of_kind(caller, row.name), several=many.verbs(caller, row.name),
        )  # fmt: skip

    def _docs(self, scope: Scope, path: str, caller: Caller | None) -> Answer:
        """Show the API's document, which needs no token, like the document itself."""
        if self._read is None:
            self._read = api_docs.read(scope[api_docs.DOCUMENT]())
        docs, below = self._read, path.removeprefix(api_docs.ROOT).strip("/")
        if not below:
            return self._page(scope, "docs.html", 200, caller=caller, docs=docs)
        if below == "schemas":
            return _redirect(f"{api_docs.ROOT}#schemas")
        group = docs.group(below)
        if group is not None:
            return self._page(
                scope, "docs_group.html", 200, caller=caller, group=group, curl=api_docs.curl,
                pretty=api_docs.pretty,
            )  # fmt: skip
        record = docs.records.get(below.removeprefix("schemas/"))
        if record is None or not below.startswith("schemas/"):
            raise errors.Gone(_NO_PAGE)
        return self._page(scope, "docs_record.html", 200, caller=caller, record=record)

    async def _caller(self, scope: Scope) -> Caller | None:
        text = doors.token(scope)
        if text is None:
            return None
        try:
            principal = await self._tokens.authenticate(text)
        except errors.Denied:
            return None
        return Caller(principal, str(scope.get("labfleet.request_id", "")))

    async def _known(self, scope: Scope) -> Caller | None:
        """Return who is told of an error; nobody when just that cannot be found out now."""
        try:
            return await self._caller(scope)
        except errors.LabfleetError:
            return None

    async def _door(self, scope: Scope, receive: Receive) -> Answer:
        """Sign in or out. A form of another site does neither."""
        if not doors.same_site(scope):
            return self._error(scope, 403, _NOT_OURS)
        if scope["path"] == "/logout":
            return _redirect("/login", doors.drop_cookie(scope))
        sent = await _form(scope, receive)
        form = {name: found[-1] for name, found in sent.items()}
        text = form.get("token", "").strip()
        try:
            if not doors.plausible(text):
                return self._login(scope, 400, "That is not a token.", form.get("next", ""))
            principal = await self._tokens.authenticate(text)
        except errors.Denied as error:
            return self._login(scope, 401, f"{sentence(error)}.", form.get("next", ""))
        wanted = doors.safe_next(form.get("next", ""))
        where = navigation.home(principal) if wanted == "/" else wanted
        return _redirect(where, doors.set_cookie(scope, text))

    def _login(self, scope: Scope, status: int, problem: str, wanted: str = "") -> Answer:
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        wanted = wanted or query.get("next", [""])[-1]
        if not problem and "ended" in query:
            problem = "Your token has ended or is not known here. Sign in again."
        next_ = doors.safe_next(wanted)
        return self._page(scope, "login.html", status, problem=problem, next=next_)

    def _static(self, scope: Scope) -> Answer:
        file = self._files.get(scope["path"].removeprefix("/static/"))
        if file is None:
            raise errors.Gone("There is no such file.")
        query = scope.get("query_string", b"").decode("latin-1")
        asked = scope["path"] + (f"?{query}" if query else "")
        kept = b"public, max-age=31536000, immutable" if asked == file.address else b"no-cache"
        return Answer(200, file.body, file.media_type, ((b"cache-control", kept),))

    async def _trouble(self, scope: Scope, error: errors.LabfleetError) -> Answer:
        status = status_of(error)
        extra: Headers = ()
        if status in {429, 503}:
            seconds = max(1, round(error.retry_after or 2))
            extra = ((b"retry-after", str(seconds).encode()),)
        return self._error(scope, status, sentence(error), extra, await self._known(scope))

    def _error(
        self, scope: Scope, status: int, said: str, headers: Headers = (),
        caller: Caller | None = None,
    ) -> Answer:  # fmt: skip
        made = self._page(
            scope, "error.html", status, caller=caller,
            said=said, title=HTTPStatus(status).phrase,
            request_id=str(scope.get("labfleet.request_id", "")),
        )  # fmt: skip
        return Answer(status, made.body, headers=headers)

    def _page(
        self, scope: Mapping[str, Any], name: str, status: int, *,
        caller: Caller | None = None, **values: Any,
    ) -> Answer:  # fmt: skip
        principal = None if caller is None else caller.principal
        heard = None if caller is None else seals.heard(doors.token(scope) or "", doors.said(scope))
        ends = None if principal is None else self._tokens.ends(principal)
        moment = self._services.clock.now()
        made = self._jinja.get_template(name).render(
            principal=principal,
            ends=None if ends is None else instant(ends, moment),
            ends_soon=ends is not None and ends - moment < ENDS_SOON,
            address=_address(scope),
            readable=() if principal is None else sorted(overview.readable(principal)),
            may=lambda action, kind: principal is not None and access.may(principal, action, kind),
            theme=doors.theme(scope),
            base=f"{scope.get('scheme', 'http')}://{doors.header(scope, b'host')}",
            now=clock.format_instant(moment),
            rate=self._services.clock.rate,
            at=scope.get("labfleet.at") or "",
            utc=exact,
            pauses=self._pauses(caller),
            troubles=raised.of_server(self._services) if caller is not None else (),
            navigation=() if principal is None else navigation.shown(principal),
            home="/" if principal is None else navigation.home(principal),
            heard=heard,
            **{"here": "", **values},
        )
        headers = (doors.say(scope, ""),) if heard else ()
        return Answer(status, made.encode("utf-8", "replace"), headers=headers)

    def _pauses(self, caller: Caller | None) -> tuple[Pause, ...]:
        """Return what is paused, for callers who may read settings."""
        if caller is None or not access.may(caller.principal, "read", "Settings"):
            return ()
        return self._services.settings.pauses()


def _to_the_form(scope: Scope, path: str) -> Answer:
    """Lead a person without a token to sign in; Gone for a program that asks for no page.

    Robots and tools ask for /robots.txt or /schema: a redirect to a form reads as if it were there.
    """
    plural = path.strip("/").partition("/")[0]
    exists = (
        path == "/logout"
        or acts.is_ours(path)
        or view_table.at(path) is not None
        or any(each.plural == plural for each in KINDS.values())
    )
    if not exists and "text/html" not in doors.header(scope, b"accept"):
        raise errors.Gone(_NO_PAGE)
    stale = doors.token(scope) is not None
    where = "/login?next=" + quote(_address(scope), safe="") + ("&ended=1" if stale else "")
    return _redirect(where, doors.drop_cookie(scope) if stale else None)


def _redirect(where: str, cookie: tuple[bytes, bytes] | None = None) -> Answer:
    more = () if cookie is None else (cookie,)
    return Answer(303, headers=((b"location", where.encode("latin-1", "replace")), *more))


def _address(scope: Mapping[str, Any]) -> str:
    """Return the address of the page that is asked for, to come back to."""
    query = scope.get("query_string", b"").decode("latin-1")
    return doors.safe_next(quote(scope["path"]) + (f"?{query}" if query else ""))


def _query(scope: Scope) -> dict[str, list[str]]:
    return parse_qs(scope.get("query_string", b"").decode("latin-1"))


def _take_nothing(_principal: Principal) -> None:
    """Count no write: nobody has said how many there may be."""


async def _form(
    scope: Scope, receive: Receive, limit: int = FORM_LIMIT, fields: int = 10
) -> dict[str, list[str]]:
    """Return the values of a form's fields by name; Invalid when it is none, or too long."""
    kind = doors.header(scope, b"content-type").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise errors.Invalid("Send the form as a browser does.")
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise errors.Invalid("The form did not arrive whole.")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > limit:
            raise errors.Invalid(f"A form has at most {limit} bytes.")
    try:
        return parse_qs(body.decode("ascii"), max_num_fields=fields)
    except ValueError:
        raise errors.Invalid("The form cannot be read.") from None


@functools.cache
def _templates() -> jinja2.Environment:
    """Return the templates, each compiled once for all applications of a process."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    static = {path.rpartition("/")[2]: file.address for path, file in _files().items()}
    scripts = [address for name, address in static.items() if name.endswith(".js")]
    styles = [address for name, address in static.items() if name.endswith(".css")]
    made.globals.update(
        static=static,
        scripts=scripts,
        styles=styles,
        words=words.as_json(),
        WORDS=words,
        KEYS=navigation.KEYS,
        GOES=navigation.goes,
    )
    return made


@functools.cache
def _files() -> dict[str, File]:
    """Return all static files by path; no other path is served.

    Scripts import each other by `./name.js`. So their address has one version of all scripts, as a
    folder: a script imports only scripts of its own version. A server does not serve the folder of
    another version, so a page never mixes scripts of two servers while one is replaced; by that a
    page also notices that its server was (`version.js`), so styles and templates count too.
    """
    paths = [each for each in sorted((_HERE / "static").iterdir()) if each.suffix in _TYPES]
    bodies = {each: each.read_bytes() for each in paths}
    templates = [each.read_bytes() for each in sorted((_HERE / "templates").rglob("*.html"))]
    folder = _version(b"".join((*bodies.values(), *templates)))
    found: dict[str, File] = {}
    for path, body in bodies.items():
        script = path.suffix == ".js"
        kept = f"{folder}/{path.name}" if script else f"{path.name}?v={_version(body)}"
        file = File(body, _TYPES[path.suffix], f"/static/{kept}")
        found[path.name] = file
        if script:
            found[kept] = file
    return found


def _version(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:12]
