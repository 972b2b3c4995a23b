"""Wire one process: plain constructor calls, no logic.

The rehearsal wires the same packages to a virtual clock and to worlds of its own; what differs is
only what is passed in.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from labfleet.adapters.aws import clients, compute, paced
from labfleet.adapters.cml.hosts import CmlHosts
from labfleet.adapters.cml.transport import connect
from labfleet.adapters.kubernetes.access import Surroundings
from labfleet.adapters.kubernetes.viewer import KubernetesViewer
from labfleet.adapters.metrics.meter import SourcesMeter
from labfleet.adapters.metrics.promql import PromqlReader
from labfleet.adapters.probe import TcpProbe
from labfleet.adapters.providers import Providers
from labfleet.adapters.static.compute import StaticCompute
from labfleet.adapters.static.hooks import Hooks
from labfleet.adapters.static.sites import read as read_sites
from labfleet.adapters.webhooks import HttpDeliveries
from labfleet.app import data_folder
from labfleet.app.alert_gauges import add_alert_gauges
from labfleet.app.alert_log import AlertLog
from labfleet.app.aliases import SECRET_VARIABLES, Environment
from labfleet.app.aws_requests import add_aws_requests
from labfleet.app.cluster_gauges import (
    add_cluster_gauges,
    add_coverage,
    add_decisions,
    add_freshness,
    add_promises,
)
from labfleet.app.cost_gauges import add_cost_gauges
from labfleet.app.history_gauge import HistoryRows, add_history
from labfleet.app.host_secrets import VARIABLES, HostSecrets
from labfleet.app.metrics import Metrics
from labfleet.app.pool_gauges import add_pool_gauges
from labfleet.app.price_file import prices_of
from labfleet.app.region_gauges import add_region_gauges
from labfleet.app.server_gauges import (
    ClockLog,
    ReferenceLog,
    StoreLog,
    add_clock,
    add_leaders,
    add_references,
    add_store_health,
)
from labfleet.app.settings import ROLES, Settings, surroundings
from labfleet.app.system import SystemClock, SystemIds, SystemRng
from labfleet.app.watchers import Watcher, add_gauges, add_pauses
from labfleet.app.webhook_gauges import add_webhook_gauges
from labfleet.app.worker_gauges import add_worker_gauges
from labfleet.controllers import assembly
from labfleet.controllers.context import Context
from labfleet.controllers.worker.inventory import Inventory
from labfleet.engine.aside import OneThread
from labfleet.engine.cache import Cache
from labfleet.engine.clock_check import ClockCheck
from labfleet.engine.controller import Controller
from labfleet.engine.effects import Effects
from labfleet.engine.election import Election, Leadership
from labfleet.engine.feed import RELIST_SECONDS, Feed
from labfleet.engine.leader_watch import LeaderWatch
from labfleet.engine.objects import Objects
from labfleet.engine.sample_exchange import SampleExchange
from labfleet.engine.secrets_check import SecretsCheck
from labfleet.engine.store_health import StoreCheck, StoreHealth
from labfleet.engine.supervisor import Role, Supervisor
from labfleet.interfaces.cluster_meter import ClusterMeter, FigureReader, NoMeter
from labfleet.interfaces.cluster_view import ClusterViewer, NoViewer
from labfleet.interfaces.compute import Compute
from labfleet.interfaces.lab_host import LabHosts
from labfleet.interfaces.outside import AllowedSecrets, Deliveries, PortProbe, Secrets
from labfleet.interfaces.store import Store
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.kernel.ids import IdSource
from labfleet.kernel.rng import Rng
from labfleet.resources.cluster_access import MetricsKind
from labfleet.resources.prices import SHIPPED, PriceList
from labfleet.service.core.fleet_settings import SettingsReader
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices, session_outlook
from labfleet.stores.opening import open_store
from labfleet.stores.runners import Threads

LEADING = tuple(role for role in ROLES if role != "api")
_CREDENTIAL_FILES = (
    "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "PGPASSFILE", "KUBECONFIG",
    "LABFLEET_TOKEN_FILE",
)  # fmt: skip
"""Variables that name files with credentials of the server's own."""


