"""Which server, which token, which namespace: option, then environment, then context, then default.

A context that `--context` names is an option: what it says stands above the environment. A token
belongs to an origin (scheme, host, port) and is sent nowhere else: the one of a context to that
context's address, the one of a variable to LABFLEET_URL. Without LABFLEET_URL a variable's token
goes to the default address, or to the one that `--url` names, and never to a context's.

Contexts live in one file, `$XDG_CONFIG_HOME/labfleet/config.json` or `LABFLEET_CONFIG`, mode
0600. A token never appears in a message, a repr or a listing.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from labfleet.cli.kit import exits
from labfleet.cli.kit.environment import CommandEnvironment

DEFAULT_URL = "http://127.0.0.1:8470"
_FILE_LIMIT = 1 << 20
_TOKEN_LIMIT = 4096


@dataclass(frozen=True)
class Settings:
    """What one command uses; `source` says where the URL came from, for messages.

    `usual` is the address without any option or variable, `standing` says that LABFLEET_URL alone
    replaces it, as an exported variable does for a whole shell; `withheld` names the credentials
    that were at hand and belong elsewhere.
    """

    url: str
    token: str | None = field(repr=False)
    namespace: str
    output: str
    ca_file: str | None
    context: str | None
    source: str
    usual: str = ""
    standing: bool = False
    withheld: str = ""

    @property
    def elsewhere(self) -> bool:
        """Tell whether an option or a variable leads to another server than the default one."""
        return bool(self.usual) and self.url != self.usual


def config_path(environment: CommandEnvironment) -> Path:
    """Return where the contexts are kept."""
    if named := environment.env.get("LABFLEET_CONFIG"):
        return Path(named)
    base = environment.env.get("XDG_CONFIG_HOME")
    return (Path(base) if base else environment.home / ".config") / "labfleet" / "config.json"


def read_config(environment: CommandEnvironment) -> dict[str, Any]:
    """Return {"current": name or None, "contexts": {name: {...}}}; empty when there is no file."""
    path = config_path(environment)
    try:
        text = _read(path, _FILE_LIMIT)
    except FileNotFoundError:
        return {"current": None, "contexts": {}}
    except OSError as error:
        raise exits.usage(f"cannot read {path}: {error.strerror}") from None
    try:
        loaded = json.loads(text)
        contexts = {name: dict(entry) for name, entry in (loaded.get("contexts") or {}).items()}
    except (ValueError, AttributeError, TypeError):
        hint = "Correct it, or remove it and use labfleet context set."
        raise exits.usage(f"{path} is not a Labfleet configuration (JSON)", hint) from None
    return {"current": loaded.get("current"), "contexts": contexts}


def write_config(environment: CommandEnvironment, config: dict[str, Any]) -> Path:
    """Replace the file in one step, readable by its owner only."""
    path = config_path(environment)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        write_private(beside, json.dumps(config, indent=2, sort_keys=True) + "\n")
        beside.replace(path)
    except OSError as error:
        raise exits.usage(f"cannot write {path}: {error.strerror}") from None
    return path


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600, whatever the umask and whatever stood there."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def resolve(environment: CommandEnvironment, flags: dict[str, Any]) -> Settings:
    """Return the settings of one command from its flags (absent or None: not given)."""
    env = environment.env
    config = read_config(environment)
    asked = flags.get("context")
    name = asked or env.get("LABFLEET_CONTEXT") or config["current"]
    context = _context(config, name)

    def chosen(key: str, default: str = "") -> tuple[str, str]:
        option = (flags.get(_FLAGS[key]), f"--{_FLAGS[key]}")
        kept = (context.get(key), f"context {name}")
        variable = (env.get(_VARIABLES[key]), _VARIABLES[key])
        nearest = (kept, variable) if asked else (variable, kept)
        return _first(option, *nearest, (default, "the default"))

    url, source = chosen("url", DEFAULT_URL)
    if asked and source == _VARIABLES["url"]:
        # A context without an address means the default one, whatever the environment says.
        url, source = DEFAULT_URL, "the default"
    usual = str(_context(config, config["current"], known=False).get("url") or DEFAULT_URL)
    credential = _credential(flags, env, context, url, named=name)
    return Settings(
        url=url.rstrip("/"),
        token=credential.token,
        namespace=chosen("namespace", "default")[0],
        output=chosen("output", "table")[0],
        ca_file=chosen("caFile")[0] or None,
        context=name,
        source=source,
        usual=usual.rstrip("/"),
        standing=source == _VARIABLES["url"] and config["current"] is None,
        withheld=credential.withheld,
    )


_FLAGS = {"url": "url", "namespace": "namespace", "output": "output", "caFile": "ca_file"}
_VARIABLES = {
    "url": "LABFLEET_URL", "namespace": "LABFLEET_NAMESPACE", "output": "LABFLEET_OUTPUT",
    "caFile": "LABFLEET_CA_FILE",
}  # fmt: skip


def origin(url: str) -> tuple[str, str, int | None] | None:
    """Return scheme, host and port of an address; None for what is no address."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None


