"""Regions: summaries of what discovery and garbage collection found.

Read-only: the controllers scan, `kinds.region_rules` changes what a Region stores.
"""

from __future__ import annotations

from datetime import datetime

from labfleet.resources.leak import Leak
from labfleet.resources.meta import Record
from labfleet.resources.region import Deed, Region
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds.left_behind import LeftBehind, suspects


class RegionScan(Record, frozen=True, kw_only=True, rename=None):
    """One region's last scan.

    region: Name of the region.
    runs: Scans so far.
    discovered: Instances that the last scan found.
    imported: Workers made of instances so far.
    foreign: Instances of the last scan that belong to another installation.
    foreign_ids: The provider's names for those.
    ignored: Instances that are left alone.
    images: Images that ever matched.
    last_run_at: When the last scan was.
    last_error: Why the last scan failed; empty when it did not.
    """

    region: str
    runs: int
    discovered: int
    imported: int
    foreign: int
    foreign_ids: tuple[str, ...]
    ignored: tuple[str, ...]
    images: int
    last_run_at: datetime | None
    last_error: str


class DiscoverySummary(Record, frozen=True, kw_only=True, rename=None):
    """Discovery's settings and results, in upstream 002's words (`/admin/stats`).

    enabled: Whether the regions are scanned.
    paused: The pause that holds it up; null when none does.
    regions: Regions that are scanned.
    ami_name_pattern: Pattern over names of images.
    template: Template whose CML access imported workers get; null imports nothing.
    scan_interval_seconds: Time between two scans.
    runs: Scans so far of the region that was scanned most often.
    total_discovered: Instances that the last scans found.
    total_imported: Workers made of instances so far.
    total_orphans_terminated: Machines of ours that garbage collection or others ended.
    last_run_at: When the last scan was.
    last_error: Why the last scan failed; empty when it did not.
    settings_source: Where the settings came from.
    scans: The last scan of each region.
    """

    enabled: bool
    paused: str | None
    regions: tuple[str, ...]
    ami_name_pattern: str
    template: str | None
    scan_interval_seconds: int
    runs: int
    total_discovered: int
    total_imported: int
    total_orphans_terminated: int
    last_run_at: datetime | None
    last_error: str
    settings_source: str
    scans: tuple[RegionScan, ...]


class GarbageSummary(Record, frozen=True, kw_only=True):
    """Suspects, what happens to them next, what was removed, and leaked licences.

    enabled: Whether what is left behind is looked for.
    dry_run: Whether it is only shown and never ended.
    paused: The pause that holds it up; null when none does.
    waits: Region to why nothing is ended there now.
    suspects: What seems left behind.
    deeds: The newest ends that were asked for.
    ended: How many ends garbage collection has asked for.
    leaks: Licences that a person must free by hand.
    ended_outside: Machines of ours that others ended.
    """

    enabled: bool
    dry_run: bool
    paused: str | None
    waits: dict[str, str]
    suspects: tuple[LeftBehind, ...]
    deeds: tuple[Deed, ...]
    ended: int
    leaks: int
    ended_outside: int


def discovery(services: ServiceContext, caller: Caller) -> DiscoverySummary:
    """Return what discovery does and did."""
    access.demand(caller.principal, "read", "Region")
    wanted = services.settings.now().discovery
    scans = tuple(_scan(each) for each in _all(services))
    newest = max((each.last_run_at for each in scans if each.last_run_at), default=None)
    troubles = [f"{each.region}: {each.last_error}" for each in scans if each.last_error]
    sources = {each.status.scan.settings_source for each in _all(services) if each.status.scan.runs}
    return DiscoverySummary(
        enabled=wanted.enabled,
        paused=services.settings.paused(),
        regions=wanted.regions,
        ami_name_pattern=wanted.ami_name_pattern,
        template=wanted.template,
        scan_interval_seconds=wanted.scan_interval_seconds,
        runs=max((each.runs for each in scans), default=0),
        total_discovered=sum(each.discovered for each in scans),
        total_imported=sum(each.imported for each in scans),
        total_orphans_terminated=sum(
            each.status.ended + each.status.ended_outside for each in _all(services)
        ),
        last_run_at=newest,
        last_error="; ".join(troubles),
        settings_source=", ".join(sorted(sources)) or "default",
        scans=scans,
    )


def garbage(services: ServiceContext, caller: Caller) -> GarbageSummary:
    """Return every suspect, records whose instance is not seen, and the last removals."""
    access.demand(caller.principal, "read", "Region")
    wanted, now = services.settings.now().garbage, services.clock.now()
    deeds = sorted((deed for each in _all(services) for deed in each.status.deeds), key=_at)
    return GarbageSummary(
        enabled=wanted.enabled,
        dry_run=wanted.dry_run,
        paused=services.settings.paused(),
        waits={each.name: each.status.waits for each in _all(services) if each.status.waits},
        suspects=suspects(services.cache, now),
        deeds=tuple(deeds[-50:]),
        ended=sum(each.status.ended for each in _all(services)),
        ended_outside=sum(each.status.ended_outside for each in _all(services)),
        leaks=len(services.cache.all(Leak)),
    )


def _all(services: ServiceContext) -> list[Region]:
    return sorted(services.cache.all(Region), key=_name)


def _name(region: Region) -> str:
    return region.name


def _at(deed: Deed) -> datetime:
    return deed.at


def _scan(region: Region) -> RegionScan:
    scan = region.status.scan
    return RegionScan(
        region=region.name,
        runs=scan.runs,
        discovered=scan.discovered,
        imported=scan.imported,
        foreign=scan.foreign,
        foreign_ids=scan.foreign_ids,
        ignored=region.status.ignored,
        images=len(region.status.images),
        last_run_at=scan.last_run_at,
        last_error=scan.last_error,
    )
