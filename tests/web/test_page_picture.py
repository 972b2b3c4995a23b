"""The picture of the page in the README shows the page of today."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from browser import Browser, plain

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import page_picture


def texts(html: str, *, inside: str, tag: str) -> list[str]:
    """Return the texts of the elements within others, without their marks."""
    blocks = re.findall(rf"(?s)<{inside}\b.*?</{inside}>", html)
    found = re.findall(rf"(?s)<{tag}\b[^>]*>(.*?)</{tag}>", "".join(blocks))
    return [re.sub(r"<[^>]*>", "", each).strip() for each in found]


@pytest.mark.asyncio
async def test_the_picture_has_the_words_of_the_page(browser: Browser) -> None:
    """Navigation and headings in it are those of today; else run scripts/page_picture.py again."""
    found = page_picture.words_of(page_picture.PICTURE.read_bytes())
    await browser.world.template()
    await browser.world.make("Pool", "exam", {"template": "metal"})
    html = plain(await browser.get("/"))
    assert found is not None
    assert found["navigation"] == texts(html, inside="nav", tag="a")
    (main,) = re.findall(r"(?s)<main\b.*?</main>", html)
    today = re.findall(r"<h2\b[^>]*>\s*(?:<a\b[^>]*>)?([^<]*)", main)
    assert found["headings"] == [each.strip() for each in today]


def test_words_are_read_back_from_a_picture() -> None:
    """What was written into a picture is found in it, and a picture without words has none."""
    plain_picture = page_picture.SIGNATURE + bytes.fromhex("0000000049454e44ae426082") * 2
    assert page_picture.words_of(plain_picture) is None
    made = page_picture.with_words(plain_picture, {"a": ["b"]})
    assert page_picture.words_of(made) == {"a": ["b"]}