@dataclass(frozen=True, slots=True)
class Outside:
    """Everything a process needs that is not its own code.

    `watching` keeps what `viewer` sees up to date, while this process leads.
    """

    store: Store
    clock: Clock
    rng: Rng
    ids: IdSource
    compute: Compute
    hosts: LabHosts
    secrets: Secrets
    probe: PortProbe
    environment: Environment = field(default_factory=Environment)
    deliveries: Deliveries | None = None
    health: StoreHealth | None = None
    allowed: AllowedSecrets | None = None
    aws_requests: Callable[[], Mapping[tuple[str, str], int]] | None = None
    prices: PriceList = SHIPPED
    viewer: ClusterViewer = field(default_factory=NoViewer)
    meter: ClusterMeter = field(default_factory=NoMeter)
    watching: Callable[[], Awaitable[None]] | None = None
    closing: tuple[Callable[[], Awaitable[None]], ...] = ()


@dataclass(slots=True)
class System:
    """One process's parts, wired and not yet running."""

    outside: Outside
    cache: Cache
    services: ServiceContext
    metrics: Metrics
    watcher: Watcher
    feeds: list[Role] = field(default_factory=list)
    elections: list[Role] = field(default_factory=list)
    supervisors: dict[str, Supervisor] = field(default_factory=dict)
    controllers: list[Controller] = field(default_factory=list)
    leaderships: dict[str, Leadership] = field(default_factory=dict)
    locks: list[IO[str]] = field(default_factory=list)
    check: StoreCheck | None = None


def clock_of(settings: Settings) -> SystemClock:
    """Return the clock that the settings ask for."""
    return SystemClock(settings.clock_epoch, settings.clock_rate)


async def open_outside(settings: Settings) -> tuple[Outside, str]:
    """Open the store and the adapters; return them with the installation's identity."""
    listed = prices_of(settings.prices_file)
    data_folder.private(Path(settings.data))
    clock, ids = clock_of(settings), SystemIds()
    health = StoreHealth(clock, watcher=StoreLog())
    store = await open_store(
        settings.store_url, runner=Threads(), ids=ids, clock=clock, observer=health
    )
    installation = await store.installation(ids.uid())
    sites = read_sites(settings.static_sites) if settings.static_sites else {}
    ec2 = compute.connect(
        owner=installation,
        credentials=_credentials(settings, os.environ),
        endpoint_url=settings.aws_endpoint_url or None,
    )
    secrets, rng = secrets_of(settings, os.environ), SystemRng()
    viewer = KubernetesViewer(secrets, clock, rng, around=Surroundings(os.environ))
    figures = PromqlReader(secrets, clock)
    readers: dict[MetricsKind, FigureReader] = {
        MetricsKind.PROMQL: figures,
        MetricsKind.KUBERNETES: viewer,
    }
    outside = Outside(
        store=store,
        clock=clock,
        rng=rng,
        ids=ids,
        compute=Providers(
            aws=paced.PacedEc2(ec2, clock),
            static=StaticCompute(sites, Hooks(), installation, clock),
        ),
        aws_requests=ec2.sent,
        hosts=CmlHosts(connect),
        secrets=secrets,
        allowed=secrets,
        probe=TcpProbe(),
        environment=surroundings(),
        deliveries=HttpDeliveries(),
        health=health,
        viewer=viewer,
        meter=SourcesMeter(readers, clock),
        watching=viewer.run,
        closing=(figures.close,),
        prices=listed,
    )
    return outside, installation


def secrets_of(settings: Settings, env: Mapping[str, str]) -> HostSecrets:
    """Return what secretRefs may lead to under these settings."""
    own = (settings.tls_key, settings.store_url.removeprefix("sqlite:///"),
           *(env.get(name, "") for name in _CREDENTIAL_FILES))  # fmt: skip
    return HostSecrets(
        env,
        folder=settings.secrets_folder,
        variables=(VARIABLES, *sorted(SECRET_VARIABLES), *settings.secrets_variables),
        reserved=(settings.aws_access_key_env, settings.aws_secret_key_env),
        reserved_files=tuple(each for each in own if each),
    )


