"""Past runs: what was asked, given and really used, kept longer than the objects themselves.

Sessions, simulations and workers' boots are one form, so that one learner reads them all. A
figure that nobody measured is absent, never 0, and never replaced by what was allocated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from labfleet.resources.amounts import DIMENSIONS, MOST
from labfleet.resources.meta import Record

RESOURCES: dict[str, str] = {
    "cpu_milli": "thousandths of a CPU",
    "memory_mib": "MiB",
    "storage_mib": "MiB",
    "network_kbps": "kbit/s in the busier direction",
    "duration_seconds": "seconds",
}
"""What is learned of a run, and its unit; the first four are dimensions of Amounts."""

FIGURES = (
    "cpu_milli", "memory_mib", "storage_mib", "network_in_kbps", "network_out_kbps",
)  # fmt: skip
"""What may be measured of a run."""
USES = ("peak", "mean", "median", "p95")
"""What is told of a figure."""
MOST_PARAMETERS = 64
MOST_NAME, MOST_TEXT = 128, 1024
MOST_PARAMETER_TEXT = 8192
"""Characters of all names and values: with it, any run fits into a row of the store."""


class RunKind(StrEnum):
    """What ran."""

    SIMULATION = "Simulation"
    SESSION = "Session"
    BOOT = "WorkerBoot"
    PAID = "WorkerTime"
    HOSTED = "SessionTime"


LEARNED = (RunKind.SIMULATION, RunKind.SESSION, RunKind.BOOT)
"""Kinds of what people call a run. The others are times that money is counted by: Labfleet alone
writes them, nothing is learned of them, and only the cost reads them."""


class Source(StrEnum):
    """Who says what a run used, the most trustworthy first."""

    MEASURED = "measured"
    REPORTED = "reported"
    IMPORTED = "imported"


class Use(Record, frozen=True, kw_only=True):
    """One figure of a run over its time; null is unknown.

    peak: The greatest value.
    mean: The mean over time.
    median: The value that was exceeded half of the time.
    p95: The value that was exceeded a twentieth of the time.
    """

    peak: float | None = None
    mean: float | None = None
    median: float | None = None
    p95: float | None = None


Parameter = bool | float | str
_FAR = 1e15
"""Numbers beyond that are compared as words."""


ENDED = "Ended"
"""Why a boot was cut off that did not fail: somebody ended it."""


class Run(Record, frozen=True, kw_only=True):
    """One past run; `uid` and `kind` name it once and for all.

    kind: What ran.
    uid: Uid of the object that ran, or another name that is never given twice.
    name: Name of the object.
    namespace: Namespace of the object; families of two namespaces are strangers.
    family: Which runs it is like: a chart, a lab over its versions, a template.
    owner: Whose run it was.
    place: Cluster, pool or template it ran on.
    parameters: What was asked for, typed on sight: numbers, flags and categories.
    allocation: What it was given, in base units, by dimension.
    use: What it used, by figure; a figure that nobody measured is absent.
    duration_seconds: How long it ran; null is unknown.
    censored: Why it was cut off before its own end; empty when it was not.
    source: Who says what it used.
    started_at: When it began.
    ended_at: When it was over.
    """

    kind: RunKind
    uid: str
    name: str = ""
    namespace: str = "default"
    family: str
    owner: str = ""
    place: str = ""
    parameters: dict[str, Parameter] = {}
    allocation: dict[str, int] = {}
    use: dict[str, Use] = {}
    duration_seconds: float | None = None
    censored: str = ""
    source: Source = Source.MEASURED
    started_at: datetime | None = None
    ended_at: datetime


class KeptRun(Record, frozen=True, kw_only=True):
    """A run at its place in the history; places only grow, so the last one is its version.

    place: Where it stands in the history.
    run: The run.
    """

    place: int
    run: Run


def used(run: Run, resource: str) -> float | None:
    """Return the peak of a resource of RESOURCES that the run is known to have used."""
    return run.duration_seconds if resource == "duration_seconds" else peak(run.use, resource)


def peak(use: Mapping[str, Use], resource: str) -> float | None:
    """Return the peak of a dimension in what was used, of the network's the busier direction's."""
    names = ("network_in_kbps", "network_out_kbps") if resource == "network_kbps" else (resource,)
    known = [found for name in names if name in use and (found := use[name].peak) is not None]
    return max(known, default=None)


def typed(given: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return parameters typed on sight: a text that is a number counts as one.

    What has no order and is no word (lists, objects) becomes the text of its JSON, so that equal
    ones stay equal; null is left out.
    """
    found: dict[str, Parameter] = {}
    for name, value in given.items():
        if isinstance(value, str):
            found[name] = _of_text(value)
        elif value is None:
            continue
        elif isinstance(value, bool):
            found[name] = value
        elif isinstance(value, (int, float)):
            # Beyond that it is no size of anything, and no float may hold it.
            found[name] = float(value) if -_FAR < value < _FAR else str(value)[:64]
        else:
            found[name] = msgspec.json.encode(value, order="sorted").decode()
    return found


