"""`cost`: what the fleet costs now, today and this month, by pool, session, person or course.

The statement of a month has a row for each machine and kind of time; as CSV its rows add up to the
bill. Amounts are US dollars; what has no price is said under the table and is in no sum.
"""

from __future__ import annotations

from typing import Any

import click
import msgspec

from labfleet.cli.kit import exits, output
from labfleet.cli.kit.call import Call, connected

KINDS = ("used", "idle", "warming", "stopped", "licence")
PATH = "/api/v1/cost"


@click.command("cost", short_help="Show what the fleet costs: now, today, this month.")
@click.option("--by", type=click.Choice(["pool", "session", "person", "course"]), default=None,
              help="What the lines are about. Default: pool; for users session.")  # fmt: skip
@click.option("--pool", metavar="NAME", help="Only this pool.")
@click.option("--month", metavar="YYYY-MM", default="", help="Another month than this one.")
@click.option("--statement", is_flag=True, help="A row for each machine and kind of time.")
@click.option("--prices", is_flag=True, help="The price list in force, as a file of prices.")
@connected
def cost(
    call: Call, *, by: str | None, pool: str | None, month: str, statement: bool, prices: bool
) -> int:
    """Show what machines cost: per hour as they stand, today, this month, and to its end as booked.

    USED is time with sessions, WARMING from a machine's start until it could host its first one,
    IDLE the rest, STOPPED the disks of stopped machines. SAVED is what machines would have cost
    while the idle rule had them stopped. Users see their own sessions.
    """
    wrong = statement and (by or pool)
    if wrong or (prices and (statement or by or pool or month)):
        raise exits.usage(
            "--statement takes --month alone, --prices nothing", "Leave the others out."
        )
    if prices:
        listed = msgspec.json.encode(call.api.get(f"{PATH}/prices"))
        output.say(msgspec.json.format(listed, indent=2).decode())
        return exits.OK
    if statement:
        return _statement(call, call.api.get(f"{PATH}/statement", month=month))
    answer = call.api.get(PATH, by=by, pool=pool, month=month)
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    plain = call.out.format == "csv"
    if not plain:
        _summary(call, answer)
    titles = [str(answer["by"]).upper(), "USD", *(each.upper() for each in KINDS[:4]), "HOURS"]
    wide = plain or call.out.format == "wide"
    titles += ["LICENCE", "UNPRICED(H)"] if wide else []
    rows = []
    for each in answer.get("lines") or []:
        found = each["cost"]
        cells = [str(each["name"]) or "(none)", known(found, plain=plain)]
        cells += [usd(found.get(kind), plain=plain) for kind in KINDS[:4]]
        cells += [f"{found.get('hours', 0):.1f}"]
        rows.append([*cells, usd(found.get("licence"), plain=plain),
                     f"{found.get('unpricedHours', 0):.1f}"] if wide else cells)  # fmt: skip
    call.out.table(titles, rows)
    notes(call, answer)
    call.out.left_out(answer, "lines")
    return exits.OK


def _summary(call: Call, answer: dict[str, Any]) -> None:
    """Print the numbers of the whole fleet over the lines."""
    month = answer.get("month") or {}
    hour, today = answer.get("perHour"), answer.get("today")
    titles = ["USD/HOUR", "TODAY", "MONTH", "FORECAST", "SAVED"]
    row = [
        known(hour), known(today), known(month),
        usd(answer.get("forecast")), usd(answer.get("saved")),
    ]  # fmt: skip
    if hour is None and today is None:
        titles, row = ["MONTH"], [known(month)]
    call.out.table(titles, [row])
    click.echo()


def _statement(call: Call, answer: dict[str, Any]) -> int:
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    plain = call.out.format == "csv"
    short = ["POOL", "WORKER", "TYPE", "KIND", "HOURS", "USD"]
    rows = []
    for each in answer.get("rows") or []:
        price = "-" if each.get("usd") is None else f"{each['usd']:.6f}"
        hours = f"{each['hours']:.4f}" if plain else f"{each['hours']:.1f}"
        cells = [str(each["pool"]) or "-", str(each["worker"]), str(each["type"])]
        rows.append(
            [str(answer["month"]), *cells, str(each["machine"]), str(each["region"]), each["kind"],
             hours, "" if each.get("usd") is None else price]
            if plain else [*cells, str(each["kind"]), hours, usd(each.get("usd"))]
        )  # fmt: skip
    titles = ["MONTH", *short[:3], "MACHINE", "REGION", *short[3:]] if plain else short
    call.out.table(titles, rows)
    call.out.note(f"{answer['month']}: {usd(answer.get('usd'))} US dollars")
    notes(call, answer)
    call.out.left_out(answer, "rows")
    return exits.OK


def usd(amount: Any, *, plain: bool = False) -> str:
    """Return an amount in US dollars to the cent, in CSV to a millionth; `-` where none is known."""
    if amount is None:
        return "" if plain else "-"
    return f"{amount:.6f}" if plain else f"{amount:.2f}"


def known(found: dict[str, Any] | None, *, plain: bool = False) -> str:
    """Return what some paid time comes to; none is known where nothing of it has a price."""
    amount = None if found is None else found.get("usd", 0.0)
    lacking = found is not None and found.get("unpricedHours", 0.0)
    return usd(amount or (None if lacking else amount), plain=plain)


def hour_cells(found: dict[str, Any], *, plain: bool) -> list[str]:
    """Return how many machines run, what an hour costs, and that by kind of time."""
    cells = [f"{found.get('hours', 0):.0f}", known(found, plain=plain)]
    return cells + [usd(found.get(kind, 0.0), plain=plain) for kind in KINDS[:4]]


def notes(call: Call, answer: dict[str, Any]) -> None:
    """Say what the sums leave out, of which day the prices are, and how sure the times are."""
    for each in answer.get("unpriced") or []:
        call.out.note(f"price unknown for {each}: in no sum")
    if answer.get("incomplete"):
        call.out.note("the ledger has more rows than one answer reads: the sums are too small")
    doubt = answer.get("uncertain") or 0.0
    if doubt >= 0.005:
        call.out.note(f"{usd(doubt)} may be wrong: starts of machines were not seen to the second")
    call.out.note(f"US dollars, times of UTC; prices of {answer.get('pricesOf')}")
