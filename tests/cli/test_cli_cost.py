"""`cost` and `top pools`: money in 80 columns, and as CSV that adds up."""

from __future__ import annotations

import json


def sums(**more):
    """Some paid time as the server tells it."""
    return {"usd": 0.0, "used": 0.0, "idle": 0.0, "warming": 0.0, "stopped": 0.0, "licence": 0.0,
            "hours": 0.0, "unpricedHours": 0.0, **more}  # fmt: skip


def answer(**more):
    """A report of one pool."""
    month = sums(
        usd=1234.561234, used=1000.0, idle=200.0, warming=30.0, stopped=4.561234, hours=300
    )
    return {
        "start": "2026-11-01T00:00:00Z", "end": "2026-11-27T12:00:00Z", "currency": "USD",
        "pricesOf": "2026-07-20", "perHour": sums(usd=9.18, hours=2),
        "poolsNow": [{"name": "exam", "cost": sums(usd=9.18, used=4.59, idle=4.59, hours=2)}],
        "today": sums(usd=60.0), "month": month, "forecast": 1500.0, "saved": 77.0,
        "uncertain": 0.0, "by": "pool", "lines": [{"name": "exam", "cost": month}], "leftOut": 0,
        "unpriced": [], "incomplete": False, **more,
    }  # fmt: skip


def test_the_fleet_is_told_in_80_columns(run, stub):
    """One line says what holds for all, one each what a pool came to."""
    stub.answers["GET /api/v1/cost"] = (200, answer())
    told = run("cost")
    lines = told.out.splitlines()
    assert lines[0].split() == ["USD/HOUR", "TODAY", "MONTH", "FORECAST", "SAVED"]
    assert lines[1].split() == ["9.18", "60.00", "1234.56", "1500.00", "77.00"]
    assert lines[4].split() == ["exam", "1234.56", "1000.00", "200.00", "30.00", "4.56", "300.0"]
    assert max(len(line) for line in lines) <= 80
    assert "prices of 2026-07-20" in told.err


def test_what_nobody_knows_is_no_zero(run, stub):
    """An unknown forecast is a dash, and a missing price is named with its place."""
    stub.answers["GET /api/v1/cost"] = (
        200,
        answer(forecast=None, unpriced=["q9.metal in eu-west-1"], uncertain=1.5, lines=[]),
    )
    told = run("cost")
    assert told.out.splitlines()[1].split()[3] == "-"
    assert "price unknown for q9.metal in eu-west-1" in told.err
    assert "1.50 may be wrong" in told.err


def test_where_nothing_has_a_price_no_amount_is_told(run, stub):
    """Hour, day, month and lines of machines without a price are dashes, in CSV nothing."""
    odd = sums(hours=1, unpricedHours=1)
    lines = [{"name": "exam", "cost": odd}]
    stub.answers["GET /api/v1/cost"] = (
        200,
        answer(perHour=odd, today=odd, month=odd, lines=lines, poolsNow=lines),
    )
    told = run("cost").out.splitlines()
    assert told[1].split()[:3] == ["-", "-", "-"]
    assert told[4].split()[:2] == ["exam", "-"]
    assert run("cost", "-o", "csv").out.splitlines()[1].split(",")[:2] == ["exam", ""]
    cells = run("top", "pools").out.splitlines()[1].split()
    assert (cells[:3], cells[-1]) == (["exam", "1", "-"], "-")


def test_a_user_sees_the_own_sessions(run, stub):
    """Without the numbers of the fleet there is the own month, and no column pretends to more."""
    mine = answer(perHour=None, today=None, forecast=None, saved=None, by="session", poolsNow=[])
    stub.answers["GET /api/v1/cost"] = (200, mine)
    lines = run("cost").out.splitlines()
    assert lines[0] == "MONTH"
    assert lines[3].split()[0] == "SESSION"


