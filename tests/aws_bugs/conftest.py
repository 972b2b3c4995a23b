"""The controllers' harness is shared: these scenarios differ only in the cloud beneath it."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "controllers"))
sys.path.insert(0, str(HERE))
