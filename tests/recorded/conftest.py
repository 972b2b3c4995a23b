"""Recordings of earlier revisions are opened with today's code, and with other rooms' tools."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for room in ("service", "api", "stores", "recorded"):
    sys.path.insert(0, str(HERE.parent / room))
pytest.register_assert_rewrite("second_life", "recorded_worlds")