def _credentials(settings: Settings, env: Mapping[str, str]) -> clients.Credentials | None:
    if not settings.aws_access_key_env:
        return None
    try:
        return clients.Credentials(
            env[settings.aws_access_key_env], env[settings.aws_secret_key_env]
        )
    except KeyError as missing:
        raise errors.Invalid(f"environment variable {missing} is not set") from None


def lock_role(settings: Settings, role: str) -> IO[str] | None:
    """Return a held file lock that proves every earlier process of the role dead, or None.

    The lock proves this only for a store in a local file, because all its processes are on this
    machine; for other stores a successor waits until the lease expires.
    """
    if not settings.store_url.startswith("sqlite:///"):
        return None
    path = Path(settings.store_url.removeprefix("sqlite:///")).with_suffix(f".{role}.lock")
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def build(outside: Outside, settings: Settings, installation: str, *, holder: str) -> System:
    """Wire the parts of one process."""
    cache = Cache(outside.store)
    cache.declare(*indices.declared())
    metrics = Metrics()
    system = System(
        outside=outside,
        cache=cache,
        services=ServiceContext(
            objects=Objects(outside.store),
            log=outside.store,
            replies=outside.store,
            series=outside.store,
            history=outside.store,
            kept=outside.store,
            cache=cache,
            clock=outside.clock,
            ids=outside.ids,
            environment=outside.environment.layer,
            variables=outside.environment.variables,
            defaults=outside.environment.defaults,
            health=outside.health,
            clock_check=_clock_check(outside, cache),
            secrets_check=_secrets_check(outside, cache),
            aside=OneThread(),
            leaders=LeaderWatch(outside.store, LEADING, seconds=settings.lease_seconds),
            prices=outside.prices,
        ),
        metrics=metrics,
        watcher=Watcher(metrics),
    )
    _add_feeds(system)
    for role in settings.roles:
        if role != "api":
            _add_role(system, settings, installation, role, f"{holder}/{role}")
    add_gauges(metrics, cache, system.controllers)
    if isinstance(outside.clock, SystemClock):
        add_clock(metrics, outside.clock)
    add_pauses(metrics, system.services.settings)
    services = system.services
    add_worker_gauges(metrics, services.samples, outside.clock, cache, services.sample_life)
    add_region_gauges(metrics, cache, outside.clock)
    add_alert_gauges(metrics, system.services)
    add_pool_gauges(metrics, cache)
    add_cost_gauges(metrics, services)
    add_webhook_gauges(metrics, cache)
    add_cluster_gauges(metrics, services)
    add_promises(metrics, services)
    add_freshness(metrics, services)
    add_coverage(metrics, services)
    add_decisions(metrics, services)
    if outside.aws_requests is not None:
        add_aws_requests(metrics, outside.aws_requests)
    return system


def _add_feeds(system: System) -> None:
    """Wire what every process runs, whatever it leads, with the numbers that tell of it."""
    outside, cache, metrics = system.outside, system.cache, system.metrics
    feed = Feed(outside.store, cache, outside.clock, relist=RELIST_SECONDS)
    system.feeds.append(Role("feed", feed.run, ready=lambda: cache.cursor is not None))
    if outside.health is not None:
        system.check = StoreCheck(
            outside.health, outside.store, outside.store, lambda: cache.revision
        )
        system.feeds.append(Role("store", system.check.run))
        add_store_health(metrics, outside.health)
    if system.services.clock_check is not None:
        system.feeds.append(Role("clock", system.services.clock_check.run))
    if system.services.secrets_check is not None:
        system.feeds.append(Role("references", system.services.secrets_check.run))
        add_references(metrics, system.services.secrets_check)
    watch = system.services.leaders
    if watch is not None:
        system.feeds.append(Role("leaders", watch.run))
        watch.own = system.leaderships
        add_leaders(metrics, system.services)
    past = HistoryRows(outside.store)
    system.feeds.append(Role("history", past.run))
    add_history(metrics, past)
    system.feeds.append(Role("samples", _sample_exchange(outside, system.services).run))
    system.feeds.append(Role("starts", session_outlook.kept(system.services).run))


