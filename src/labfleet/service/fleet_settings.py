"""Reading the fleet's settings: what holds now, and whether automatic actions are paused."""

from __future__ import annotations

from labfleet.engine.cache import Cache
from labfleet.resources.fleet_settings import NAME, FleetSettings, Layer, Settings, effective
from labfleet.resources.pool import Pool


class SettingsReader:
    """What holds now, from the cache; computed anew only when the stored object changed."""

    def __init__(self, cache: Cache, environment: Layer | None = None) -> None:
        """Take the cache and the environment's layer, which the roof has read."""
        self._cache = cache
        self.environment: Layer = environment or {}
        self._at: int | None = None
        self._now = effective(None, self.environment)

    @property
    def stored(self) -> Settings | None:
        """Return the stored object, None while nobody has set anything."""
        return self._cache.get(Settings, NAME)

    def now(self) -> FleetSettings:
        """Return what holds."""
        stored = self.stored
        revision = 0 if stored is None else stored.revision
        if revision != self._at:
            self._now = effective(stored, self.environment)
            self._at = revision
        return self._now

    def paused(self, pool: str | None = None) -> str | None:
        """Return why automatic actions (of a pool) are paused, or None when they are not."""
        automation = self.now().automation
        if automation.paused:
            return automation.reason or "automatic actions are paused"
        found = None if pool is None else self._cache.get(Pool, pool)
        if found is not None and found.spec.paused:
            return f"pool {found.name} is paused"
        return None
