"""Settings: a TOML file, the compatible variables, LABFLEET_* variables, then the command line.

The last one that sets a value wins; unknown keys are refused. The settings that people change
while the server runs are in `resources.fleet_settings`; the compatible variables are one layer
of those. Only this module reads the environment. Secrets are never settings: they are files or
variables named by secretRefs.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from labfleet.app import aliases, host_secrets
from labfleet.kernel import errors
from labfleet.service.core import intake

PREFIX = "LABFLEET_"
ROLES = ("api", "scheduler", "worker-controller", "lab-controller")
# A clock this fast makes a year in half a minute; the epoch ends with the year 2200.
_MOST = {
    "clock_rate": 1e6, "clock_epoch": 7_258_118_400.0, "lease_seconds": 86_400.0,
    "stop_seconds": 86_400.0,
}  # fmt: skip
_LISTS = frozenset({"roles", "host_names", "secrets_variables"})
RETIRED = frozenset({"cml_http"})
"""Keys of earlier versions that a settings file may still have; they change nothing."""
Positive = Annotated[float, msgspec.Meta(gt=0)]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set.

    data: Folder for the store and its locks.
    store: URL of the store; empty means sqlite in `data`.
    host, port: Where the API listens; loopback unless you say otherwise.
    host_names: Names in a request's Host header that are answered, beside addresses and localhost;
    without any, a server on loopback answers no others, one elsewhere answers every name.
    tls_cert, tls_key: PEM files; without them the API speaks plain HTTP.
    roles: Which parts run in this process.
    log_format: Form of the log: console or json.
    log_level: Least level that is logged: debug, info, warning or error.
    clock_epoch, clock_rate: The demo's scaled clock; rate 1 is real time.
    aws_endpoint_url: Another EC2 than Amazon's.
    aws_access_key_env, aws_secret_key_env: Names of variables that hold credentials; empty means
    the SDK's own chain.
    static_sites: File of CML servers that are there already, and of the commands that switch them.
    prices_file: File with the prices of machines, disks and licences; empty means the list that comes
    with Labfleet.
    secrets_folder: The folder of the files that secretRefs may name (`{file: NAME}`).
    secrets_variables: Variables that secretRefs may name (`NAME`, or `PREFIX*`) beside
    `LABFLEET_SECRET_*` and upstream's.
    lease_seconds: How long a silent leader keeps its place (machine seconds); at
    least 15, because a call of up to 8 s must fit into what is left between two renewals.
    stop_seconds: How long an orderly stop may take (machine seconds).
    """

    data: str = "var"
    store: str = ""
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8470
    host_names: tuple[str, ...] = ()
    tls_cert: str = ""
    tls_key: str = ""
    roles: tuple[str, ...] = ROLES
    log_format: str = "console"
    log_level: str = "info"
    clock_epoch: float = 0.0
    clock_rate: Positive = 1.0
    aws_endpoint_url: str = ""
    aws_access_key_env: str = ""
    aws_secret_key_env: str = ""
    static_sites: str = ""
    prices_file: str = ""
    secrets_folder: str = host_secrets.FOLDER
    secrets_variables: tuple[str, ...] = ()
    lease_seconds: Annotated[float, msgspec.Meta(ge=15)] = 15.0
    stop_seconds: Positive = 20.0

    @property
    def store_url(self) -> str:
        """Return the store's URL."""
        return self.store or f"sqlite:///{Path(self.data).resolve() / 'labfleet.db'}"


def load(
    arguments: Mapping[str, Any],
    *,
    file: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings, each from the last place that sets it; Invalid names what is wrong."""
    env = os.environ if environment is None else environment
    raw: dict[str, Any] = {}
    path = file or env.get(PREFIX + "SERVER_CONFIG")
    if path:
        raw.update(_from_file(path))
    raw.update(aliases.read(env).server)
    raw.update(_from_environment(env))
    raw.update({key: value for key, value in arguments.items() if value is not None})
    try:
        settings = msgspec.convert(raw, Settings, strict=False)
    except msgspec.ValidationError as problem:
        raise errors.Invalid(f"settings: {problem}") from None
    unknown = set(settings.roles) - set(ROLES)
    if unknown:
        raise errors.Invalid(f"settings: unknown roles {sorted(unknown)}; known are {ROLES}")
    if not settings.roles:
        raise errors.Invalid(f"settings: roles is empty; known are {', '.join(ROLES)}")
    _bounded(settings)
    for name in settings.host_names:
        wrong = "no scheme and no port" if ":" in name else intake.host_problem(name)
        if wrong:
            raise errors.Invalid(f"settings: host_names: {name!r}: {wrong}")
    host_secrets.check(settings.secrets_folder, settings.secrets_variables, data=settings.data)
    if settings.clock_rate != 1.0 and settings.clock_epoch == 0.0:
        raise errors.Invalid("settings: a scaled clock needs clock_epoch, a Unix instant of now")
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise errors.Invalid("settings: tls_cert and tls_key go together")
    return settings


def surroundings(environment: Mapping[str, str] | None = None) -> aliases.Environment:
    """Return what the compatible variables say; Invalid names the variable with a wrong value."""
    return aliases.read(os.environ if environment is None else environment)


def _bounded(settings: Settings) -> None:
    """Raise Invalid for numbers that no clock can work with; inf and nan are numbers too."""
    for name, most in _MOST.items():
        value = getattr(settings, name)
        if not 0 <= value <= most:
            raise errors.Invalid(f"settings: {name} is {value}, which is not in 0 to {most:g}")


def _from_file(path: str) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            raw = tomllib.load(file)
    except OSError as problem:
        raise errors.Invalid(f"settings file {path}: {problem.strerror}") from None
    except tomllib.TOMLDecodeError as problem:
        raise errors.Invalid(f"settings file {path}: {problem}") from None
    known = Settings.__struct_fields__
    for key in raw:
        if key not in known and key not in RETIRED:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise errors.Invalid(f"settings file {path}: unknown key {key!r}{hint}")
    return {key: value for key, value in raw.items() if key not in RETIRED}


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    """Return what LABFLEET_* says; variables of the CLI and of secrets are not ours to refuse."""
    found: dict[str, Any] = {}
    for key in Settings.__struct_fields__:
        value = env.get(PREFIX + key.upper())
        if value is not None:
            found[key] = _words(value) if key in _LISTS else value
    return found


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
