"""Reading the fleet's settings: the effective values, their sources, and what is paused.

It writes nothing; `settings_verbs` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from labfleet.engine.cache import Cache
from labfleet.interfaces import store as stores
from labfleet.kernel.clock import parse_instant, utc_text
from labfleet.resources import fleet_settings, setting_units
from labfleet.resources.automation import Automation
from labfleet.resources.fleet_settings import FleetSettings, Layer, Settings, effective
from labfleet.resources.meta import DEFAULT_NAMESPACE, Record, Ref
from labfleet.resources.pool import PAUSED_MARK, Pool

KEY = fleet_settings.REF.key
# On the settings: the instant that people said a host's clock shows rightly.
CONFIRMED_MARK = "labfleet.dev/clock-confirmed"


class Pause(Record, frozen=True, kw_only=True):
    """One pause: of everything, or of one pool. `text` is a sentence for people.

    pool: Name of the pool; null means everything.
    namespace: Namespace of the pool.
    text: Sentence for people.
    reason: Why, in the words of whoever paused it.
    by: Who paused it.
    since: Since when it rests.
    """

    pool: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    text: str
    reason: str = ""
    by: str = ""
    since: datetime | None = None


class SettingValue(Record, frozen=True, kw_only=True):
    """One setting's effective value. `variable` is the environment variable it is from, if any.

    setting: Name of the setting, for example idle.timeoutMinutes.
    value: The value in force.
    unit: Unit in which it counts; empty when it is no amount.
    source: Where the value is from.
    variable: Environment variable that it is from, if any.
    default: The value when nobody says anything.
    note: What the value will not do; empty for most.
    """

    setting: str
    value: Any
    unit: str
    source: Literal["settings", "environment", "default"]
    variable: str | None = None
    default: Any = None
    note: str = ""


class SettingsReader:
    """The effective settings, from the cache; recomputed only when the stored object changed."""

    def __init__(
        self,
        cache: Cache,
        environment: Layer | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Take the cache and the environment's layer, which the composition root has read.

        `variables` says which variable gave a value of that layer.
        """
        self._cache = cache
        self.environment: Layer = environment or {}
        self.variables: Mapping[str, str] = variables or {}
        self._at: int | None = None
        self._now = effective(None, self.environment)

    @property
    def stored(self) -> Settings | None:
        """Return the stored object, None while nobody has set anything."""
        return self._cache.find(fleet_settings.REF)

    def now(self) -> FleetSettings:
        """Return the effective settings."""
        stored = self._cache.at(KEY)
        revision = 0 if stored is None else stored.revision
        if revision != self._at:
            self._now = effective(self.stored, self.environment)
            self._at = revision
        return self._now

    def paused(self, pool: Ref[Pool] | None = None) -> str | None:
        """Return why automatic actions (of a pool) are paused, or None when they are not."""
        automation = self.now().automation
        if automation.paused:
            return _everything(automation).text
        found = self._cache.find(pool)
        if found is not None and found.spec.paused:
            return _one_pool(found).text
        return None

    def pauses(self) -> tuple[Pause, ...]:
        """Return every pause, that of the whole fleet first."""
        automation = self.now().automation
        found = [_everything(automation)] if automation.paused else []
        pools = [each for each in self._cache.all(Pool) if each.spec.paused]
        return (*found, *(_one_pool(each) for each in sorted(pools, key=lambda each: each.key)))

    def unchanged(self) -> stores.AtRevision:
        """Return the precondition of an automatic action: the settings did not change meanwhile."""
        stored = self.stored
        return stores.AtRevision(KEY, 0 if stored is None else stored.revision)

    def clock_confirmed(self) -> datetime | None:
        """Return the instant that people last confirmed as the time, None when they never did."""
        stored = self.stored
        mark = "" if stored is None else stored.metadata.annotations.get(CONFIRMED_MARK, "")
        try:
            return parse_instant(mark) if mark else None
        except ValueError:
            return None  # somebody wrote the annotation by hand

    def listed(self, notes: Mapping[str, str] | None = None) -> tuple[SettingValue, ...]:
        """Return every setting with its effective value and source, and the given notes."""
        now, default = self.now(), FleetSettings()
        origin = fleet_settings.sources(self.stored, self.environment)
        return tuple(
            SettingValue(
                setting=path,
                value=fleet_settings.value_at(now, path),
                unit=setting_units.unit_of(path),
                source=origin[path],
                variable=self.variables.get(path) if origin[path] == "environment" else None,
                default=fleet_settings.value_at(default, path),
                note=(notes or {}).get(path, ""),
            )
            for path, _, _ in fleet_settings.settings_fields()
        )


def _everything(automation: Automation) -> Pause:
    said = "automatic actions are paused"
    if automation.since is not None:
        said += f" since {utc_text(automation.since)}"
    said += f" by {automation.by}" if automation.by else ""
    said += f": {automation.reason}" if automation.reason else ""
    return Pause(text=said, reason=automation.reason, by=automation.by, since=automation.since)


def _one_pool(pool: Pool) -> Pause:
    mark = pool.metadata.annotations.get(PAUSED_MARK, "")
    text = f"pool {pool.key.label} is paused{mark}"
    return Pause(pool=pool.name, namespace=pool.namespace, text=text, reason=mark)