def test_the_statement_as_csv_adds_up(run, stub):
    """Each row has its amount to a millionth, so that a spreadsheet's sum is the bill's."""
    rows = [
        {"pool": "exam", "worker": "w1", "machine": "i-1", "type": "m5zn.metal",
         "region": "us-east-1", "kind": kind, "hours": 1.0, "usd": usd}
        for kind, usd in (("used", 4.3605), ("idle", 0.333333), ("stopped", None))
    ]  # fmt: skip
    statement = {"month": "2026-11", "usd": 4.693833, "rows": rows, "pricesOf": "2026-07-20",
                 "uncertain": 0.0, "unpriced": [], "incomplete": False, "leftOut": 0}  # fmt: skip
    stub.answers["GET /api/v1/cost/statement"] = (200, statement)
    lines = run("cost", "--statement", "-o", "csv").out.splitlines()
    assert lines[0] == "MONTH,POOL,WORKER,TYPE,MACHINE,REGION,KIND,HOURS,USD"
    total = sum(float(line.split(",")[-1] or 0) for line in lines[1:])
    assert round(total, 6) == 4.693833
    assert lines[3].endswith(",")


def test_top_pools_shows_an_hour_of_each(run, stub):
    """What an hour of a pool costs, split, with its month so far."""
    stub.answers["GET /api/v1/cost"] = (200, answer())
    lines = run("top", "pools").out.splitlines()
    assert lines[1].split() == ["exam", "2", "9.18", "4.59", "4.59", "0.00", "0.00", "1234.56"]
    assert max(len(line) for line in lines) <= 80


def test_the_prices_are_printed_as_a_file(run, stub):
    """What `--prices` prints is what the setting `prices_file` takes."""
    listed = {"asOf": "2026-07-20", "currency": "USD", "regions": {}, "licences": {}}
    stub.answers["GET /api/v1/cost/prices"] = (200, listed)
    assert json.loads(run("cost", "--prices").out) == listed


def test_options_that_exclude_each_other_are_refused(run, stub):
    """A statement is of the whole fleet: by, pool and it do not go together."""
    assert run("cost", "--statement", "--by", "pool").code == 2
    assert run("cost", "--prices", "--month", "2026-10").code == 2


def planned(**more):
    """A plan as the server tells it."""
    return {
        "pool": "exam", "definition": "ccnp", "sessions": 200, "fits": True, "fit": 200,
        "start": "2027-03-01T09:00:00Z", "end": "2027-03-01T12:00:00Z", "why": "", "maximum": 20,
        "needed": 19, "added": 19, "peak": 19, "perWorker": 11, "lead": "", "unpriced": "",
        "workersStart": "2027-03-01T08:20:00Z", "workersEnd": "2027-03-01T12:10:00Z",
        "usd": 317.6, "cheaper": [{"what": "machines of type m8i.12xlarge", "workers": 19,
                                   "usd": 185.0}], **more,
    }  # fmt: skip


ASK = (
    "plan",
    "pool",
    "exam",
    "--at",
    "2027-03-01T09:00",
    "--sessions",
    "200",
    "--definition",
    "ccnp",
)


def test_a_plan_is_told_line_by_line(run, stub):
    """Whether it fits, what it needs, from when, what it costs, and what would cost less."""
    stub.answers["GET /api/v1/pools/exam/plan"] = (200, planned())
    told = run(*ASK)
    assert told.code == 0
    assert "200 sessions of ccnp in pool exam, fits" in told.out
    assert "2027-03-01 08:20Z" in told.out
    assert "317.60 US dollars" in told.out
    assert "m8i.12xlarge: 19 workers, 185.00" in told.out
    assert max(len(line) for line in told.out.splitlines()) <= 80


def test_a_plan_that_does_not_fit_ends_otherwise(run, stub):
    """A script sees by the exit code that not all sessions fit, and a person what is short."""
    stub.answers["GET /api/v1/pools/exam/plan"] = (
        200,
        planned(fits=False, fit=110, why="pool exam is short of memory " * 5, usd=None,
                unpriced="q9.metal in us-east-1", cheaper=[]),
    )  # fmt: skip
    told = run(*ASK)
    assert told.code == 3
    assert "110 of 200" in told.out
    assert "short of memory" in told.out
    assert max(len(line) for line in told.out.splitlines()) <= 80
    assert "price unknown for q9.metal in us-east-1" in told.out


def test_a_plan_is_of_one_pool(run, stub):
    """Without a pool, or of something else, it says how to ask."""
    assert run("plan", *ASK[3:]).code == 2
    assert run("plan", "worker", "w1", *ASK[3:]).code == 2
