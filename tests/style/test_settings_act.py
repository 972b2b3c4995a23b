"""Every setting of the fleet is read by something that acts: none is only for show."""

from __future__ import annotations

import re
from pathlib import Path

from labfleet.resources import fleet_settings

SOURCE = Path(__file__).resolve().parents[2] / "src" / "labfleet"
ROOMS = ("controllers", "decisions", "service", "adapters", "api")


def test_every_setting_is_read_by_what_acts() -> None:
    """Each field's name is read as an attribute in a room that decides or acts."""
    texts = [
        path.read_text(encoding="utf-8") for room in ROOMS for path in (SOURCE / room).rglob("*.py")
    ]
    text = "\n".join(texts)
    unread = [
        path
        for path, _, field in fleet_settings.settings_fields()
        if not re.search(rf"\.{field.name}\b|\"{field.name}\"", text)
        and not _by_stem(field.name, text)
    ]
    assert not unread, unread


def _by_stem(name: str, text: str) -> bool:
    """Tell whether the field is read by a name put together, as `f"{word}_percent"`."""
    end = name.removeprefix(name.split("_", 1)[0])
    return bool(end) and re.search(rf"\}}{end}\b", text) is not None
