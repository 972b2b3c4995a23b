"""Makes the certificates of `tests/adapters_cml` importable."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "adapters_cml"))
