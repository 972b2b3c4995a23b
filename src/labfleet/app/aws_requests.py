"""The metric of requests to AWS, for budgets and alerts, as the adapter counted them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from labfleet.app.metrics import Metrics, Sample

Sent = Callable[[], Mapping[tuple[str, str], int]]


def add_aws_requests(metrics: Metrics, sent: Sent) -> None:
    """Add the counter; `sent` gives requests by region and action, repeats of the SDK included."""

    def rows() -> Iterable[Sample]:
        for (region, action), count in sorted(sent().items()):
            yield (region, action), float(count)

    metrics.counted(
        "labfleet_aws_requests",
        "Requests this process sent to AWS, the SDK's repeats included.",
        ("region", "action"),
        rows,
    )
