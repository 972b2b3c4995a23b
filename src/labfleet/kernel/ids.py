"""Sources of new identities, passed as an argument, and functions on names.

Names follow the DNS-label rule because they end up in EC2 tags, lab titles and file names.
"""

from __future__ import annotations

import hashlib
import re
from typing import Protocol

NAME_LIMIT = 63
SUFFIX_LIMIT = 12
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


class IdSource(Protocol):
    """Where new identities come from."""

    def uid(self) -> str:
        """Return a fresh UUID in lower-case text."""
        ...

    def token(self) -> str:
        """Return a fresh unguessable secret, 43 URL-safe characters (256 bits)."""
        ...


def is_name(text: str) -> bool:
    """Tell whether text is a legal object name: 1-63 of a-z, 0-9 and inner hyphens."""
    return len(text) <= NAME_LIMIT and _NAME.fullmatch(text) is not None


def slug(text: str, *, limit: int = NAME_LIMIT) -> str:
    """Return a legal name for any text; legal names stay as they are.

    Where the rule would lose something (case, Unicode, punctuation, length), a 40-bit hash
    suffix is added, so `a-b/c` and `a/b-c` stay two names (facts/fleet-bugs.md#t26). The suffix
    does not resist an attacker: callers that need uniqueness check it. `limit` is 12 or more.
    """
    if limit < SUFFIX_LIMIT:
        raise ValueError(f"no room for a hash in {limit} characters")
    if is_name(text) and len(text) <= limit:
        return text
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    suffix = hashlib.sha256(_bytes(text)).hexdigest()[:10]
    head = plain[: limit - 11].strip("-")
    return f"{head}-{suffix}" if head else f"x-{suffix}"


def digest(*parts: str) -> str:
    """Return a stable 32-character hex digest; it also depends on where one part ends."""
    joined = hashlib.sha256()
    for part in parts:
        data = _bytes(part)
        # The length first, so that no character inside a part can look like a separator.
        joined.update(b"%d:" % len(data))
        joined.update(data)
    return joined.hexdigest()[:32]


def _bytes(text: str) -> bytes:
    # Half a surrogate pair has no UTF-8, and still is a text that somebody may send.
    return text.encode("utf-8", "surrogatepass")
