"""What all tests share: the folder of real input, skipped loudly when it is absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --data, the folder of real topologies and traces."""
    parser.addoption("--data", default=None, help="folder of real input (shared/data)")


def _places(option: str | None) -> list[Path]:
    if option:
        return [Path(option)]
    return [parent / "shared" / "data" for parent in ROOT.parents]


@pytest.fixture(scope="session")
def data(request: pytest.FixtureRequest) -> Path:
    """The folder of real input; without it the test is skipped, and fails in CI."""
    option = request.config.getoption("--data")
    for place in _places(option):
        if place.is_dir():
            return place
    message = "no real input: give --data FOLDER or put shared/data beside the checkout"
    if option or os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def labs(data: Path) -> dict[str, str]:
    """Every real topology, text by file name."""
    found = {path.name: path.read_text() for path in sorted((data / "labs").glob("*.yaml"))}
    assert len(found) == 42
    return found


def _fail_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """In CI nothing is left out silently: a skip is a failure; an expected failure is not."""
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"skipped in CI, where everything must run: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Turn skipped tests into failures in CI."""
    report = yield
    _fail_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):
    """Turn skipped modules into failures in CI."""
    report = yield
    _fail_skipped(report)
    return report
