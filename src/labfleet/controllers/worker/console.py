"""Prepares console text for storing: its end, printable, apparent secrets masked. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

KEPT_BYTES = 4096
NOTHING = "(the console shows nothing)"
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)", re.DOTALL
)
_NAMED = re.compile(
    r"(?i)((?:pass(?:word|wd|phrase)?|secret|token|api[-_ ]?key|access[-_ ]?key)[\w-]*"
    r"(?:\"|')?\s*(?:[=:]|\bis\b)\s*)(\S+)"
)
_ACCESS_KEY = re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")
SHORTEST_SECRET = 4


def readable(text: str, secrets: Iterable[str]) -> str:
    """Return what is kept of a console: at most `KEPT_BYTES` of UTF-8, from a line's start.

    Masked are the secrets given, private keys, AWS key ids, and values behind words such as
    password or token. Other secrets are not recognised.
    """
    plain = _ESCAPE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    plain = "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in plain)
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET:
            plain = plain.replace(secret, "***")
    plain = _KEY_BLOCK.sub("*** private key ***", plain)
    plain = _ACCESS_KEY.sub("***", _NAMED.sub(r"\1***", plain))
    data = plain.strip().encode()
    if len(data) > KEPT_BYTES:
        data = data[-KEPT_BYTES:]
        _, _, whole = data.partition(b"\n")
        data = whole or data
    return data.decode(errors="ignore").strip() or NOTHING
