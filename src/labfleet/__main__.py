"""`python -m labfleet`."""

from __future__ import annotations

import sys

from labfleet import entry

sys.exit(entry.main())
