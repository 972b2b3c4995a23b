"""Puts this folder on the path, so that tests find the world they play in."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