def _secrets_check(outside: Outside, cache: Cache) -> SecretsCheck | None:
    """Return the check of the stored references, where the host has an allow-list."""
    if outside.allowed is None:
        return None
    return SecretsCheck(outside.allowed, cache, outside.clock, told=ReferenceLog())


def _sample_exchange(outside: Outside, services: ServiceContext) -> SampleExchange:
    """Return what keeps the samples of this process and those of the others alike."""
    return SampleExchange(
        services.samples,
        outside.store,
        services.cache,
        outside.clock,
        life=services.sample_life,
        change_percent=lambda: services.settings.now().monitoring.metrics_change_percent,
    )


def _clock_check(outside: Outside, cache: Cache) -> ClockCheck | None:
    """Return the check of a clock that reads the host's."""
    if not isinstance(outside.clock, SystemClock):
        return None
    confirmed = SettingsReader(cache).clock_confirmed
    return ClockCheck(outside.clock, outside.store, confirmed, told=ClockLog())


def _add_role(
    system: System, settings: Settings, installation: str, role: str, holder: str
) -> None:
    """Wire one leading role: its election, its controllers, its supervisor."""
    outside = system.outside
    lock = lock_role(settings, role)
    if lock is not None:
        system.locks.append(lock)
        holder = f"{installation}/{role}"
    election = Election(
        outside.store, role, holder, seconds=settings.lease_seconds, observer=system.watcher
    )
    system.leaderships[role] = election.leadership
    effects = Effects(
        outside.clock,
        outside.ids,
        election.leadership,
        sole_since=None if lock is None else outside.clock.now(),
    )
    context = Context(
        installation=installation,
        objects=system.services.objects,
        cache=system.cache,
        clock=outside.clock,
        ids=outside.ids,
        effects=effects,
        leadership=election.leadership,
        compute=outside.compute,
        hosts=outside.hosts,
        secrets=outside.secrets,
        probe=outside.probe,
        deliveries=outside.deliveries,
        since=outside.clock.now(),
        samples=system.services.samples,
        environment=outside.environment.layer,
        prices=outside.prices,
    )
    system.elections.append(Role(f"election/{role}", election.run))
    system.supervisors[role] = Supervisor(
        _led(system, role, context),
        rng=outside.rng,
        leadership=election.leadership,
        observer=system.watcher,
        deadline=settings.stop_seconds / 2,
    )


def _led(system: System, role: str, context: Context) -> list[Role]:
    """Wire what runs while this process leads a role."""
    outside = system.outside
    maker = assembly.Assembly(
        outside.rng, system.services, outside.store, system.watcher,
        meter=outside.meter, viewer=outside.viewer, decided=system.watcher.decided,
    )  # fmt: skip
    if role == "scheduler":
        made = maker.scheduler(context)
    elif role == "worker-controller":
        made = maker.workers(context, Inventory(outside.compute, outside.clock))
    else:
        made = maker.labs(context)
    system.controllers += made
    roles = [
        Role(each.name, _after_cache(system.cache, each), leads=True, stop=each.stop)
        for each in made
    ]
    if role == "scheduler" and outside.watching is not None:
        roles.append(Role("kubernetes", outside.watching, leads=True))
    if role == "worker-controller":
        roles.append(Role("alerts", AlertLog(system.services).run, leads=True))
    return roles


def _after_cache(cache: Cache, controller: Controller) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        # Nothing is decided before everything was listed once (facts/aws-bugs.md#case-12).
        await cache.ready()
        await controller.run()

    return run
