"""What all tests share: real input, one hypothesis profile, what runs first, and what it costs.

Real input is skipped loudly when it is absent.
"""

from __future__ import annotations

import gc
import os
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
# A slow machine is no finding: no deadline, and no complaint that data comes slowly.
hypothesis.settings.register_profile(
    "labfleet",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
    print_blob=True,
)
# `make quick` asks for it; a property that wants more examples says a multiple of the profile's.
hypothesis.settings.register_profile(
    "quick", hypothesis.settings.get_profile("labfleet"), max_examples=15
)
hypothesis.settings.load_profile("labfleet")
# Begun first, so that no core is idle at the end while the other still has one of these.
LONG = (
    "test_day.py", "test_rehearsal_breaks.py", "test_demo.py", "test_rehearsal_run.py", "test_crashes.py",
    "test_metal_bugs.py", "test_idle_bugs.py", "test_replicas.py", "test_listing_bugs.py",
    "test_public_issues_fleet.py", "test_runbook.py", "test_outside_bugs.py",
    "test_web_pages.py", "test_what_if_run.py", "test_benchmarks_run.py",
)  # fmt: skip
COLLECTOR = (20_000, 20, 100)
"""Thresholds of the garbage collector: thousands of collected tests are no garbage to look at."""
# Nor is what they import: the collector begins when all is collected.
gc.disable()
costs: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --data, the folder of real topologies and traces, and --costs."""
    parser.addoption("--data", default=None, help="folder of real input (shared/data)")
    parser.addoption("--costs", type=int, default=0, help="name the N files that took most CPU")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take longest first, and each file's tests together as they stand."""
    rank = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep what was collected out of the garbage collector's looks; they pause every loop."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR)
    gc.enable()


def _cpu_seconds() -> float:
    """Return what this process and its ended children used so far."""
    spent = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in spent)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Count a test's CPU seconds with its fixtures, and those of the processes that it waited for."""
    begun = _cpu_seconds()
    found = yield
    costs[item.nodeid.partition("::")[0]] += _cpu_seconds() - begun
    return found


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send a worker's costs to the process that prints them."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["costs"] = dict(costs)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Take what a worker of pytest-xdist sent."""
    costs.update(getattr(node, "workeroutput", {}).get("costs", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the files that took most CPU seconds."""
    asked = terminalreporter.config.getoption("--costs")
    if asked:
        terminalreporter.section(f"{sum(costs.values()):.0f} CPU seconds in tests; most of them")
        for name, spent in costs.most_common(asked):
            terminalreporter.write_line(f"{spent:8.1f} {name}")


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
