"""What the papers say is tried with the tools of other folders."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in ("service", "api"):
    sys.path.insert(0, str(HERE.parent / folder))
