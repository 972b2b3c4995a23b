"""The compatible environment variables: each is read or explained, and none is forgotten."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from labfleet.app import aliases, settings
from labfleet.kernel import errors
from labfleet.resources import cluster, fleet_settings, pool, template
from labfleet.resources.cluster_access import KubernetesAccess

ROOT = Path(__file__).resolve().parents[2]
SEEDS = ROOT.parent / "shared" / "seeds"
PAGE = ROOT / "docs" / "reference" / "settings.md"
WORD = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?=\b|and)")
# What is written like a variable in the two texts and is none: phases, policies, the nodes of
# a diagram, a constant of an example.
_OTHERS = """
    PROVISIONING_EC2 EC2_READY READY_UNLICENSED TERMINATING_EC2 SCALING_UP SCALING_DOWN
    CAPACITY_BASED LAB_COUNT_BASED BEST_FIT LEAST_UTILIZED LEAST_LABS ROUND_ROBIN
    AWS_SCAN POST_IMPORT POST_METRICS POST_IDLE INT_API DOMAIN_EVENTS REDIS_CHANNEL
    FIVE_MIN_AGO
"""
NOT_VARIABLES = frozenset(_OTHERS.split())


@pytest.fixture
def named() -> set[str]:
    """What upstream 001 and 002 write like a variable."""
    if not SEEDS.is_dir():
        pytest.skip(f"LOUD: no seeds in {SEEDS}; the list of variables is not compared")
    found: set[str] = set()
    for name in ("001.txt", "002.txt"):
        found |= set(WORD.findall((SEEDS / name).read_text(encoding="utf-8")))
    return found - NOT_VARIABLES


def test_every_variable_of_the_seeds_has_its_row(named: set[str]) -> None:
    """Each is in the table, and the list of exceptions holds nothing that is a row."""
    rows = {row.variable for row in aliases.TABLE}
    assert len(named) >= 36
    assert named - rows == set()
    assert NOT_VARIABLES & rows == set()


def test_every_variable_is_on_the_page(named: set[str]) -> None:
    """The reference page lists each, with what it does."""
    text = PAGE.read_text(encoding="utf-8")
    wanted = named | {row.variable for row in aliases.TABLE}
    assert [name for name in sorted(wanted) if f"| `{name}` |" not in text] == []


def test_each_row_names_something_that_is_there() -> None:
    """A row's path is a setting, a server setting, or a field of a template's or pool's spec."""
    owners = {
        "server": settings.Settings,
        "Template": template.TemplateSpec,
        "Pool": pool.PoolSpec,
        "Cluster": cluster.ClusterSpec,
    }
    for row in aliases.TABLE:
        if row.place == "settings":
            fleet_settings.field_at(row.path)
        elif row.place in owners:
            owner: object = owners[row.place]
            for step in row.path.split("."):
                owner = field_type(owner, step)
        else:
            assert row.note, row.variable


def field_type(owner: object, name: str) -> object:
    """The type of a field; of a union (a provider's settings), that of the part that has it."""
    parts = get_args(owner) or (owner,)
    found = {each.encode_name: each.type for part in parts for each in msgspec.structs.fields(part)}
    assert name in found, (owner, name)
    return found[name]


def test_the_environment_is_one_layer_of_the_fleets_settings() -> None:
    """Values have their types, and the variable that gave each is known."""
    found = settings.surroundings(
        {
            "WORKER_DISCOVERY_ENABLED": "true",
            "WORKER_DISCOVERY_REGIONS": "us-east-1, us-west-2",
            "IDLE_THRESHOLD_MINUTES": "30",
            "METRICS_POLL_INTERVAL": " 60 ",
            "IDLE_CHECK_INTERVAL": "",
        }
    )
    now = fleet_settings.effective(None, found.layer)
    assert now.discovery.enabled
    assert now.discovery.regions == ("us-east-1", "us-west-2")
    assert (now.idle.timeout_minutes, now.idle.check_interval_seconds) == (30, 60)
    assert now.monitoring.poll_interval_seconds == 60
    assert found.variables["idle.timeoutMinutes"] == "IDLE_THRESHOLD_MINUTES"
    assert "idle.checkIntervalSeconds" not in found.variables


def test_endpoints_and_targets_of_new_clusters_come_from_the_environment() -> None:
    """One source and how its Kubernetes is reached, each filled in where a cluster leaves it out."""
    found = settings.surroundings(
        {
            "LABFLEET_CLUSTER_KUBERNETES": "in-cluster",
            "LABFLEET_CLUSTER_METRICS_URL": "http://vm:8428",
            "LABFLEET_CLUSTER_CPU_PERCENT": "70",
        }
    ).defaults["Cluster"]
    made = msgspec.convert(found, cluster.ClusterSpec)
    assert made.kubernetes == KubernetesAccess()
    assert [each.url for each in made.metrics] == ["http://vm:8428"]
    assert (made.cpu_percent, made.memory_percent) == (70, 80)
    file = settings.surroundings({"LABFLEET_CLUSTER_KUBERNETES": "lab.kubeconfig"})
    assert file.defaults["Cluster"]["kubernetes"] == {"kubeconfig": {"file": "lab.kubeconfig"}}


