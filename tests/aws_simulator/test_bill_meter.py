"""The simulator's meter by itself: what AWS bills, second by second."""

from aws_simulator import meter

NOON = 1_793_880_000  # 2026-11-05T12:00:00Z
PRICES = {"instances": {"m": "3.60"}, "volumes": {"d": {"gib": "30", "iops": "0"}}}


def billed(runs, volumes=(), month="2026-11", now=NOON + 864_000):
    """Return the cents of one instance of three dollars sixty an hour."""
    each = {"id": "i-1", "type": "m", "runs": runs, "volumes": list(volumes)}
    return meter.bill([each], month, PRICES, now)["cents"]


def test_running_is_billed_by_the_second_and_at_least_a_minute():
    """An hour costs its price, a start of three seconds a minute, two such starts two."""
    assert billed([(NOON, NOON + 3600)]) == 360
    assert billed([(NOON, NOON + 3)]) == 6
    assert billed([(NOON, NOON + 3), (NOON + 10, NOON + 13)]) == 12
    assert billed([(NOON, float("inf"))], now=NOON + 100) == 10


def test_a_month_has_only_what_lies_in_it():
    """A run over the end of a month is billed in both, each its part."""
    end = 1_796_083_200  # 2026-12-01T00:00:00Z
    run = [(end - 3600, end + 7200)]
    assert billed(run, now=end + 9999) == 360
    assert billed(run, month="2026-12", now=end + 9999) == 720


def test_a_disk_is_billed_until_it_is_deleted():
    """A GiB that costs 30 a month of 30 days costs one a day, whatever its instance does."""
    disk = {"type": "d", "size": 1, "iops": 0, "created": NOON, "deleted": NOON + 86_400}
    assert billed([], [disk]) == 100
    assert billed([], [{**disk, "deleted": None}], now=NOON + 2 * 86_400) == 200


def test_a_type_without_a_price_is_named():
    """What has no price is said, and not billed as free."""
    each = {"id": "i-1", "type": "q", "runs": [(NOON, NOON + 60)], "volumes": []}
    assert meter.bill([each], "2026-11", PRICES, NOON + 99)["unknown"] == ["q"]


def test_the_control_route_bills_what_ran(fake, ec2, launch):
    """What was launched, ran an hour and was stopped is on the bill, by the body's prices."""
    (instance_id,) = launch()
    fake.advance(480)
    fake.ask("GET", "state")
    fake.advance(3600)
    ec2.stop_instances(InstanceIds=[instance_id])
    fake.advance(3600)
    asked = {
        "prices": {"instances": {"m5zn.metal": "1"}, "volumes": {"gp2": {"gib": 0, "iops": 0}}}
    }
    (line,) = fake.ask("POST", "bill", asked)["lines"]
    assert (line["instance"], line["seconds"], line["usd"]) == (instance_id, 3600, 1.0)
