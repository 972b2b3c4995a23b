"""Lists and watches that are cut, come twice, late, too old, too large or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scripted_cluster import Kubeconfigs, ScriptedCluster, cluster, pod, story

from labfleet.kernel import errors
from labfleet.rehearsal.time.virtual_host import EPOCH


def watches(server: ScriptedCluster) -> list[dict[str, str]]:
    return [params for path, params in server.asked if "watch" in params and "pods" in path]


def lists(server: ScriptedCluster) -> int:
    return sum("watch" not in params and path.endswith("/pods") for path, params in server.asked)


def test_a_watch_that_is_cut_fifty_times_loses_no_pod() -> None:
    """Each goes on from the last version, and events that come twice change nothing."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        await look()
        server.cut_after, server.twice = 2, True
        for number in range(120):
            server.put("pods", pod(f"p{number}", f"run-{number % 7}"))
            if number % 3 == 0:
                server.remove("pods", f"p{number}")
            await asyncio.sleep(2)
        await asyncio.sleep(60)
        found = await look()
        assert server.cuts >= 50
        there = {each["metadata"]["name"] for each in server.objects["pods"].values()}
        assert sum(each.running for each in found.runs.values()) == len(there) == 80

    story(tell)


def test_a_watch_goes_on_from_its_version_without_a_list() -> None:
    """A cut costs one request, not thousands of pods."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.cut_after = 1
        await look()
        for number in range(5):
            server.put("pods", pod(f"p{number}", "run-a"))
            await asyncio.sleep(3)
        assert lists(server) == 1
        versions = [int(each["resourceVersion"]) for each in watches(server)]
        assert len(versions) == 6
        assert versions == sorted(set(versions))
        assert all(each["allowWatchBookmarks"] == "true" for each in watches(server))

    story(tell)


def test_a_version_that_the_server_forgot_leads_to_a_list() -> None:
    """410, as a status or inside the watch: what happened meanwhile is in the list."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        await look()
        server.forget()
        server.put("pods", pod("p", "run-a"))
        server.forget()
        await asyncio.sleep(5)
        assert set((await look()).runs) == {"run-a"}
        assert lists(server) == 2

    story(tell)


def test_events_out_of_order_leave_the_newest_state() -> None:
    """A change that comes after a later one is old, and what is removed stays removed."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        await look()
        server.shuffled = True
        server.put("pods", pod("p", "run-a", phase="Pending"))
        server.put("pods", pod("p", "run-a"))
        server.put("pods", pod("q", "run-b"))
        server.remove("pods", "q")
        await asyncio.sleep(1)
        runs = (await look()).runs
        assert set(runs) == {"run-a"}
        assert runs["run-a"].running == 1

    story(tell)


def test_a_silent_watch_is_ended_and_a_list_is_made() -> None:
    """Without a bookmark nobody knows whether it lives; a view is never older than it may be."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.mute = True
        await look()
        for _ in range(20):
            await asyncio.sleep(30)
            assert ((await look()).at - EPOCH).total_seconds() > _now() - 95
        assert 5 <= lists(server) <= 8

    story(tell)


def _now() -> float:
    return asyncio.get_running_loop().time()


def test_a_list_is_made_every_few_minutes_anyway() -> None:
    """What a lying watch never told is found by it."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        await look()
        server.put("pods", pod("p", "run-a"))
        server.log.clear()
        await asyncio.sleep(310)
        assert set((await look()).runs) == {"run-a"}

    story(tell)


def test_a_view_whose_watch_is_down_is_not_told_for_long() -> None:
    """For a minute what was seen holds; then it is Temporary, until the server is back."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.put("pods", pod("p", "run-a"))
        await look()
        server.down, server.cut_after = True, 0
        server.put("pods", pod("q", "run-a"))
        await asyncio.sleep(30)
        assert (await look()).runs["run-a"].running == 1
        await asyncio.sleep(40)
        with pytest.raises(errors.Unreachable, match=r"cluster c1: list \w+: no connection"):
            await look()
        server.down, server.cut_after = False, None
        await asyncio.sleep(61)
        assert (await look()).runs["run-a"].running == 2

    story(tell)


def test_a_server_that_is_down_from_the_start_is_an_error_at_once() -> None:
    """Not an empty cluster, and not after the longest wait."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.down = True
        with pytest.raises(errors.Unreachable):
            await look()
        assert _now() < 1

    story(tell)


def test_a_server_that_is_always_too_old_is_not_asked_without_a_pause() -> None:
    """A list costs it thousands of pods: a few a minute."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        await look()
        server.forget()
        server.oldest = 10**9
        before = len(server.asked)
        await asyncio.sleep(600)
        assert len(server.asked) - before < 80

    story(tell)


