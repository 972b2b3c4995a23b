"""Template: what a new worker is made of."""

from __future__ import annotations

from labfleet.resources import providers
from labfleet.resources.conditions import Condition
from labfleet.resources.declaration import Kind, columns
from labfleet.resources.machine import Machine
from labfleet.resources.meta import Record, Resource


class TemplateSpec(Record, frozen=True, kw_only=True):
    """A machine to make workers from; a disabled template makes no new ones.

    machine: The machine that a new worker gets a copy of.
    description: What the template is for, for people.
    enabled: Whether new workers may be made of it.
    """

    machine: Machine
    description: str = ""
    enabled: bool = True


class TemplateStatus(Record, frozen=True, kw_only=True):
    """What is known of the next worker.

    conditions: Facts about it, each with its reason.
    image: Machine image that it would get now; null when the template was changed since, when the
    provider did not say, or has no images.
    observed_generation: Generation of the spec that this status is about.
    """

    conditions: tuple[Condition, ...] = ()
    image: str | None = None
    observed_generation: int = 0


class Template(Resource, frozen=True, kw_only=True):
    """What a new worker is made of (facts/upstream.md#templates-and-placement)."""

    spec: TemplateSpec
    status: TemplateStatus = TemplateStatus()
    kind: str = "Template"


_SETTINGS = "spec.machine.provider"
KIND = Kind(
    name="Template",
    plural="templates",
    short=("t",),
    type=Template,
    summary="What a new worker is made of.",
    columns=columns(
        "ENABLED=spec.enabled",
        f"TYPES={providers.paths(_SETTINGS, 'types')}",
        f"REGION={providers.paths(_SETTINGS, 'place')}",
        "USD/H=spec.machine.hourlyPriceUsd",
    ),
    amounts=(("machine.capacity", True),),
)
