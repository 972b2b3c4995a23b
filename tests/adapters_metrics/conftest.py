"""Puts this folder, stories in virtual time and servers on loopback on the path."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "controllers", HERE.parent / "adapters_cml"):
    sys.path.insert(0, str(folder))