def test_a_server_that_ends_each_watch_at_once_is_not_asked_without_a_pause() -> None:
    """A watch that ends in order is followed by the next one, not faster than one a second."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.short = True
        await look()
        before = len(server.asked)
        await asyncio.sleep(600)
        assert 20 < len(server.asked) - before < 700
        server.short = False
        server.put("pods", pod("p", "run-a"))
        await asyncio.sleep(61)
        assert set((await look()).runs) == {"run-a"}

    story(tell)


def test_a_watch_with_bookmarks_is_not_silent() -> None:
    """A quiet cluster costs one list in five minutes."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        await look()
        await asyncio.sleep(280)
        assert lists(server) == 1
        assert len(watches(server)) == 1

    story(tell)


def test_a_token_that_was_replaced_is_read_again() -> None:
    """A 401 makes one new look at the secret; one that is wrong still is Denied, and tried again."""
    secrets = Kubeconfigs("t1")

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.token = "t1"
        server.put("pods", pod("p", "run-a"))
        await look()
        assert secrets.read == 1
        await asyncio.sleep(20)
        server.token = secrets.token = "t2"
        server.forget()
        await asyncio.sleep(1.2)  # a pause of a second at most before the list, and none after 401
        assert set((await look()).runs) == {"run-a"}
        assert secrets.read == 2
        server.token = "t3"
        server.forget()
        await asyncio.sleep(100)
        with pytest.raises(errors.Denied, match=r"cluster c1: list \w+: 401 Unauthorized"):
            await look()
        assert secrets.read < 20
        secrets.token = "t3"
        await asyncio.sleep(61)
        assert set((await look()).runs) == {"run-a"}

    story(tell, secrets=secrets)


def test_what_may_not_be_listed_is_denied_with_its_name() -> None:
    """403 names the request, so that people know which right is missing."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.refuse["nodes"] = (403, b"<html>no</html>")
        with pytest.raises(errors.Denied, match="list nodes: 403"):
            await look()

    story(tell)


HOSTILE = [
    ((200, b"<html>login</html>"), errors.Protocol),
    ((200, b'{"items": 3}'), errors.Protocol),
    ((200, b'{"metadata": {}, "items": []}'), errors.Protocol),
    ((200, b'{"metadata": {"resourceVersion": "7"}, "items": [{"metadata": 4}]}'), errors.Protocol),
    ((200, b" " * 5000), errors.Protocol),
    ((302, b""), errors.Protocol),
    ((401, b"[]"), errors.Denied),
    ((404, b""), errors.Invalid),
    ((410, b""), errors.Temporary),
    ((429, b'{"message": 3}'), errors.Throttled),
    ((500, b"x" * 200_000), errors.Temporary),
]


@pytest.mark.parametrize(("answer", "kind"), HOSTILE)
def test_an_answer_that_is_none_is_one_of_our_errors(
    answer: tuple[int, bytes], kind: type[errors.LabfleetError]
) -> None:
    """HTML, broken or oversized JSON and odd statuses are told apart, and never an empty cluster."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.refuse["pods"] = answer
        with pytest.raises(kind):
            await look()

    story(tell, page_bytes=4096)


def test_an_event_without_an_end_is_not_read_on() -> None:
    """A line larger than any object ends the watch; what was listed stays."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        server.put("pods", pod("p", "run-a"))
        server.raw = b"x" * 1000
        await look()
        await asyncio.sleep(20)
        assert set((await look()).runs) == {"run-a"}
        assert server.open == 0

    story(tell, event_bytes=10_000)


def test_odd_amounts_are_an_error_that_names_them() -> None:
    """A pod that requests a word is no pod that requests nothing."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        odd = pod("p", "run-a")
        odd["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "much"
        server.put("pods", odd)
        with pytest.raises(errors.Protocol, match="much"):
            await look()

    story(tell)


def test_large_lists_come_in_pages() -> None:
    """A thousand pods are two requests, and all of them are there."""

    async def tell(server: ScriptedCluster, look: Any) -> None:
        for number in range(1001):
            server.put("pods", pod(f"p{number}", "run-a"))
        found = await look()
        assert found.runs["run-a"].running == 1001
        assert lists(server) == 3

    story(tell, of=cluster())
