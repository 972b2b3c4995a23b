"""Which server, which token, which namespace: flag, then environment, then context, then default.

Contexts live in one file, `$XDG_CONFIG_HOME/labfleet/config.json` or `LABFLEET_CONFIG`, mode
0600. A token never appears in a message, a repr or a listing.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labfleet.cli.kit import exits
from labfleet.cli.kit.environment import CommandEnvironment

DEFAULT_URL = "http://127.0.0.1:8470"
_FILE_LIMIT = 1 << 20
_TOKEN_LIMIT = 4096


@dataclass(frozen=True)
class Settings:
    """What one command uses; `source` says where the URL came from, for messages."""

    url: str
    token: str | None = field(repr=False)
    namespace: str
    output: str
    ca_file: str | None
    context: str | None
    source: str


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
    name = flags.get("context") or env.get("LABFLEET_CONTEXT") or config["current"]
    context: dict[str, Any] = {}
    if name is not None:
        if name not in config["contexts"]:
            known = ", ".join(sorted(config["contexts"])) or "none"
            raise exits.usage(f"there is no context {name!r}; known contexts: {known}")
        context = config["contexts"][name]
    url, source = _first(
        (flags.get("url"), "--url"),
        (env.get("LABFLEET_URL"), "LABFLEET_URL"),
        (context.get("url"), f"context {name}"),
        (DEFAULT_URL, "the default"),
    )
    return Settings(
        url=url.rstrip("/"),
        token=_token(flags, env, context),
        namespace=_first(
            (flags.get("namespace"), ""), (env.get("LABFLEET_NAMESPACE"), ""),
            (context.get("namespace"), ""), ("default", ""),
        )[0],
        output=_first(
            (flags.get("output"), ""), (env.get("LABFLEET_OUTPUT"), ""),
            (context.get("output"), ""), ("table", ""),
        )[0],
        ca_file=flags.get("ca_file") or env.get("LABFLEET_CA_FILE") or context.get("caFile"),
        context=name,
        source=source,
    )  # fmt: skip


def _first(*choices: tuple[Any, str]) -> tuple[str, str]:
    return next((str(value), source) for value, source in choices if value)


def _token(flags: dict[str, Any], env: Any, context: dict[str, Any]) -> str | None:
    for path in (flags.get("token_file"), env.get("LABFLEET_TOKEN_FILE")):
        if path:
            return _token_from(path)
    if env.get("LABFLEET_TOKEN"):
        return _clean(env["LABFLEET_TOKEN"], "LABFLEET_TOKEN")
    if context.get("tokenFile"):
        return _token_from(context["tokenFile"])
    if context.get("token"):
        return _clean(context["token"], "the context's token")
    return None


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
