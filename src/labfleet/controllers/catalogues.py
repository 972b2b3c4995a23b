"""Records which node and image definitions servers have, by machine image, and forgets old ones.

Runs with the workers' leader, under one key and not in a worker's steps: each server is asked once
a boot and then rarely. Every write is made from what was just seen, so a crash costs one look. What
is known of an image is kept after its workers are gone: the next lab is judged by it before a
machine is launched.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from labfleet.controllers.context import Context
from labfleet.controllers.worker.address import address_of
from labfleet.decisions import catalogues
from labfleet.decisions.lifecycle.worker import phases
from labfleet.engine.controller import Again, Done
from labfleet.kernel import errors
from labfleet.resources import image as images
from labfleet.resources import refs
from labfleet.resources.image import Catalogue, Image
from labfleet.resources.meta import Key, Metadata
from labfleet.resources.pool import Pool
from labfleet.resources.providers import ProviderSettings
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker
from labfleet.service.kinds import catalogues as known
from labfleet.service.kinds import indices

KEY = Key("Image", "", "catalogues")
ACTOR = "worker-controller"
EVERY = 60.0
LOOK_AGAIN = timedelta(hours=1)
TRY_AGAIN = timedelta(minutes=5)
RESOLVE = timedelta(minutes=15)
LOOKS = 40
"""Servers asked in one round."""
AT_ONCE = 4
KEPT = timedelta(days=90)
"""How long after its last worker was seen an image is remembered."""
IMAGES_KEPT = 500


@dataclass(frozen=True, slots=True)
class _Look:
    boot: str | None
    again: datetime


class CatalogueController:
    """Looks at servers, resolves the images of templates, removes what is old."""

    def __init__(self, context: Context) -> None:
        self.context = context
        # This process's memory; losing it costs one look at each server.
        self._looks: dict[Key, _Look] = {}
        self._resolve_at: datetime | None = None
        self._resolved: dict[Key, int] = {}

    async def reconcile(self, key: Key) -> Done | Again:
        """Do one bounded round."""
        del key
        now = self.context.clock.now()
        due = self._due(now)
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(worker: Worker) -> tuple[Worker, Catalogue | None]:
            async with gate:
                return worker, await self._look(worker)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(each)) for each in due[:LOOKS]]
        for task in tasks:
            worker, found = task.result()
            after = TRY_AGAIN if found is None else LOOK_AGAIN
            self._looks[worker.key] = _Look(worker.status.cml.boot, now + after)
            if found is not None:
                await self._record(worker, found)
        await self._resolve(now)
        await self._forget(now)
        return Again(0.0 if len(due) > LOOKS else EVERY)

    def _due(self, now: datetime) -> list[Worker]:
        """Return the servers to be asked: those of a new boot, and those not asked for long."""
        living = {
            each.key: each
            for each in self.context.cache.by(indices.WORKERS_LIVING, True)
            if each.status.phase in phases.HOSTING and each.status.cml.ready
            and images.of_worker(each) is not None
        }  # fmt: skip
        self._looks = {key: each for key, each in self._looks.items() if key in living}
        found = []
        for key, worker in living.items():
            before = self._looks.get(key)
            if before is None or before.boot != worker.status.cml.boot or before.again <= now:
                found.append(worker)
        return found

    async def _look(self, worker: Worker) -> Catalogue | None:
        """Return what a server has; None when it did not say."""
        machine = worker.spec.machine
        if machine is None:
            return None
        try:
            where = address_of(self.context, worker, machine, worker.status.machine)
            return None if where is None else await self.context.hosts.at(where).catalogue()
        except errors.LabfleetError:
            return None

    async def _record(self, worker: Worker, found: Catalogue) -> None:
        """Write what was seen, if it is new; somebody else's write wins, and the next look counts."""
        named = images.of_worker(worker)
        if named is None:
            return
        now = self.context.clock.now()
        old = self.context.cache.find(named) or Image(
            metadata=Metadata(
                name=named.name,
                namespace=named.namespace,
                uid=self.context.ids.uid(),
                generation=1,
                creation_timestamp=now,
            )
        )
        version = worker.status.cml.version or ""
        status = catalogues.looked(
            old.status, found, worker=worker.key.label, version=version, now=now
        )
        if status != old.status:
            fresh = msgspec.structs.replace(old, status=status)
            await self._write(fresh, f"its definitions were read on {worker.key.label}")

    async def _resolve(self, now: datetime) -> None:
        """Note which image the next worker of each template in use would get."""
        used = {
            template.key: template
            for pool in self.context.cache.all(Pool)
            if not pool.deleting and (template := self.context.cache.find(refs.template_of(pool)))
        }
        due = self._resolve_at is None or now >= self._resolve_at
        if due:
            self._resolve_at = now + RESOLVE
        for key, template in used.items():
            generation = template.metadata.generation
            named = known.named_image(template) is not None
            if named or (not due and self._resolved.get(key) == generation):
                continue
            self._resolved[key] = generation
            image = await self._image(template.spec.machine.provider)
            before = template.status
            status = msgspec.structs.replace(before, image=image, observed_generation=generation)
            if status != before and {image, before.image} != {None}:
                fresh = msgspec.structs.replace(template, status=status)
                await self._write(fresh, f"its image is {status.image or 'not known'}")
        self._resolved = {key: each for key, each in self._resolved.items() if key in used}

    async def _image(self, settings: ProviderSettings) -> str | None:
        try:
            return await self.context.compute.image(settings)
        except errors.LabfleetError:
            return None  # the launch itself will say what is wrong

    async def _forget(self, now: datetime) -> None:
        """Remove the images that nobody has used for long, and the oldest beyond the bound."""
        cache = self.context.cache
        ours = list(cache.all(Image))
        old = [each for each in ours if (each.status.last_seen_at or now) < now - KEPT]
        if len(ours) - len(old) > IMAGES_KEPT:
            rest = sorted((each for each in ours if each not in old), key=_seen)
            old += rest[: len(rest) - IMAGES_KEPT]
        for each in old:
            metadata = msgspec.structs.replace(each.metadata, deletion_timestamp=now)
            await self._write(
                msgspec.structs.replace(each, metadata=metadata),
                "no worker of it was seen for long",
            )

    async def _write(self, fresh: Image | Template, reason: str) -> None:
        try:
            await self.context.write(fresh, actor=ACTOR, reason=reason)
        except errors.Fenced:
            raise
        except errors.Conflict:
            return


def _seen(image: Image) -> tuple[str, str]:
    at = image.status.last_seen_at
    return ("" if at is None else at.isoformat(), image.name)
