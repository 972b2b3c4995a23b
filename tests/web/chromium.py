"""A small client of Chromium's DevTools protocol over its pipe: pages, scripts, screenshots.

The pipe (file descriptors 3 and 4, messages that end with a zero byte) needs no port and no
library.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
    "--window-size=1440,1000",
    "about:blank",
)
SECONDS = 30.0


class Navigated(Exception):
    """A page went to another one while it was asked: on a slow machine that falls anywhere."""


class Chromium:
    """One browser; `open` gives a tab."""

    def __init__(self, reader: asyncio.StreamReader, out: int) -> None:
        self._reader = reader
        self._out = out
        self._count = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.problems: list[str] = []

    async def read(self) -> None:
        """Hand each message to whoever waits for it, until the browser ends."""
        while True:
            try:
                raw = await self._reader.readuntil(b"\0")
            except (asyncio.IncompleteReadError, asyncio.CancelledError):
                return
            message = json.loads(raw[:-1])
            waiting = self._waiting.pop(message.get("id", 0), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
            self._note(message)

    async def call(self, method: str, session: str = "", **params: Any) -> Any:
        """Call one method and return its result."""
        self._count += 1
        number = self._count
        self._waiting[number] = asyncio.get_running_loop().create_future()
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        async with asyncio.timeout(SECONDS):
            answer = await self._waiting[number]
        if "navigated" in answer.get("error", {}).get("message", ""):
            raise Navigated(f"{method}: the page was left before it answered")
        assert "error" not in answer, answer
        return answer["result"]

    async def open(self, url: str = "about:blank") -> Tab:
        """Open a tab in front of the others."""
        target = (await self.call("Target.createTarget", url=url))["targetId"]
        attached = await self.call("Target.attachToTarget", targetId=target, flatten=True)
        tab = Tab(self, attached["sessionId"])
        for name in ("Page.enable", "Runtime.enable", "Log.enable"):
            await tab.call(name)
        return tab

    def _note(self, message: dict[str, Any]) -> None:
        """Keep what the page's console calls an error: exceptions, refusals of the policy."""
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"])[:500])
        if message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(params["entry"]["text"][:500])


class Tab:
    """One page."""

    def __init__(self, chromium: Chromium, session: str) -> None:
        self._chromium = chromium
        self._session = session

    async def call(self, method: str, **params: Any) -> Any:
        return await self._chromium.call(method, self._session, **params)

    async def go(self, url: str) -> None:
        """Load a page and wait until its script has run."""
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    async def run(self, script: str) -> Any:
        """Return what a script of the page gives."""
        done = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until a script of the page gives something true; a page that follows is asked too."""
        try:
            async with asyncio.timeout(SECONDS):
                while not await self._holds(script):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            page = await self.run("document.querySelector('main').innerText.slice(0, 1500)")
            pytest.fail(f"never true: {script}\n{self._chromium.problems}\n{page}")

    async def _holds(self, script: str) -> bool:
        """Tell whether a script gives something true; not of a page that was just left."""
        try:
            return bool(await self.run(script))
        except Navigated:
            return False

    async def picture(self, path: Path, *, whole: bool = False) -> bytes:
        """Take a screenshot."""
        done = await self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        raw = base64.b64decode(done["data"])
        path.write_bytes(raw)
        return raw


@asynccontextmanager
async def chromium(profile: Path) -> AsyncIterator[Chromium]:
    """Run a browser with an empty profile."""
    program = shutil.which("chromium")
    assert program is not None, "install Debian's package chromium"
    to_it, ours_out = os.pipe()
    ours_in, from_it = os.pipe()
    # dup2 clears close-on-exec; the shell puts the two ends where Chromium looks for them.
    process = await asyncio.create_subprocess_exec(
        "/bin/bash", "-c",
        f'exec "$0" "$@" 3<&{to_it} 4>&{from_it} {to_it}<&- {from_it}>&-',
        program, f"--user-data-dir={profile}", *FLAGS,
        pass_fds=(to_it, from_it),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    os.close(to_it)
    os.close(from_it)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 * 2**20)
    source = os.fdopen(ours_in, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), source
    )
    made = Chromium(reader, ours_out)
    reading = loop.create_task(made.read())
    try:
        yield made
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(SECONDS):
            await process.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        transport.close()
        os.close(ours_out)
