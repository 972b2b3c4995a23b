"""Pure rules: folding of lists and events, how runs end, what pods request."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_cluster import LABEL

from labfleet.adapters.kubernetes import objects, pods
from labfleet.adapters.kubernetes.ends import Ends, Fate, run_over
from labfleet.adapters.kubernetes.pods import Book, pod_seen, requested
from labfleet.adapters.kubernetes.standing import standing
from labfleet.interfaces.cluster_view import NodeView
from labfleet.kernel import errors, quantity
from labfleet.rehearsal.time.virtual_host import EPOCH

made = pod_seen(LABEL, lambda: EPOCH)
Event = tuple[str, objects.PodObject]


def a_pod(name: str, uid: str, version: int, phase: str = "Running") -> objects.PodObject:
    return msgspec.convert(
        {
            "metadata": {
                "name": name, "uid": uid, "namespace": "d", "resourceVersion": str(version),
                "labels": {LABEL: f"run-{name}"},
            },
            "spec": {"containers": [{"name": "c"}]},
            "status": {"phase": phase},
        },
        objects.PodObject,
    )  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """What happens to four names: made, changed, removed, made again; versions only grow."""
    there: dict[str, objects.PodObject] = {}
    events: list[Event] = []
    for version in range(1, draw(st.integers(1, 25)) + 1):
        name = draw(st.sampled_from("abcd"))
        old = there.get(name)
        if old is None:
            there[name] = a_pod(name, f"u{version}", version, "Pending")
            events.append(("ADDED", there[name]))
        elif draw(st.booleans()):
            phase = draw(st.sampled_from(("Running", "Succeeded")))
            there[name] = a_pod(name, old.metadata.uid, version, phase)
            events.append(("MODIFIED", there[name]))
        else:
            gone = a_pod(
                name, old.metadata.uid, version, (old.status or objects.PodStatus()).phase or ""
            )
            del there[name]
            events.append(("DELETED", gone))
    return events


def state(events: list[Event]) -> dict[str, objects.PodObject]:
    """What a server has after these events, by uid."""
    there: dict[str, objects.PodObject] = {}
    for change, each in events:
        if change == "DELETED":
            there.pop(each.metadata.uid, None)
        else:
            there[each.metadata.uid] = each
    return there


@given(histories(), st.data())
def test_events_in_any_order_and_number_end_in_what_the_server_has(
    history: list[Event], data: st.DataObject
) -> None:
    """With lists in between, and events from before a list among those after it."""
    book: Book[Any, Any] = Book(made)
    points = sorted(data.draw(st.lists(st.integers(0, len(history)), max_size=3)))
    begun = 0
    for point in (*points, len(history)):
        arriving = history[begun:point]
        # Those that came after the list all come in the end, in any order, some twice, some old.
        more = data.draw(st.lists(st.sampled_from(history[:point]), max_size=8)) if point else []
        for change, each in data.draw(st.permutations(arriving + more)):
            book.changed(change, each)
        wanted = {each.metadata.name: each for each in state(history[:point]).values()}
        assert {each.name: each.phase for each in book.all()} == {
            name: (each.status or objects.PodStatus()).phase for name, each in wanted.items()
        }
        if point < len(history) or data.draw(st.booleans()):
            book.listed(state(history[:point]).values(), str(point))
            begun = point


@given(histories(), st.data())
def test_a_list_makes_good_whatever_the_watch_left_out(
    history: list[Event], data: st.DataObject
) -> None:
    """Events that never came are in the next list; of each pod that is gone its end is told once."""
    told: list[str] = []
    book: Book[Any, Any] = Book(made, lambda each: told.append(each.name))
    seen = data.draw(st.lists(st.sampled_from(history), max_size=len(history)))
    known = set()
    for change, each in seen:
        book.changed(change, each)
        known |= {each.metadata.uid}
    book.listed(state(history).values(), str(len(history)))
    assert {each.name for each in book.all()} == {
        each.metadata.name for each in state(history).values()
    }
    assert len(told) <= len(known)


def test_a_list_of_what_is_known_costs_nothing() -> None:
    """Of ten thousand pods only those that changed since the last list are read again."""
    read: list[str] = []

    def counted(pod: objects.PodObject, before: Any) -> Any:
        read.append(pod.metadata.name)
        return made(pod, before)

    book: Book[Any, Any] = Book(counted)
    book.listed([a_pod(f"p{number}", f"u{number}", number) for number in range(1, 50)], "50")
    assert len(read) == 49
    read.clear()
    changed = a_pod("p7", "u7", 60, "Pending")
    others = [a_pod(f"p{number}", f"u{number}", number) for number in range(1, 50) if number != 7]
    book.listed([*others, changed], "60")
    assert read == ["p7"]
    assert {each.name for each in book.all() if each.phase == "Pending"} == {"p7"}


def ends(*told: tuple[str, float, str]) -> list[Fate]:
    return [
        Fate(reason, reason, EPOCH + timedelta(seconds=at), EPOCH, job) for reason, at, job in told
    ]


@pytest.mark.parametrize(
    ("fates", "reason"),
    [
        (ends(), "Gone"),
        (ends(("Completed", 1, ""), ("Completed", 9, "")), "Completed"),
        (ends(("Completed", 1, ""), ("Failed", 9, "")), "Failed"),
        (ends(("OOMKilled", 1, ""), ("Failed", 9, "")), "OOMKilled"),
        # It was replaced and went on for an hour: not how it ended.
        (ends(("Evicted", 1, ""), ("Gone", 3600, "")), "Gone"),
        # The last try of a job is what counts, of each job.
        (ends(("Failed", 1, "j"), ("Completed", 9, "j")), "Completed"),
        (ends(("Completed", 1, "j"), ("Failed", 9, "k")), "Failed"),
    ],
)
def test_a_run_ends_as_its_last_pods_did(fates: list[Fate], reason: str) -> None:
    """The worst of those that ended together, and no failure that it outlived."""
    assert run_over(fates).reason == reason
    assert run_over(reversed(fates)).reason == reason


def test_a_job_that_gave_up_and_removed_its_other_pods_has_failed() -> None:
    """With a pod that failed they go at once; what is removed much later was removed by somebody."""
    gave_up = ends(("Failed", 10, "j"), ("Gone", 11, "j"), ("Gone", 12, "j"))
    assert run_over(gave_up).reason == "Failed"
    retried = ends(("Failed", 10, "j"), ("Gone", 500, "j"))
    assert run_over(retried).reason == "Gone"


def test_only_so_many_ended_runs_are_remembered() -> None:
    """The oldest are forgotten first, and of one run only the ends that tell."""
    kept = Ends(3)
    for number in range(5):
        kept.note(f"run-{number}", ends(("Completed", number, ""))[0])
    assert kept.runs() == ("run-2", "run-3", "run-4")
    for number in range(1000):
        kept.note("run-4", ends(("Completed" if number else "Failed", number % 50, ""))[0])
    assert len(kept.of("run-4")) <= 101
    assert run_over(kept.of("run-4")).reason == "Failed"


def container(cpu: str, memory: str, **more: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


@pytest.mark.parametrize(
    ("spec", "cpu", "memory"),
    [
        ({}, 0, 0),
        ({"containers": [container("100m", "64Mi"), container("0.05", "1")]}, 150, 65),
        # Before the others run, one of those that run first needs more.
        ({"containers": [container("100m", "64Mi")], "initContainers": [container("2", "1Gi")]}, 2000, 1024),
        # A sidecar runs beside the containers, and beside those that run first after it.
        (
            {
                "containers": [container("100m", "64Mi")],
                "initContainers": [
                    container("50m", "32Mi", restartPolicy="Always"),
                    container("120m", "16Mi"),
                ],
            },
            170, 96,
        ),
        ({"containers": [container("1", "1Gi")], "resources": {"requests": {"cpu": "300m"}},
          "overhead": {"cpu": "10m", "memory": "5Mi"}}, 310, 1029),
    ],
)  # fmt: skip
def test_a_pod_requests_what_the_scheduler_counts(
    spec: dict[str, Any], cpu: int, memory: int
) -> None:
    """Containers, sidecars, those that run first, the pod as a whole, and its overhead."""
    found = requested(msgspec.convert(spec, objects.PodSpec))
    assert (found.get("cpu_milli", 0), found.get("memory_mib", 0)) == (cpu, memory)


@pytest.mark.parametrize(
    ("text", "demand", "supply"),
    [("250m", 250, 250), ("2", 2000, 2000), ("1234567n", 2, 1), ("1k", 10**6, 10**6), ("1e1", 10**4, 10**4)],
)  # fmt: skip
def test_quantities_of_kubernetes_are_read_as_it_writes_them(
    text: str, demand: int, supply: int
) -> None:
    """Demand is rounded up, supply down; M and m, k and Ki are four things."""
    assert quantity.kubernetes_cpu(text) == demand
    assert quantity.kubernetes_cpu(text, supply=True) == supply
    assert quantity.kubernetes_memory("1M") == 1
    assert quantity.kubernetes_memory("1M", supply=True) == 0
    assert quantity.kubernetes_memory("16374588Ki", supply=True) == 15990
    assert quantity.kubernetes_memory("1500m") == 1
    for odd in ("", "1K", "-1", "1mi", "NaN", "1e999"):
        with pytest.raises(ValueError, match="is not"):
            quantity.kubernetes_memory(odd)


def test_more_runs_than_are_looked_at_are_an_error() -> None:
    """2,000 are told; of more nothing is, rather than of some."""
    there = [made(a_pod(f"p{number}", f"u{number}", 1), None) for number in range(2001)]
    node = [NodeView("n1", {})]
    told = standing(there[:2000], node, Ends(1), lambda pod: pod.own, EPOCH)
    assert len(told.runs) == 2000
    with pytest.raises(errors.Invalid, match="2001 runs"):
        standing(there, node, Ends(1), lambda pod: pod.own, EPOCH)


def test_the_order_of_versions_that_are_no_numbers_is_that_of_arrival() -> None:
    """A version is opaque by right: what is no number orders nothing."""
    book: Book[Any, Any] = Book(made)
    for version, phase in (("x9", "Pending"), ("x1", "Running")):
        each = a_pod("a", "u1", 0, phase)
        meta = msgspec.structs.replace(each.metadata, resourceVersion=version)
        book.changed("MODIFIED", msgspec.structs.replace(each, metadata=meta))
    assert [each.phase for each in book.all()] == ["Running"]
    assert pods.number("18446744073709551616") == 0


def test_when_a_run_was_over_is_what_the_cluster_says() -> None:
    """The latest end of those that ended together; None when nobody saw any."""
    at: datetime | None = run_over(ends(("Completed", 1, ""), ("Completed", 9, ""))).at
    assert at == EPOCH + timedelta(seconds=9)
    assert run_over([Fate("Gone", "", None, EPOCH)]).at is None


def test_an_instant_that_nobody_set_is_none() -> None:
    """Go's zero time is of the year 1, and no end of anything."""
    status = {
        "phase": "Failed",
        "containerStatuses": [
            {"state": {"terminated": {"exitCode": 1, "finishedAt": "0001-01-01T00:00:00Z"}}}
        ],
    }
    pod = msgspec.structs.replace(
        a_pod("a", "u1", 1), status=msgspec.convert(status, objects.PodStatus)
    )
    fate = made(pod, None).fate
    assert fate is not None
    assert fate.at is None
    assert run_over([fate]).reason == "Failed"


def test_in_scaled_time_the_instants_of_a_cluster_say_nothing() -> None:
    """A demo's hours are minutes there: what ended last is what was seen to end last."""
    status = {
        "phase": "Failed",
        "containerStatuses": [
            {"state": {"terminated": {"exitCode": 1, "finishedAt": "2026-11-26T00:00:00Z"}}}
        ],
    }
    pod = msgspec.structs.replace(
        a_pod("a", "u1", 1), status=msgspec.convert(status, objects.PodStatus)
    )
    scaled = pod_seen(LABEL, lambda: EPOCH, scaled=True)(pod, None)
    assert scaled.fate is not None
    assert scaled.fate.at is None
    gone = pods.ended(made(a_pod("b", "u2", 1), None), EPOCH, scaled=True)
    assert run_over([scaled.fate, gone]).reason == "Failed"
