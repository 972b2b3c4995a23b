"""Makes docs/images/page.png: the first page of a running demo, as Chromium shows it.

    .venv/bin/python scripts/page_picture.py

It runs a demo of its own for about two minutes and needs Debian's package chromium. The words of
the page (navigation, headings) go into the file too, where tests/web/test_page_picture.py looks
whether the picture shows the page of today.
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
SECONDS = 240.0
SIGNATURE = b"\x89PNG\r\n\x1a\n"
# What stands around the rows; the demo's rows differ from run to run.
WORDS = """({
  navigation: [...document.querySelectorAll('nav a')].map((each) => each.textContent.trim()),
  headings: [...document.querySelectorAll('thead th')].map((each) => each.textContent.trim()),
})"""
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


async def picture(folder: Path) -> bytes:
    """Return the picture of the demo whose token lies in the folder, with the page's words."""
    sys.path.insert(0, str(ROOT / "tests" / "web"))
    from chromium import chromium as started

    token = folder / "admin.token"
    async with asyncio.timeout(SECONDS):
        while not token.exists():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.5)
    async with started(folder / "profile") as browser:
        tab = await browser.open()
        await tab.call(
            "Emulation.setDeviceMetricsOverride",
            width=1440, height=1000, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
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
        return with_words(await tab.picture(folder / "page.png"), found)


async def _form(tab: Any) -> bool:
    """Open the page to sign in, and tell whether its form is there."""
    await tab.go(f"http://127.0.0.1:{PORT}/login")
    return bool(await tab.run("document.getElementById('token') !== null"))


async def main() -> None:
    """Run a demo, take the picture, end the demo."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        demo = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "labfleet", "demo", "--data", str(folder), "--port", str(PORT),
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            PICTURE.write_bytes(await picture(folder))
        finally:
            os.kill(demo.pid, signal.SIGINT)
            await demo.wait()


if __name__ == "__main__":
    asyncio.run(main())
