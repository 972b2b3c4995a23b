"""Login sessions: HS256 JSON web tokens with iss, iat, exp and sub, and their revocation.

Written here because it is 40 lines; the secret is an argument.
"""

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass, field

ISSUER = "com.cisco.virl"
SESSIONS_KEPT = 10_000


def _pack(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unpack(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _sign(secret: bytes, text: str) -> str:
    return _pack(hmac.new(secret, text.encode(), hashlib.sha256).digest())


@dataclass(slots=True)
class Sessions:
    """The live sessions of one server: session id -> (user id, expiry)."""

    secret: bytes = field(repr=False)
    lifetime: int = 86_400
    live: dict[str, tuple[str, float]] = field(default_factory=dict, repr=False)

    def issue(self, user_id: str, session_id: str, now: float) -> str:
        """Return a new token; the oldest session is forgotten when there are too many."""
        head = _pack(b'{"alg":"HS256","typ":"JWT"}')
        start = int(now)
        claims = {
            "iss": ISSUER,
            "iat": start,
            "exp": start + self.lifetime,
            "sub": user_id,
            "jti": session_id,
        }
        text = f"{head}.{_pack(json.dumps(claims, separators=(',', ':')).encode())}"
        if len(self.live) >= SESSIONS_KEPT:
            del self.live[next(iter(self.live))]
        self.live[session_id] = (user_id, start + self.lifetime)
        return f"{text}.{_sign(self.secret, text)}"

    def check(self, token: str, now: float) -> tuple[str, str] | None:
        """Return (user id, session id) of a good token, None for any other."""
        parts = token.split(".")
        if len(parts) != 3 or not token.isascii():
            return None
        text = f"{parts[0]}.{parts[1]}"
        if not hmac.compare_digest(_sign(self.secret, text), parts[2]):
            return None
        try:
            claims = json.loads(_unpack(parts[1]))
        except (ValueError, binascii.Error):
            return None
        session_id = str(claims.get("jti"))
        known = self.live.get(session_id)
        if known is None or now >= known[1]:
            self.live.pop(session_id, None)
            return None
        return known[0], session_id

    def revoke(self, session_id: str) -> None:
        """End one session."""
        self.live.pop(session_id, None)

    def revoke_user(self, user_id: str) -> None:
        """End every session of a user."""
        self.live = {key: value for key, value in self.live.items() if value[0] != user_id}
