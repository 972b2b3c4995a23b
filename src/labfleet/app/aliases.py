"""The environment variables of upstream 001, 002 and 004, each as a row: what it sets here.

One table; `settings` reads the environment by it and docs/reference/settings.md shows it. A
variable sets one of the server's own settings, one of the fleet's, or a default of new templates,
pools or clusters (upstream 004 says what can be set and names no variable: those are ours); or it is left to the AWS SDK, or has no counterpart here, which its row explains. When
several rows set the same thing, the first variable that is set wins.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from labfleet.kernel import errors
from labfleet.resources import fleet_settings
from labfleet.resources.strategy import Strategy

Place = Literal["settings", "server", "Template", "Pool", "Cluster", "webhooks", "sdk", "ignored"]
LEASE_LEAST = 15.0
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+){1,2}-[0-9]{1,2}")
_URL = re.compile(r"https?://[^\s/]+(/\S*)?")


@dataclass(frozen=True, slots=True)
class Alias:
    """One variable. `there` is its default or example upstream; `path` what it sets here.

    `differs` says what its value does here, when the same word did something else there.
    """

    variable: str
    there: str
    place: Place
    path: str = ""
    read: Callable[[str], Any] = str
    note: str = ""
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Environment:
    """What the variables say.

    `layer` and `variables` are for the fleet's settings, `server` for the server's own,
    `defaults` for new objects by kind. `ignored` names those that are set and do nothing,
    `differing` those whose word means something else here, with what it means.
    """

    layer: dict[str, dict[str, Any]] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, dict[str, Any]] = field(default_factory=dict)
    webhooks: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    differing: tuple[tuple[str, str], ...] = ()


_OF_AWS = "machine.provider."
"""Settings of machines that upstream knows: all of them are EC2's."""


def read(env: Mapping[str, str]) -> Environment:
    """Return what the environment says; Invalid names the variable with a wrong value.

    An empty variable counts as not set.
    """
    made = Environment(ignored=tuple(_ignored(env)))
    hooks: tuple[str, ...] = ()
    for row in TABLE:
        text = env.get(row.variable, "").strip()
        if not text or row.place in {"sdk", "ignored"}:
            continue
        try:
            value = row.read(text)
        except ValueError as problem:
            raise errors.Invalid(f"environment variable {row.variable}: {problem}") from None
        if row.place == "settings":
            if row.path not in made.variables:
                made.variables[row.path] = row.variable
                _put(made.layer, row.path.split("."), value)
        elif row.place == "server":
            made.server.setdefault(row.path, value)
        elif row.place == "webhooks":
            hooks = value
        else:
            defaults = made.defaults.setdefault(row.place, {})
            _put(defaults, row.path.split("."), value)
            if row.path.startswith(_OF_AWS):
                _put(defaults, [*_OF_AWS.split(".")[:2], "kind"], "aws")
    differing = tuple(
        (row.variable, row.differs)
        for row in TABLE
        if _differs(row, env.get(row.variable, "").strip())
    )
    return replace(made, webhooks=hooks, differing=differing)


def _differs(row: Alias, text: str) -> bool:
    """Tell whether a value does something else here: what is the default here does not."""
    return bool(row.differs and text) and row.read(text) != Strategy.PACKED


def _ignored(env: Mapping[str, str]) -> Iterator[str]:
    for row in TABLE:
        if row.place == "ignored" and env.get(row.variable, "").strip():
            yield row.variable


def _put(block: dict[str, Any], steps: list[str], value: Any) -> None:
    for step in steps[:-1]:
        block = block.setdefault(step, {})
    block.setdefault(steps[-1], value)


def _number(low: int, high: int) -> Callable[[str], int]:
    def read_(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,12}", text) or not low <= int(text) <= high:
            raise ValueError(f"{text[:80]!r} is no whole number from {low} to {high}")
        return int(text)

    return read_


def _share(text: str) -> int:
    """Return a share such as 0.75 in per cent."""
    if not re.fullmatch(r"(0?\.[0-9]{1,4}|0|1|1\.0{1,4})", text):
        raise ValueError(f"{text[:80]!r} is no share from 0 to 1, for example 0.75")
    return round(100 * float(text))


