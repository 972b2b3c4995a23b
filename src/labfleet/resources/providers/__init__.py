"""Where machines come from: the one place at which a provider's settings are registered.

Start at `aws`, the settings that most installations have. A provider is a settings type here, with
its rules in a `Provider` row, and a folder in `adapters`. Every settings type answers `region` and
`tags`; what else stands in it is for its adapter alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from labfleet.resources.providers import aws_limits, aws_words, static
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.providers.static import StaticSettings
from labfleet.resources.providers.words import Words

ProviderSettings = AwsSettings | StaticSettings
RESERVED = aws_limits.RESERVED
"""Beginnings of tag keys that are ours or a provider's own."""
Problems = tuple[tuple[str, str], ...]
"""(field as manifests spell it, what is wrong with it); empty when nothing is."""


ELSEWHERE = StaticSettings(site="external")
"""Where a server at an address is that nobody here switches or gives out."""


@dataclass(frozen=True, slots=True)
class Provider:
    """The rules of one provider's settings and names.

    `title` is its name for people, before a region's. `problems` judges settings that a machine is
    to be launched with, `tags` those of people.
    `region` and `machine` are what its regions and machines are called, each with an example.
    `place` and `types` are the fields of its settings that a table of templates shows,
    `instead` pairs of fields of which a body may have one. `tagged` machines have tags that other
    programs see and set too. `words` say what its codes mean. `makes`: a launched machine is new, so
    that all on it is ours; else it is a server that was there before.
    """

    settings: type[Any]
    title: str
    problems: Callable[[Any], Problems]
    tags: Callable[[Mapping[str, str], str], Problems]
    region: re.Pattern[str]
    region_example: str
    machine: re.Pattern[str]
    machine_example: str
    place: str
    types: str
    tagged: bool
    makes: bool
    words: Words = Words()
    instead: tuple[tuple[str, str], ...] = ()


PROVIDERS: Mapping[str, Provider] = {
    "aws": Provider(
        settings=AwsSettings,
        title="AWS",
        problems=aws_limits.template_problems,
        tags=aws_limits.tags,
        region=aws_limits.REGION,
        region_example="us-east-1",
        machine=re.compile(r"i-[0-9a-f]{8,17}"),
        machine_example="i-0abc1234def567890",
        place="region",
        types="instanceTypes",
        tagged=True,
        words=aws_words.WORDS,
        makes=True,
        instead=(("amiId", "amiNamePattern"), ("amiNamePattern", "amiId")),
    ),
    "static": Provider(
        settings=StaticSettings,
        title="Site",
        problems=static.problems,
        tags=static.tags,
        region=static.REGION,
        region_example="static-lab-a",
        machine=static.MACHINE,
        machine_example="cml-1.0abc1234def5",
        place="site",
        types="servers",
        tagged=False,
        makes=False,
    ),
}


def of(settings: ProviderSettings) -> Provider:
    """Return the provider that settings are for."""
    return PROVIDERS[kind_of(settings)]


def kind_of(settings: ProviderSettings) -> str:
    """Return the word by which documents name the settings' provider."""
    return str(type(settings).__struct_config__.tag)


def words_of(settings: ProviderSettings | None) -> Words:
    """Return the words of the settings' provider; those of none without settings."""
    return Words() if settings is None else of(settings).words


def first_type(settings: ProviderSettings) -> str | None:
    """Return the machine type that is asked for first; None when the provider has no types."""
    return settings.instance_types[0] if isinstance(settings, AwsSettings) else None


def machine_types(settings: ProviderSettings) -> tuple[str, ...]:
    """Return the machine types that may be launched; empty when the provider has no types."""
    return settings.instance_types if isinstance(settings, AwsSettings) else ()


def moved(settings: ProviderSettings, region: str) -> ProviderSettings:
    """Return the settings for another region of the same provider."""
    if isinstance(settings, StaticSettings):
        return msgspec.structs.replace(settings, site=region.removeprefix(static.PREFIX))
    return msgspec.structs.replace(settings, region=region)


def serving(region: str) -> str | None:
    """Return the word of the provider that has regions of this name; None when none has."""
    named = (word for word, each in PROVIDERS.items() if each.region.fullmatch(region))
    return next(named, None)


def serves(region: str) -> bool:
    """Tell whether some provider has regions of this name."""
    return serving(region) is not None


def knows(machine: str) -> bool:
    """Tell whether some provider gives its machines ids like this one."""
    return any(each.machine.fullmatch(machine) for each in PROVIDERS.values())


def paths(settings: str, what: str) -> str:
    """Return the paths of each provider's `place` or `types` under its settings, for a column."""
    fields = dict.fromkeys(getattr(each, what) for each in PROVIDERS.values())
    return "|".join(f"{settings}.{field}" for field in fields)


def reserved(tag: str) -> bool:
    """Tell whether a tag key is ours or a provider's own."""
    return tag.lower().startswith(RESERVED)


def examples(what: str) -> str:
    """Return an example of each provider's `region` or `machine` name, for messages."""
    return " or ".join(getattr(each, f"{what}_example") for each in PROVIDERS.values())