def _context(config: dict[str, Any], name: str | None, *, known: bool = True) -> dict[str, Any]:
    """Return a context's entry; Failure for an unknown name unless that is tolerated."""
    if name is None:
        return {}
    found: dict[str, Any] | None = config["contexts"].get(name)
    if found is None and known:
        others = ", ".join(sorted(config["contexts"])) or "none"
        raise exits.usage(f"there is no context {name!r}; known contexts: {others}")
    return found or {}


def _first(*choices: tuple[Any, str]) -> tuple[str, str]:
    return next(((str(value), source) for value, source in choices if value), ("", ""))


class _Credential(NamedTuple):
    """The token to send, and what was at hand and is not sent."""

    token: str | None
    withheld: str = ""


def _credential(
    flags: dict[str, Any], env: Any, context: dict[str, Any], url: str, *, named: str | None
) -> _Credential:
    """Return the token that belongs to the address; the option's goes wherever it is told to go."""
    if flags.get("token_file"):
        return _Credential(_token_from(flags["token_file"]))
    wanted = origin(url)
    withheld = []
    variable = next((v for v in ("LABFLEET_TOKEN_FILE", "LABFLEET_TOKEN") if env.get(v)), None)
    own = bool(context.get("tokenFile") or context.get("token"))
    home = str(context.get("url") or DEFAULT_URL)
    if flags.get("context") and own and origin(home) == wanted:
        return _Credential(_of_context(context))
    if variable is not None:
        place = _home_of_variables(flags, env, context, named)
        if place is not None and origin(place) == wanted:
            text = env[variable]
            found = _token_from(text) if variable.endswith("_FILE") else _clean(text, variable)
            return _Credential(found)
        whose = f"that of {place}" if place else "no context's: LABFLEET_URL says whose it is"
        withheld.append(f"{variable} ({whose})")
    if own:
        if origin(home) == wanted:
            return _Credential(_of_context(context))
        withheld.append(f"the token of context {named} (that of {home})")
    return _Credential(None, " and ".join(withheld))


def _home_of_variables(
    flags: dict[str, Any], env: Any, context: dict[str, Any], named: str | None
) -> str | None:
    """Return the address whose token the variables hold; None when they do not say."""
    if env.get("LABFLEET_URL"):
        return str(env["LABFLEET_URL"])
    if flags.get("url"):
        return str(flags["url"])
    return None if named is not None and context.get("url") else DEFAULT_URL


def _of_context(context: dict[str, Any]) -> str:
    if context.get("tokenFile"):
        return _token_from(context["tokenFile"])
    return _clean(context["token"], "the context's token")


def _token_from(path: str) -> str:
    try:
        return _clean(_read(Path(path).expanduser(), _TOKEN_LIMIT), path)
    except OSError as error:
        raise exits.usage(f"cannot read the token file {path}: {error.strerror}") from None


def _clean(text: str, where: str) -> str:
    token = text.strip()
    if not token or not token.isascii() or any(ord(each) <= 32 for each in token):
        raise exits.usage(f"{where} holds no token: one line of printable text is expected")
    return token


def _read(path: Path, limit: int) -> str:
    with path.open("rb") as file:
        raw = file.read(limit + 1)
    if len(raw) > limit:
        raise exits.usage(f"{path} is larger than {limit} bytes")
    return raw.decode("utf-8", "replace")
