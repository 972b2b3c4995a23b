"""Makes the worlds of the lifecycles importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