def _of_text(text: str) -> Parameter:
    word = text.strip()
    if word.lower() in {"true", "false"}:
        return word.lower() == "true"
    if word and word[0] in "+-.0123456789" and len(word) <= 40:
        try:
            number = float(word)
        except ValueError:
            return text
        if -_FAR < number < _FAR:
            return number
    return text


NODE_COUNTS = ("nodecount", "node_count", "nodes", "number_of_peers")
"""Parameters that say of how many nodes a run was, as charts and labs call them."""


def nodes_of(run: Run) -> int | None:
    """Return of how many nodes a run was; None when no parameter says so."""
    found = (run.parameters.get(name) for name in NODE_COUNTS)
    return next((int(each) for each in found if type(each) is float and each.is_integer()), None)


def compared(given: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return the parameters by which runs are compared: typed, as many as the history keeps.

    A caller may send more and longer ones; the first by name count, so that the request and the
    row of its run are judged by the same.
    """
    found: dict[str, Parameter] = {}
    size = 0
    for name, value in sorted(typed(given).items()):
        length = len(value if isinstance(value, str) else str(value))
        size += len(name) + length
        if len(found) == MOST_PARAMETERS or size > MOST_PARAMETER_TEXT:
            break
        if len(name) <= MOST_NAME and length <= MOST_TEXT:
            found[name] = value
    return found


def problems(run: Run, now: datetime) -> tuple[tuple[str, str], ...]:
    """Return (field, what is wrong with it) of a run that somebody else wrote down.

    `now` bounds its end: what has not ended teaches nothing.
    """
    return tuple((field, why) for field, why in _found(run, now) if why)


def _found(run: Run, now: datetime) -> Iterator[tuple[str, str]]:
    learned = run.kind in LEARNED
    yield "kind", "" if learned else f"must be one of {', '.join(LEARNED)}"
    for field in ("uid", "family"):
        yield field, "" if getattr(run, field) else "must not be empty"
    for field in ("uid", "name", "namespace", "family", "owner", "place", "censored"):
        yield field, _too_long(getattr(run, field), 256)
    size = sum(len(name) + len(str(value)) for name, value in run.parameters.items())
    if len(run.parameters) > MOST_PARAMETERS or size > MOST_PARAMETER_TEXT:
        said = f"at most {MOST_PARAMETERS}, of {MOST_PARAMETER_TEXT} characters together"
        yield "parameters", said
    for name, value in run.parameters.items():
        words = "" if isinstance(value, str) or math.isfinite(value) else "must be a number"
        yield (
            f"parameters.{name[:64]}",
            (words or _too_long(name, MOST_NAME) or _too_long(str(value), MOST_TEXT)),
        )
    for name, amount in run.allocation.items():
        known = "" if name in DIMENSIONS else f"is none of {', '.join(DIMENSIONS)}"
        yield f"allocation.{name[:64]}", known or _out_of_range(amount)
    for name, use in run.use.items():
        field = f"use.{name[:64]}"
        yield field, "" if name in FIGURES else f"is none of {', '.join(FIGURES)}"
        for part in USES:
            yield f"{field}.{part}", _out_of_range(getattr(use, part))
    yield "durationSeconds", _out_of_range(run.duration_seconds)
    strange = _strange(run.ended_at)
    yield "endedAt", strange or ("lies ahead" if run.ended_at > now else "")
    if run.started_at is not None:
        late = not strange and run.started_at.tzinfo and run.started_at > run.ended_at
        yield "startedAt", _strange(run.started_at) or ("is later than endedAt" if late else "")


def _too_long(text: str, most: int) -> str:
    return f"has more than {most} characters" if len(text) > most else ""


def _out_of_range(value: float | None) -> str:
    fine = value is None or (math.isfinite(value) and 0 <= value <= MOST)
    return "" if fine else f"must lie between 0 and {MOST}"


def _strange(instant: datetime) -> str:
    return "needs a time zone, for example 2026-11-27T09:00:00Z" if instant.tzinfo is None else ""
