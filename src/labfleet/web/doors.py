"""The rules of signing in by browser: the cookie, the origin of a POST, where to go next.

Pure. The cookie holds the token itself, so revoking the token ends the session. It is named
after the port, because browsers give one host's cookies to all its ports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

TOKEN_LIMIT = 200
NEXT_LIMIT = 512
SAID_SECONDS = 60
"""For so long a browser keeps what is said after an act, should no page be shown meanwhile."""
THEMES = ("auto", "light", "dark")
_NEVER_A_TOKEN = frozenset(' \t\r\n";,\\')


def header(scope: Mapping[str, Any], name: bytes) -> str:
    """Return a header's value, "" when it was not sent."""
    for key, value in scope.get("headers", ()):
        if key.lower() == name:
            return bytes(value).decode("latin-1")
    return ""


def secure(scope: Mapping[str, Any]) -> bool:
    """Tell whether the browser speaks TLS with us, or with a proxy that the server trusts."""
    return bool(scope.get("scheme") == "https")


def cookie_name(scope: Mapping[str, Any]) -> str:
    """Return the name of this server's cookie."""
    port = urlsplit("//" + header(scope, b"host")).netloc.rpartition(":")[2]
    name = f"labfleet-{port}" if port.isdecimal() else "labfleet"
    return f"__Host-{name}" if secure(scope) else name


def cookies(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the request's cookies; of two with one name the first counts."""
    found: dict[str, str] = {}
    for key, value in scope.get("headers", ()):
        if key.lower() != b"cookie":
            continue
        for pair in bytes(value).decode("latin-1").split(";"):
            name, _, text = pair.strip().partition("=")
            found.setdefault(name, text)
    return found


def token(scope: Mapping[str, Any]) -> str | None:
    """Return the token in the cookie, or None."""
    text = cookies(scope).get(cookie_name(scope), "")
    return text if plausible(text) else None


def plausible(text: str) -> bool:
    """Tell whether a text can be a token at all, and can stand in a cookie."""
    return (
        0 < len(text) <= TOKEN_LIMIT
        and text.isascii()
        and text.isprintable()
        and not _NEVER_A_TOKEN & set(text)
    )


def credentials(scope: Mapping[str, Any]) -> str | None:
    """Return the cookie's token for the API's safe methods (`api.front.Credentials`).

    Pages read the cookie themselves: a stale one leads to the login form, not to an error.
    Another site's page cannot use it: the cookie is SameSite=Strict.
    """
    return token(scope) if scope["path"].startswith("/api/") else None


def set_cookie(scope: Mapping[str, Any], text: str) -> tuple[bytes, bytes]:
    """Return the header that keeps a token until the browser closes."""
    return _cookie(scope, text, "")


def drop_cookie(scope: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the header that forgets the token."""
    return _cookie(scope, "", "; Max-Age=0")


def say(scope: Mapping[str, Any], text: str) -> tuple[bytes, bytes]:
    """Return the header that keeps what is said after an act for the next page; "" forgets it."""
    tls = "; Secure" if secure(scope) else ""
    age = SAID_SECONDS if text else 0
    made = f"{_said_name(scope)}={text}; Path=/; HttpOnly; SameSite=Strict{tls}; Max-Age={age}"
    return b"set-cookie", made.encode("latin-1")


def said(scope: Mapping[str, Any]) -> str:
    """Return what is kept to be said; nothing to a script, which shows only a part of a page."""
    if header(scope, b"sec-fetch-mode") not in {"", "navigate"} or scope["method"] != "GET":
        return ""
    return cookies(scope).get(_said_name(scope), "")


def _said_name(scope: Mapping[str, Any]) -> str:
    return f"{cookie_name(scope)}-said"


def same_site(scope: Mapping[str, Any]) -> bool:
    """Tell whether a POST comes from a page of ours.

    Browsers send Origin with every POST; without it Sec-Fetch-Site must say so. Only host and
    port are compared, because a TLS proxy in front changes the scheme.
    """
    site = header(scope, b"sec-fetch-site")
    if site not in {"", "same-origin", "none"}:
        return False
    origin = header(scope, b"origin")
    if not origin:
        return site in {"same-origin", "none"}
    host = header(scope, b"host").lower()
    try:
        found = urlsplit(origin)
    except ValueError:
        return False
    return found.scheme in {"http", "https"} and host != "" and found.netloc.lower() == host


def safe_next(wanted: str) -> str:
    """Return a path of this server to go on to; anything else becomes `/`."""
    fine = (
        wanted.startswith("/")
        and not wanted.startswith(("//", "/\\"))
        and len(wanted) <= NEXT_LIMIT
        and wanted.isascii()
        and wanted.isprintable()
        and "\\" not in wanted
        and not wanted.startswith(("/login", "/logout"))
    )
    return wanted if fine else "/"


def theme(scope: Mapping[str, Any]) -> str:
    """Return the theme that this browser chose."""
    found = cookies(scope).get("labfleet-theme", "")
    return found if found in THEMES else "auto"


def _cookie(scope: Mapping[str, Any], text: str, extra: str) -> tuple[bytes, bytes]:
    tls = "; Secure" if secure(scope) else ""
    made = f"{cookie_name(scope)}={text}; Path=/; HttpOnly; SameSite=Strict{tls}{extra}"
    return b"set-cookie", made.encode("latin-1")
