"""Discovery: scan regions for instances of known images, and import those without a worker.

Only the leader runs it. A region's error is kept as its last error and stops no other region.
Image ids are remembered, because a deregistered image disappears while its instances run.
Imports use the same service function as the internal route; the worker controller then manages
the imported workers (upstream 002, facts/upstream.md#discovery-settings and #orphans).
"""

from __future__ import annotations

from labfleet.controllers import region_records
from labfleet.controllers.context import Context
from labfleet.decisions import discovery
from labfleet.engine.controller import Again, Done
from labfleet.kernel import errors
from labfleet.resources import region as regions
from labfleet.resources.fleet_settings import Discovery, sources
from labfleet.resources.meta import Key
from labfleet.resources.region import IMAGES_KEPT
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import adoption

KEY = Key("Region", "", "discovery")
ACTOR = "discovery"
SOURCE = "worker-controller-discovery"
IDLE_SECONDS = 60.0


class DiscoveryController:
    """Reconciles the regions of the settings with our workers."""

    def __init__(self, context: Context, services: ServiceContext) -> None:
        self.context = context
        self._services = services

    async def reconcile(self, key: Key) -> Done | Again:
        """Scan every region once; run again after the interval in the settings."""
        del key
        wanted = self.context.settings.now().discovery
        if not wanted.enabled or self.context.settings.paused() is not None:
            return Again(IDLE_SECONDS)
        for region in dict.fromkeys(wanted.regions):
            if self.context.settings.paused() is not None:
                break  # paused while the previous region was scanned
            await self._scan(region, wanted)
        return Again(float(wanted.scan_interval_seconds))

    async def _scan(self, region: str, wanted: Discovery) -> None:
        state = discovery.Scan(source=self._source())
        try:
            await self._look(region, wanted, state)
        except errors.Fenced:
            raise
        except errors.LabfleetError as problem:
            state.trouble = problem
        now = self.context.clock.now()
        told = f"imported {', '.join(state.made[:5])}" if state.made else "scanned"
        if state.trouble is not None:
            told = f"scan failed: {state.trouble.message}"
        try:
            await region_records.change(
                self.context,
                region,
                lambda status: discovery.scanned(status, state, now),
                actor=ACTOR,
                reason=told,
            )
        except errors.Fenced:
            raise
        except errors.LabfleetError:
            return  # the next scan tells it

    async def _look(self, region: str, wanted: Discovery, state: discovery.Scan) -> None:
        compute = self.context.compute
        named = await compute.images(region, wanted.ami_name_pattern, wanted.ami_owners)
        kept = await self.context.objects.find(regions.ref(region))
        before = () if kept is None else kept.status.images
        state.images = discovery.remembered(before, (each.id for each in named), IMAGES_KEPT)
        if not state.images:
            state.compared = True
            return
        found = await compute.candidates(region, state.images)
        state.found = len(found)
        imported = await adoption.bulk_import(
            self._services,
            Caller(access.SYSTEM),
            found,
            region=region,
            source=SOURCE,
            installation=self.context.installation,
            fence=self.context.fence(),
        )
        state.made, state.foreign = imported.names, imported.foreign
        state.ignored, state.compared = len(imported.ignored), True

    def _source(self) -> str:
        settings = self.context.settings
        return sources(settings.stored, settings.environment)["discovery.regions"]