def _lease(text: str) -> float:
    """Return seconds; fewer than 15 are read as 15, which a leader here needs."""
    return max(LEASE_LEAST, float(_number(1, 86_400)(text)))


def _words(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _region(text: str) -> str:
    if not _REGION.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is no region, for example us-east-1")
    return text


def _urls(text: str) -> tuple[str, ...]:
    found = tuple(_words(text))
    if any(not _URL.fullmatch(each) for each in found):
        # Not the value: such addresses often hold a secret.
        raise ValueError("is no list of http(s) addresses, separated by commas")
    return found


def _strategy(text: str) -> str:
    """Return the strategy of upstream's word: BestFit, best_fit and BEST-FIT are one."""
    found = {each.replace("_", ""): each for each in Strategy}
    word = re.sub("[^A-Z]", "", text.upper())
    if word not in found:
        known = ", ".join(Strategy)
        raise ValueError(f"{text[:80]!r} is no strategy; there are {known}")
    return found[word]


def _secret(variable: str) -> Callable[[str], dict[str, str]]:
    """Return a reference: the value itself is read when it is used, and kept nowhere."""
    return lambda _: {"env": variable}


def _setting(variable: str, there: str, path: str, note: str = "") -> Alias:
    read_ = functools.partial(fleet_settings.from_text, path)
    return Alias(variable, there, "settings", path, read_, note)


def _template(
    variable: str, there: str, path: str, read_: Callable[[str], Any] = str, note: str = ""
) -> Alias:
    return Alias(variable, there, "Template", f"machine.{path}", read_, note)


def _pool(variable: str, there: str, path: str, high: int) -> Alias:
    return Alias(variable, there, "Pool", f"scaling.{path}", _number(0, high))


def _cluster(variable: str, there: str, path: str, read_: Callable[[str], Any]) -> Alias:
    return Alias(variable, there, "Cluster", path, read_)


def _source(text: str) -> list[dict[str, Any]]:
    if not _URL.fullmatch(text) or "," in text:
        raise ValueError("is not one http(s) address; a cluster's spec.metrics may name several")
    return [{"name": "metrics", "url": text}]


def _access(text: str) -> dict[str, Any]:
    """Return how the API server is reached: by the server's own account, or a kubeconfig."""
    return {} if text == "in-cluster" else {"kubeconfig": {"file": text}}


def _nothing(variable: str, there: str, note: str) -> Alias:
    return Alias(variable, there, "ignored", note=note)


_ETCD = "leaders are elected in the store of labfleet itself; there is no etcd"
_ONE_SERVER = "controllers run in the server, or reach the store; there is no second service"
_LOOKS = (
    "a worker is looked at when something of it changes and at each poll "
    "(`monitoring.pollIntervalSeconds`); there is no second interval"
)
_BY_LOAD = "for pools with policy CAPACITY_BASED or HYBRID; the default is NEED_BASED"
_SDK = "the AWS SDK's own chain reads it, unless `aws_access_key_env` names other variables"

TABLE: tuple[Alias, ...] = (
    _setting("WORKER_DISCOVERY_ENABLED", "true", "discovery.enabled"),
    _setting("WORKER_DISCOVERY_INTERVAL", "300", "discovery.scanIntervalSeconds"),
    _setting("WORKER_DISCOVERY_AMI_NAME", "CML-*", "discovery.amiNamePattern"),
    _setting("WORKER_DISCOVERY_REGIONS", "us-east-1,us-west-2", "discovery.regions"),
    _setting("AWS_REGION", "us-east-1; us-west-2 in upstream 001", "discovery.regions",
             "when WORKER_DISCOVERY_REGIONS is not set"),
    _template("AWS_REGION", "us-east-1; us-west-2 in upstream 001", "provider.region", _region),
    _setting("METRICS_POLL_INTERVAL", "60", "monitoring.pollIntervalSeconds"),
    _setting("WORKER_METRICS_POLL_INTERVAL", "300", "monitoring.pollIntervalSeconds",
             "when METRICS_POLL_INTERVAL is not set"),
    _setting("WORKER_MONITORING_ENABLED", "true", "monitoring.cloudwatch",
             "upstream 002's monitoring is CloudWatch, which costs money per metric; health and "
             "CML's own figures are always on"),
    _setting("METRICS_CHANGE_THRESHOLD_PERCENT", "5", "monitoring.metricsChangePercent"),
    _setting("RESOURCE_OBSERVATION_ENABLED", "true", "observation.enabled"),
    _setting("RESOURCE_OBSERVATION_TIMEOUT_SECONDS", "30", "observation.timeoutSeconds"),
    _setting("IDLE_CHECK_INTERVAL", "60", "idle.checkIntervalSeconds"),
    _setting("IDLE_THRESHOLD_MINUTES", "30", "idle.timeoutMinutes"),
    _setting("CLEANUP_RETENTION_DAYS", "30", "garbage.retentionDays"),
    Alias("WORKER_CONTROLLER_LEADER_LEASE_TTL", "15", "server", "lease_seconds", _lease,
          "fewer than 15 are read as 15"),
    Alias("LEADER_LEASE_TTL", "15", "server", "lease_seconds", _lease,
          "fewer than 15 are read as 15"),
    Alias("APP_PORT", "8083", "server", "port", _number(0, 65535)),
    _template("EC2_AMI_ID", "ami-xxxxxxxxx", "provider.amiId"),
    _template("EC2_INSTANCE_TYPE", "m5zn.metal", "provider.instanceTypes", _words,
              "several with commas, in order of preference"),
    _template("EC2_VPC_ID", "vpc-xxxxxxxxx", "provider.vpcId"),
    _template("EC2_SUBNET_ID", "subnet-xxxxxxxxx", "provider.subnetIds", _words,
              "several with commas, in order of preference"),
    _template("EC2_SECURITY_GROUP_IDS", "sg-xxxxxxxxx", "provider.securityGroupIds", _words),
    _template("EC2_IAM_INSTANCE_PROFILE", "<profile-name>", "provider.iamInstanceProfile"),
    _template("CML_ADMIN_USERNAME", "admin", "cml.adminUsername"),
    _template("CML_WORKER_API_USERNAME", "admin", "cml.adminUsername", str,
              "when CML_ADMIN_USERNAME is not set"),
    _template("CML_ADMIN_PASSWORD", "<password>", "cml.adminPassword",
              _secret("CML_ADMIN_PASSWORD"), "as a secretRef to the variable"),
    _template("CML_WORKER_API_PASSWORD", "xxx", "cml.adminPassword",
              _secret("CML_WORKER_API_PASSWORD"),
              "as a secretRef to the variable, when CML_ADMIN_PASSWORD is not set"),
    _template("CML_LICENSE_TOKEN", "<token>", "licence.token",
              _secret("CML_LICENSE_TOKEN"), "as a secretRef to the variable"),
    _template("PROVISIONING_TIMEOUT_SECONDS", "900", "limits.launch", _number(1, 86_400)),
    _template("DRAIN_TIMEOUT_SECONDS", "600", "limits.drain", _number(1, 2_592_000)),
    _pool("MIN_WORKERS_PER_POOL", "1", "minWorkers", 1000),
    _pool("MIN_WORKERS", "0", "minWorkers", 1000),
    _pool("MAX_WORKERS_PER_POOL", "10", "maxWorkers", 1000),
    _pool("SCALE_UP_COOLDOWN_SECONDS", "300", "cooldownUpSeconds", 86_400),
    _pool("SCALE_DOWN_COOLDOWN_SECONDS", "600", "cooldownDownSeconds", 86_400),
    _cluster("LABFLEET_CLUSTER_KUBERNETES", "in-cluster, or the file of a kubeconfig",
             "kubernetes", _access),
    _cluster("LABFLEET_CLUSTER_METRICS_URL", "http://victoria-metrics:8428", "metrics", _source),
    _cluster("LABFLEET_CLUSTER_CPU_PERCENT", "80", "cpuPercent", _number(1, 100)),
    _cluster("LABFLEET_CLUSTER_MEMORY_PERCENT", "80", "memoryPercent", _number(1, 100)),
    _cluster("LABFLEET_CLUSTER_NETWORK_PERCENT", "75", "networkPercent", _number(1, 100)),
    Alias("WORKER_NOTIFICATION_WEBHOOKS", "https://hooks.slack.com/services/xxx", "webhooks",
          "one Webhook for each", _urls, "made at start, for `worker.*`, when not there yet"),
    Alias("AWS_ACCESS_KEY_ID", "<key>", "sdk", note=_SDK),
    Alias("AWS_SECRET_ACCESS_KEY", "<secret>", "sdk", note=_SDK),
    Alias("SCHEDULER_STRATEGY", "BestFit", "settings", "scheduling.strategy", _strategy,
          "BestFit, LeastUtilized, LeastLabs, RoundRobin, Random as there, and Packed, which is what "
          "holds when nothing is said; another word is refused at start, where upstream takes BestFit",
          differs="sessions are placed by upstream 001's strategy of that name: all but Packed "
                  "spread them, so pools shrink less than without it; earlier versions packed "
                  "for BestFit too"),
    _setting("REQUIRE_LICENSED_FOR_CML", "true", "scheduling.requireLicence",
             "when it is not set, an unlicensed worker takes labs of up to five nodes"),
    Alias("SCALE_UP_THRESHOLD_CPU", "0.75", "Pool", "scaling.thresholds.cpuUpPercent", _share,
          _BY_LOAD),
    Alias("SCALE_DOWN_THRESHOLD_CPU", "0.30", "Pool", "scaling.thresholds.cpuDownPercent", _share,
          _BY_LOAD),
    _nothing("SCALE_DOWN_ENABLED", "false",
             "a pool's `scaling.enabled` says whether it shrinks"),
    _nothing("MAX_WORKERS_PER_REGION", "10", "the maximum is a pool's: `scaling.maxWorkers`"),
    _nothing("WORKER_CONTROLLER_RECONCILE_INTERVAL", "30", _LOOKS),
    _nothing("RECONCILE_INTERVAL", "30", _LOOKS),
    _nothing("RECONCILE_POLLING_ENABLED", "true", "polling is always on, beside the events"),
    _nothing("LABS_SYNC_INTERVAL", "300", "labs are read with each poll of their worker"),
    _nothing("ETCD_HOST", "etcd", _ETCD),
    _nothing("ETCD_PORT", "2379", _ETCD),
    _nothing("ETCD_WATCH_ENABLED", "true", _ETCD),
    _nothing("ETCD_KEY_PREFIX", "/lcm", _ETCD),
    _nothing("CONTROL_PLANE_API_URL", "http://control-plane-api:8030", _ONE_SERVER),
    _nothing("CONTROL_PLANE_API_KEY", "xxx",
             "programs sign in with a token of role controller (`labfleet token create`)"),
    _nothing("BACKGROUND_JOB_STORE", "a Redis", "no job is kept outside the store"),
)  # fmt: skip

_SECRETS = frozenset({"machine.cml.adminPassword", "machine.licence.token"})
SECRET_VARIABLES = frozenset(row.variable for row in TABLE if row.path in _SECRETS)
"""Upstream's variables that hold a secret of workers, which secretRefs may therefore name."""


def told(row: Alias) -> str:
    """Return in words what a row sets here, for the docs."""
    match row.place:
        case "settings":
            said = f"`{row.path}`"
        case "server":
            said = f"`{row.path}` of the server"
        case "Template" | "Pool" | "Cluster":
            said = f"`{row.path}` of a new {row.place.lower()} that leaves it out"
        case "webhooks":
            said = row.path
        case "sdk":
            said = "the credentials"
        case _:
            said = "nothing"
    return said + (f"; {row.note}" if row.note else "")