@pytest.mark.parametrize("url", ["victoria", "http://a:1,http://b:2", "ftp://a"])
def test_a_source_that_is_no_address_stops_the_start(url: str) -> None:
    """And names the variable, not its value."""
    with pytest.raises(errors.Invalid, match="LABFLEET_CLUSTER_METRICS_URL"):
        settings.surroundings({"LABFLEET_CLUSTER_METRICS_URL": url})


def test_of_two_variables_for_one_thing_the_nearer_wins() -> None:
    """WORKER_DISCOVERY_REGIONS wins over AWS_REGION, which fills in alone."""
    both = {"AWS_REGION": "eu-west-1", "WORKER_DISCOVERY_REGIONS": "us-west-2"}
    found = aliases.read(both)
    assert found.layer["discovery"]["regions"] == ("us-west-2",)
    assert found.defaults["Template"]["machine"]["provider"]["region"] == "eu-west-1"
    alone = aliases.read({"AWS_REGION": "eu-west-1"})
    assert alone.layer["discovery"]["regions"] == ("eu-west-1",)


def test_the_servers_own_variables_and_options_win_over_the_seeds() -> None:
    """APP_PORT and the lease are read below LABFLEET_* and the command line."""
    env = {"APP_PORT": "8083", "WORKER_CONTROLLER_LEADER_LEASE_TTL": "15"}
    found = settings.load({}, environment=env)
    assert (found.port, found.lease_seconds) == (8083, 15.0)
    least = settings.load({}, environment={"LEADER_LEASE_TTL": "5"})
    assert least.lease_seconds == 15.0, "no call would fit into less"
    longer = settings.load({}, environment={"LEADER_LEASE_TTL": "40"})
    assert longer.lease_seconds == 40.0
    assert settings.load({}, environment={**env, "LABFLEET_PORT": "1"}).port == 1
    assert settings.load({"port": 2}, environment=env).port == 2


def test_secrets_become_references() -> None:
    """A password or licence token is named, never read into a default."""
    env = {"CML_ADMIN_PASSWORD": "hush-hush", "CML_LICENSE_TOKEN": "hush-too"}
    found = aliases.read(env)
    machine = found.defaults["Template"]["machine"]
    assert machine["cml"]["adminPassword"] == {"env": "CML_ADMIN_PASSWORD"}
    assert machine["licence"]["token"] == {"env": "CML_LICENSE_TOKEN"}
    assert "hush" not in repr(found)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("IDLE_THRESHOLD_MINUTES", "soon"),
        ("WORKER_DISCOVERY_INTERVAL", "5"),
        ("WORKER_DISCOVERY_ENABLED", "perhaps"),
        ("WORKER_DISCOVERY_REGIONS", "us-east-1,moon"),
        ("WORKER_DISCOVERY_AMI_NAME", "*"),
        ("AWS_REGION", "moon"),
        ("APP_PORT", "99999"),
        ("LEADER_LEASE_TTL", "-1"),
        ("MIN_WORKERS_PER_POOL", "1.5"),
        ("SCHEDULER_STRATEGY", "MostLabs"),
        ("WORKER_NOTIFICATION_WEBHOOKS", "hooks.example.com"),
        ("METRICS_CHANGE_THRESHOLD_PERCENT", "0"),
    ],
)
def test_a_wrong_value_stops_the_start_and_names_the_variable(variable: str, value: str) -> None:
    """One sentence, with the variable in it."""
    with pytest.raises(errors.Invalid, match=f"environment variable {variable}: "):
        settings.load({}, environment={variable: value})


def test_what_does_nothing_here_is_said() -> None:
    """Variables without a counterpart are accepted and listed."""
    found = aliases.read({"ETCD_HOST": "etcd", "CONTROL_PLANE_API_KEY": "x", "ETCD_PORT": ""})
    assert set(found.ignored) == {"ETCD_HOST", "CONTROL_PLANE_API_KEY"}


def test_a_word_that_means_something_else_here_is_said_at_start() -> None:
    """Earlier versions packed for BestFit, which spreads as upstream's does now."""
    found = aliases.read({"SCHEDULER_STRATEGY": "BestFit"})
    assert [variable for variable, _ in found.differing] == ["SCHEDULER_STRATEGY"]
    assert "earlier versions packed for BestFit too" in found.differing[0][1]
    assert aliases.read({}).differing == ()
    assert aliases.read({"SCHEDULER_STRATEGY": "Packed"}).differing == ()


@pytest.mark.parametrize(
    ("word", "strategy"),
    [("BestFit", "BEST_FIT"), ("LeastUtilized", "LEAST_UTILIZED"), ("LeastLabs", "LEAST_LABS"),
     ("RoundRobin", "ROUND_ROBIN"), ("Random", "RANDOM"), ("round_robin", "ROUND_ROBIN")],
)  # fmt: skip
def test_each_word_of_upstream_is_the_strategy_of_that_name(word: str, strategy: str) -> None:
    """SCHEDULER_STRATEGY sets the strategy of pools that name none."""
    found = aliases.read({"SCHEDULER_STRATEGY": word, "REQUIRE_LICENSED_FOR_CML": "true"})
    assert found.layer["scheduling"] == {"strategy": strategy, "requireLicence": True}
