"""Where recordings lie and how they are read: a folder a revision, files of compressed JSON.

Everything that looks like a secret in them is a throw-away secret of a rehearsal; none ever
opened anything.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REVISIONS = sorted(path.name for path in HERE.iterdir() if (path / "surface.json.xz").is_file())


def read(path: Path) -> Any:
    """Return what a file holds."""
    return json.loads(lzma.decompress(path.read_bytes()))


def write(path: Path, value: Any) -> None:
    """Write a file; the same value gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
