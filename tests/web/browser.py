"""A browser without a window: calls the whole application in process, with a cookie."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from api_caller import ADMIN, Reply, exchange, scope_of
from fleet_world import World
from fleet_world import world as opened

from labfleet.api import application
from labfleet.api.front import Front
from labfleet.api.streams.ring import Ring
from labfleet.interfaces import store as stores
from labfleet.resources.meta import Metadata
from labfleet.service.core.tokens import Tokens
from labfleet.web import application as pages
from labfleet.web import doors

HOST = "127.0.0.1:8470"
ORIGIN = f"http://{HOST}"


def text(html: str) -> str:
    """Return the text of a page's main part, or of a piece of one, without its marks."""
    main = html.partition("<main")[2].partition("</main")[0]
    return " ".join(re.sub("<[^>]+>", " ", main or html).split())


def visible(html: str) -> str:
    """Return that text without what stands there for screen readers alone."""
    return text(re.sub(r'<span class="vh">[^<]*</span>', "", html))


class Reader(HTMLParser):
    """What a browser makes of a page: its elements, and the text of each table row."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: dict[str, str] = {}
        self._row: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self._row = dict(attrs).get("data-key")

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr":
            self._row = None

    def handle_data(self, data: str) -> None:
        if self._row is not None:
            self.rows[self._row] = self.rows.get(self._row, "") + data + " "

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@dataclass
class Browser:
    """The application, and a token for each role as a cookie."""

    world: World
    app: Front
    tokens: Tokens
    defects: list[BaseException]
    secrets: dict[str, str] = field(default_factory=dict)

    async def token(self, role: str = "admin", owner: str = "") -> str:
        name = f"{role}/{owner}"
        if name not in self.secrets:
            made = await self.tokens.create(ADMIN, role=role, owner=owner or role)
            self.secrets[name] = made.text
        return self.secrets[name]

    async def get(
        self,
        target: str,
        role: str | None = "admin",
        owner: str = "",
        *,
        method: str = "GET",
        cookie: str | None = None,
        scheme: str = "http",
        accept: str = "",
    ) -> Reply:
        sent = {"Host": HOST, **({"Accept": accept} if accept else {})}
        if role is not None and cookie is None:
            cookie = f"labfleet-8470={await self.token(role, owner)}"
        if cookie is not None:
            sent["Cookie"] = cookie
        scope = scope_of(method, target, sent)
        scope["scheme"] = scheme
        return await exchange(self.app, scope, b"")

    async def page(self, target: str, role: str = "admin", owner: str = "") -> Reader:
        reply = await self.get(target, role, owner)
        assert reply.status == 200, reply.raw[:300]
        return Reader(reply.raw.decode())

    async def post(
        self, target: str, fields: dict[str, Any], *, scheme: str = "http", **headers: str
    ) -> Reply:
        sent = {"Host": HOST, "Content-Type": "application/x-www-form-urlencoded"}
        sent |= {key.replace("_", "-"): value for key, value in headers.items()}
        scope = scope_of("POST", target, {key: value for key, value in sent.items() if value})
        scope["scheme"] = scheme
        return await exchange(self.app, scope, urlencode(fields, doseq=True).encode())

    async def seal(self, target: str, role: str = "admin", owner: str = "") -> str:
        """Return the hidden field of the form on a page."""
        page = await self.page(target, role, owner)
        return next(str(each["value"]) for each in page.all("input") if each.get("name") == "form")

    async def send(
        self, target: str, fields: dict[str, str], role: str = "admin", owner: str = ""
    ) -> Reply:
        """Fill in the form of a page and send it, as a person does."""
        seal = await self.seal(target, role, owner)
        return await self.sent(target, {"form": seal, **fields}, role, owner)

    async def sent(
        self, target: str, fields: dict[str, Any], role: str = "admin", owner: str = ""
    ) -> Reply:
        """Send a form as it is, with the cookie of a role."""
        cookie = f"labfleet-8470={await self.token(role, owner)}"
        return await self.post(target, fields, Origin=ORIGIN, Cookie=cookie)

    async def ask(self, target: str, body: Any) -> Reply:
        """Call the API as a program does."""
        sent = {"Authorization": f"Bearer {await self.token()}", "Content-Type": "application/json"}
        return await exchange(self.app, scope_of("POST", target, sent), json.dumps(body).encode())

    async def many(self, kind: Any, count: int, spec: Any, status: Any = None) -> None:
        """Write many objects at once, as a controller would."""
        cause = stores.Cause("test", self.world.clock.now(), reason="Made")
        objects = [
            kind(
                metadata=Metadata(
                    name=f"x{number:04d}",
                    uid=self.world.ids.uid(),
                    creation_timestamp=self.world.clock.now(),
                ),
                spec=spec,
                **({} if status is None else {"status": status}),
            )
            for number in range(count)
        ]
        for start in range(0, count, stores.COMMIT_LIMIT):
            await self.world.services.objects.save(
                *objects[start : start + stores.COMMIT_LIMIT], cause=cause
            )


def plain(reply: Reply) -> str:
    """Return the reply's text."""
    return reply.raw.decode()


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """Open an installation with API and pages."""
    async with opened() as world:
        ring = Ring(world.store)
        world.follow(ring)
        tokens = Tokens(world.store, world.clock, world.ids)
        defects: list[BaseException] = []
        app = application.build(
            world.services,
            tokens,
            ring,
            readiness=dict,
            metrics=lambda: (b"", "text/plain"),
            web=pages.build(world.services, tokens),
            credentials=doors.credentials,
            on_defect=lambda _, error: defects.append(error),
        )
        frames = asyncio.get_running_loop().create_task(app.events.latest.run())
        world.listeners.append(frames)
        while not ring.ready:
            await asyncio.sleep(0)
        yield Browser(world, app, tokens, defects)
