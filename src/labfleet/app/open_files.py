"""How many files and sockets this process may have open: as many as the system lets it.

The usual soft limit of 1,024 is for programs that use select(); it would be reached by clients within
their limits, and then neither probes nor the store's own files could be opened.
"""

from __future__ import annotations

import contextlib
import resource

WANTED = 65_536
KEPT = 256
"""Files that connections of clients never take: the store's, CML servers, EC2, webhooks, logs."""
LEAST = 64


def raise_limit() -> int:
    """Raise the soft limit to what is wanted or allowed; return it as it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        with contextlib.suppress(OSError, ValueError):  # a sandbox may forbid it: then as before
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return WANTED if soft == resource.RLIM_INFINITY else soft


def for_clients(limit: int) -> int:
    """Return how many connections clients may have of so many open files."""
    return max(LEAST, min(limit, WANTED) - KEPT)
