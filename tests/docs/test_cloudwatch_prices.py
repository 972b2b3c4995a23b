"""The price of CloudWatch in the how-to is what its rule gives (facts/aws.md#cloudwatch)."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "watch-workers.md"
MONTH = 30 * 86_400
METRICS = 3
USD_PER_METRIC = 0.01 / 1000
INTERVALS = (60, 300, 900, 3600)


def test_the_table_is_the_rule() -> None:
    """Workers x metrics x questions in 30 days x the price of one metric asked."""
    rows = [
        [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and line[2].isdigit()
    ]
    assert len(rows) == 5
    for workers, *prices in rows:
        for interval, price in zip(INTERVALS, prices, strict=True):
            cost = int(workers) * METRICS * (MONTH / interval) * USD_PER_METRIC
            assert float(price) == round(cost, 2)
