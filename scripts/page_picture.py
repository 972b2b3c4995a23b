"""Makes docs/images/*.png: the main pages of a running demo, as Chromium shows them.

    .venv/bin/python scripts/page_picture.py

It runs a demo of its own for about two minutes and needs Debian's package chromium. The words of
the first page (navigation, headings) go into its file too, where tests/web/test_page_picture.py
looks whether the picture shows the page of today.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "page.png"
WORD = b"labfleet-page"
PORT = 18470
WIDE, PHONE = (1440, 1000), (390, 844)
# File, address and size; an address that ends with a selector is that of its first link.
OTHERS = (
    ("fleet.png", "/fleet", WIDE),
    ("worker.png", "/fleet a[href^='/workers/'] ?tab=monitoring", WIDE),
    ("calendar.png", "/calendar", WIDE),
    ("topology.png", "/definitions a[href^='/definitions/'] ?tab=topology", WIDE),
    ("simulations.png", "/simulations", WIDE),
    ("my-labs.png", "/my-labs", PHONE),
)
SECONDS = 240.0
SIGNATURE = b"\x89PNG\r\n\x1a\n"
# What stands around the rows, without counts; those and the rows differ from run to run.
WORDS = """({
  navigation: [...document.querySelectorAll('nav a')].map((each) => each.textContent.trim()),
  headings: [...document.querySelectorAll('main h2')]
    .map((each) => (each.querySelector('a') ?? each).firstChild.textContent.trim()),
})"""
LIVE = "document.getElementById('mark')?.dataset.state === 'live'"
BUSY = """Number(document.querySelector('[data-vital="Session/running"] b')?.textContent) >= 12
  && document.getElementById('mark')?.dataset.state === 'live'"""


def with_words(png: bytes, words: Any) -> bytes:
    """Return a picture with words in a text chunk behind its header."""
    text = b"tEXt" + WORD + b"\0" + json.dumps(words).encode("ascii")
    chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
    head = len(SIGNATURE) + 8 + struct.unpack(">I", png[8:12])[0] + 4
    return png[:head] + chunk + png[head:]


def words_of(png: bytes) -> Any:
    """Return the words that stand in a picture; None when it has none."""
    at = len(SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        if kind == b"tEXt" and body.startswith(WORD + b"\0"):
            return json.loads(body[len(WORD) + 1 :])
        at += 12 + length
    return None


async def pictures(folder: Path) -> dict[str, bytes]:
    """Return the pictures of the demo whose token lies in the folder; the first has its words."""
    sys.path.insert(0, str(ROOT / "tests" / "web"))
    from chromium import chromium as started

    token = folder / "admin.token"
    async with asyncio.timeout(SECONDS):
        while not token.exists():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.5)
    async with started(folder / "profile") as browser:
        tab = await browser.open()
        await _sized(tab, WIDE)
        # New rows are tinted for a moment.
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        await tab.call("Emulation.setEmulatedMedia", features=[still])
        async with asyncio.timeout(SECONDS):
            # The token is there before the server answers.
            while not await _form(tab):  # noqa: ASYNC110 - another process begins to serve
                await asyncio.sleep(0.5)
        text = json.dumps(token.read_text(encoding="utf-8").strip())
        await tab.run(
            f"document.getElementById('token').value = {text};"
            "document.querySelector('form.card button').click()"
        )
        async with asyncio.timeout(SECONDS):
            while not await tab.run(BUSY):  # noqa: ASYNC110 - it is the page that changes
                await asyncio.sleep(0.5)
        found = await tab.run(WORDS)
        made = {PICTURE.name: with_words(await tab.picture(folder / PICTURE.name), found)}
        for name, address, size in OTHERS:
            await _sized(tab, size)
            await _opened(tab, address)
            made[name] = await tab.picture(folder / name)
        return made


async def _sized(tab: Any, size: tuple[int, int]) -> None:
    await tab.call(
        "Emulation.setDeviceMetricsOverride",
        width=size[0], height=size[1], deviceScaleFactor=1, mobile=size == PHONE,
    )  # fmt: skip


async def _opened(tab: Any, address: str) -> None:
    """Open a page, or the one that the first link of a selector on it leads to, and let it settle."""
    path, _, selector = address.partition(" ")
    await tab.go(f"http://127.0.0.1:{PORT}{path}")
    if selector:
        selector, _, query = selector.rpartition(" ")
        there = json.dumps(f"main {selector}")
        href = await tab.run(f"new URL(document.querySelector({there}).href).pathname")
        await tab.go(f"http://127.0.0.1:{PORT}{href}{query}")
    async with asyncio.timeout(SECONDS):
        while not await tab.run(LIVE):  # noqa: ASYNC110 - it is the page that changes
            await asyncio.sleep(0.5)


async def _form(tab: Any) -> bool:
    """Open the page to sign in, and tell whether its form is there."""
    await tab.go(f"http://127.0.0.1:{PORT}/login")
    return bool(await tab.run("document.getElementById('token') !== null"))


async def main() -> None:
    """Run a demo, take the pictures, end the demo."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        demo = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "labfleet", "demo", "--data", str(folder), "--port", str(PORT),
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            for file, png in (await pictures(folder)).items():
                PICTURE.with_name(file).write_bytes(png)
        finally:
            os.kill(demo.pid, signal.SIGINT)
            await demo.wait()


if __name__ == "__main__":
    asyncio.run(main())
