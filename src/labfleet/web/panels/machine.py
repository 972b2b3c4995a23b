"""The tab of a worker's machine: instance, checks, addresses, image, disk, costs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from labfleet.resources.meta import Resource
from labfleet.resources.prices import PriceList
from labfleet.resources.providers import PROVIDERS
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import paid_rows
from labfleet.service.reads import telemetry
from labfleet.web import sheet, values
from labfleet.web.panels.monitoring import said
from labfleet.web.sheet import Facts, Head, Part, Sheet
from labfleet.web.values import Cell
from labfleet.web.view import Asked
from labfleet.web.views.summary import usd

_UNSEEN = "the provider was not looked at yet"
_NOT_PAID = Cell("text", "it does not run, or that is not paid here")
_STATES = {
    "running": ("good", "●"), "booting": ("busy", "◔"), "stopping": ("busy", "◑"),
    "stopped": ("calm", "■"), "ending": ("busy", "◑"), "gone": ("calm", "■"),
}  # fmt: skip
_NUMBERS = {"ec2Cpu": "CPU", "networkIn": "Network in", "networkOut": "Network out"}


async def make(services: ServiceContext, _caller: Caller, obj: Resource, _asked: Asked) -> Sheet:
    """Return the tab of a worker."""
    assert isinstance(obj, Worker)  # noqa: S101 - the table names this kind alone
    now = services.clock.now()
    parts = [
        Part("Instance", facts=_instance(obj, now)),
        Part("Checks", facts=_checks(obj)),
        _events(obj, now),
        Part("Addresses", facts=_addresses(obj)),
        Part("Disk", facts=_disk(obj)),
        Part("Costs", facts=_costs(obj, services.prices, now)),
        Part("What the provider measured", facts=_measured(services, obj, now)),
        _tags(obj),
    ]
    name = obj.key.argument
    return Sheet("Machine", "", tuple(parts), commands=(f"labfleet logs worker/{name}",))


def _instance(worker: Worker, now: datetime) -> Facts:
    seen, machine = worker.status.machine, worker.spec.machine
    facts: list[tuple[str, Cell]] = []
    if machine is not None:
        provider = getattr(machine.provider.__struct_config__, "tag", "")
        known = PROVIDERS.get(str(provider))
        facts.append(("Provider", Cell("text", known.title if known else str(provider))))
        facts.append(("Region", sheet.text(machine.provider.region)))
    state = Cell("unknown", "unknown", why=_UNSEEN)
    if seen.state is not None:
        tone, shape = _STATES[seen.state]
        state = Cell("state", seen.state, tone=tone, shape=shape)
    facts += [
        ("Machine", sheet.text(seen.id, why="none was launched, or its name is not known")),
        ("State", state),
        ("Type", sheet.text(seen.type, why=_UNSEEN)),
        ("Image", sheet.text(seen.image, why=_UNSEEN)),
        ("Zone", sheet.text(seen.zone, why=_UNSEEN)),
        ("Launched", _at(seen.launched, now)),
    ]
    if seen.state_reason:
        facts.append(("Reason of the state", Cell("text", seen.state_reason)))
    if seen.absent_since is not None:
        facts.append(("Not listed since", values.instant(seen.absent_since, now)))
    return tuple(facts)


def _at(at: datetime | None, now: datetime) -> Cell:
    return Cell("unknown", "unknown", why=_UNSEEN) if at is None else values.instant(at, now)


def _checks(worker: Worker) -> Facts:
    seen = worker.status.machine
    return (
        ("The host's", _check(seen.host_check)),
        ("The machine's", _check(seen.machine_check)),
        ("CML's, failed in a row", Cell("text", str(worker.status.failed_checks))),
    )


def _check(word: str | None) -> Cell:
    if word is None:
        return Cell("unknown", "unknown", why=_UNSEEN)
    tone, shape = {"ok": ("good", "●"), "impaired": ("bad", "✕")}.get(word, ("calm", "○"))
    return Cell("state", word, tone=tone, shape=shape)


def _events(worker: Worker, now: datetime) -> Part:
    return Part(
        "What the provider will do to it",
        heads=(Head("What", 4), Head("Not before", 3), Head("In its words", 5)),
        rows=tuple(
            (
                Cell("text", each.code),
                Cell("unknown", "unknown", why="the provider names no time")
                if each.not_before is None
                else values.instant(each.not_before, now),
                sheet.text(each.description),
            )
            for each in worker.status.machine.events
        ),
        empty="Nothing that it has told.",
        caption="Events that the provider has announced",
    )


def _addresses(worker: Worker) -> Facts:
    seen = worker.status.machine
    return (
        ("Public", sheet.text(seen.public_address, why="none, or not seen yet")),
        ("Private", sheet.text(seen.private_address, why="none, or not seen yet")),
        ("CML", sheet.text(worker.status.cml.url, why="it has no address yet")),
    )


def _disk(worker: Worker) -> Facts:
    machine = worker.spec.machine
    facts: list[tuple[str, Cell]] = [
        ("Volume", sheet.text(worker.status.machine.volume, why=_UNSEEN))
    ]
    provider: Any = None if machine is None else machine.provider
    if isinstance(provider, AwsSettings):
        facts += [
            ("Wanted size", Cell("text", f"{provider.volume_size_gib} GiB")),
            ("Wanted type", Cell("text", provider.volume_type)),
            ("Wanted operations a second", Cell("text", str(provider.volume_iops))),
        ]
    return tuple(facts)


def _costs(worker: Worker, listed: PriceList, now: datetime) -> Facts:
    seen, machine, paid = worker.status.machine, worker.spec.machine, worker.status.paid
    price = paid_rows.hourly_usd(machine, seen.type, listed)
    stated = machine is not None and machine.hourly_price_usd > 0
    facts = [("While it runs", usd(price))]
    if price is not None:
        source = "its template" if stated else f"price list of {listed.as_of}"
        facts.append(("Price from", Cell("text", source)))
    since = None if paid is None else paid.running_since
    facts.append(("Paid as running since", _at(since, now) if since else _NOT_PAID))
    if price is not None and since is not None:
        hours = max(0.0, (now - since).total_seconds()) / 3600
        so_far = usd(price * hours, unit="USD")
        facts.append((f"Since then, {values.number(hours)} h at that price", so_far))
    facts.append(("Disk as wanted", _disk_price(worker, listed)))
    return tuple(facts)


def _disk_price(worker: Worker, listed: PriceList) -> Cell:
    month = paid_rows.disk_month(worker.spec.machine, listed)
    if month is None:
        return Cell("unknown", "unknown", why="the price list does not name it")
    return usd(float(month), unit="USD/month")


def _measured(services: ServiceContext, worker: Worker, now: datetime) -> Facts:
    numbers = telemetry.numbers_of(services, worker)
    facts: list[tuple[str, Cell]] = []
    for name, title in _NUMBERS.items():
        number = numbers[name]
        if number.value is None or number.at is None:
            facts.append((title, Cell("unknown", "unknown", why=number.reason)))
            continue
        moment = values.instant(number.at, now)
        shown = f"{said(number.unit, number.value)}"
        facts.append(
            (title, Cell("used", shown, at=moment.at, exact=moment.exact, age=moment.text,
                         why=number.source or ""))
        )  # fmt: skip
    return tuple(facts)


def _tags(worker: Worker) -> Part:
    seen = worker.status.machine.tags_seen
    return Part(
        "Tags",
        heads=(Head("Tag", 4), Head("Value", 5)),
        rows=tuple((Cell("text", key), sheet.text(text)) for key, text in (seen or {}).items()),
        empty="Unknown: machines of this provider have no tags, or it was not looked at yet."
        if seen is None
        else "It has none.",
        caption="All tags that the provider shows",
    )
