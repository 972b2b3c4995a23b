"""What a cluster uses, from what its sources know: sums, gaps, which source is believed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hand_clock import HandClock
from hypothesis import given
from hypothesis import strategies as st
from scripted_promql import Named, ScriptedPromql, cluster, meter, source, vector
from virtual_time import play

from labfleet.adapters.metrics.meter import assembled
from labfleet.adapters.metrics.promql import PromqlReader
from labfleet.interfaces.cluster_meter import ClusterUsage
from labfleet.kernel import errors
from labfleet.rehearsal.time.virtual_host import VirtualClock
from labfleet.resources.cluster import Cluster
from labfleet.resources.cluster_access import Figure
from labfleet.resources.meta import SecretRef

MIB = 2.0**20
PROM = "http://prom.test:9090"
Tell = Callable[[ScriptedPromql, Callable[..., Awaitable[ClusterUsage]]], Awaitable[None]]


def whole() -> ScriptedPromql:
    """A server that knows everything of two nodes, one run and all others."""
    server = ScriptedPromql()
    server.rows = {
        Figure.RUN_CPU: {"run-a": 1.5, "": 0.25},
        Figure.RUN_MEMORY: {"run-a": 512 * MIB, "": 64 * MIB},
        Figure.RUN_NETWORK_IN: {"run-a": 1000.0, "": 250.0},
        Figure.RUN_NETWORK_OUT: {"run-a": 500.0, "": 1000.0},
        Figure.RUN_STORAGE: {"run-a": 10 * MIB, "": MIB},
        Figure.NODE_CPU: {"n1": 1.0, "n2": 2.0},
        Figure.NODE_MEMORY: {"n1": 1024 * MIB, "n2": 2048 * MIB},
        Figure.NODE_NETWORK_IN: {"n1": 1000.0, "n2": 2000.0},
        Figure.NODE_NETWORK_OUT: {"n1": 4000.0, "n2": 500.0},
        Figure.NODE_STORAGE: {"n1": MIB, "n2": MIB},
    }
    return server


def story(tell: Tell, of: Cluster | None = None, **others: ScriptedPromql) -> None:
    """Play a story with a whole server and a function that measures."""

    async def played() -> None:
        server = whole()
        servers = {PROM: server, **{f"http://{k}.test:9090": v for k, v in others.items()}}
        measured = meter(servers)

        async def look(now: Cluster | None = None) -> ClusterUsage:
            found = await measured.usage(now or of or cluster(source()))
            assert found is not None
            return found

        await tell(server, look)

    play(played)


def test_a_cluster_is_measured_in_our_units() -> None:
    """Milli-CPU, MiB and kbit/s; of a network the busier direction, of others their own sum."""

    async def tell(server: ScriptedPromql, look: Any) -> None:
        found = await look()
        assert found.now == {
            "run-a": {
                "cpu_milli": 1500.0, "memory_mib": 512.0, "storage_mib": 10.0,
                "network_in_kbps": 8.0, "network_out_kbps": 4.0,
            }
        }  # fmt: skip
        assert found.others == {
            "cpu_milli": 250.0, "memory_mib": 64.0, "storage_mib": 1.0, "network_kbps": 8.0,
            "network_in_kbps": 2.0, "network_out_kbps": 8.0,
        }  # fmt: skip
        assert found.load == {
            "cpu_milli": 3000.0, "memory_mib": 3072.0, "storage_mib": 2.0, "network_kbps": 48.0,
            "network_in_kbps": 24.0, "network_out_kbps": 36.0,
        }  # fmt: skip
        assert found.nodes["n1"]["network_kbps"] == 32.0
        assert set(found.sources.values()) == {"prom"}
        assert found.gaps == {}
        assert found.runs == {}
        assert server.most_at_once <= 4
        assert len(server.asked) == 21

    story(tell)


def test_what_is_not_there_is_unknown_and_says_why() -> None:
    """No series, NaN, infinity, a negative use: none of them is 0."""

    async def tell(server: ScriptedPromql, look: Any) -> None:
        del server.rows[Figure.RUN_CPU]
        server.rows[Figure.RUN_MEMORY] = {"run-a": "NaN", "run-b": MIB}
        server.rows[Figure.NODE_CPU] = {"n1": "+Inf", "n2": 1.0}
        server.rows[Figure.NODE_MEMORY] = {"n1": -1.0}
        server.rows[Figure.RUN_STORAGE] = {"run-a": 1e30}
        found = await look()
        assert found.gaps[Figure.RUN_CPU] == "prom: no series"
        assert "run-a is no use" in found.gaps[Figure.RUN_MEMORY]
        assert found.now["run-b"] == {"memory_mib": 1.0}
        assert "cpu_milli" not in found.now["run-a"]
        assert "storage_mib" not in found.now["run-a"]
        # A load of which one node is not known is not known.
        assert "cpu_milli" not in found.load
        assert found.nodes["n2"]["cpu_milli"] == 1000.0
        assert "memory_mib" not in found.load

    story(tell)


def test_what_the_server_measured_too_long_ago_is_not_used() -> None:
    """By its own clock and its oldest sample, of each run and node by itself."""

    async def tell(server: ScriptedPromql, look: Any) -> None:
        server.ages = {"run-a": 121.0, "n1": 500.0}
        found = await look()
        assert found.now == {}
        assert "run-a: its oldest sample is 121 s old" in found.gaps[Figure.RUN_CPU]
        assert found.load == {}
        assert found.others["cpu_milli"] == 250.0
        slack = cluster(source(stale_seconds=130))
        assert (await look(slack)).now["run-a"]["cpu_milli"] == 1500.0

    story(tell)


@pytest.mark.parametrize(("skew", "words"), [(61.0, "61 s ahead of ours"), (-90.0, "90 s behind")])
def test_a_server_with_another_clock_is_not_believed(skew: float, words: str) -> None:
    """It is told as such; within a minute it is believed, and in scaled time it cannot be judged."""

    async def tell(server: ScriptedPromql, look: Any) -> None:
        server.clock = VirtualClock(skew)
        with pytest.raises(errors.Temporary, match=words) as told:
            await look()
        assert told.value.reason == "ClockOff"
        scaled = await meter({PROM: server}, rate=60.0).usage(cluster(source()))
        assert scaled is not None
        assert scaled.load
        server.clock = VirtualClock(59.0 if skew > 0 else -59.0)
        assert (await look()).load

    story(tell)


def test_of_several_sources_the_first_that_knows_a_figure_is_believed() -> None:
    """Which one that was is told of each figure, and of each gap what all of them said."""
    second = whole()
    second.rows[Figure.RUN_CPU] = {"run-a": 9.0}
    second.rows[Figure.NODE_CPU] = {"n1": 9.0}
    del second.rows[Figure.RUN_STORAGE]

    async def tell(server: ScriptedPromql, look: Any) -> None:
        del server.rows[Figure.RUN_CPU], server.rows[Figure.RUN_STORAGE]
        found = await look()
        assert found.now["run-a"]["cpu_milli"] == 9000.0
        assert found.nodes["n1"]["cpu_milli"] == 1000.0
        assert found.sources[Figure.RUN_CPU] == "spare"
        assert found.sources[Figure.NODE_CPU] == "prom"
        assert found.gaps == {Figure.RUN_STORAGE: "prom: no series; spare: no series"}
        assert all("cpu" in each or "fs_usage" in each or each == "time()" for each in second.asked)

    story(tell, cluster(source(), source("spare")), spare=second)


def test_one_source_that_is_down_does_not_hide_the_other() -> None:
    """When none answers, the first one's error is raised."""
    second = whole()

    async def tell(server: ScriptedPromql, look: Any) -> None:
        server.down = True
        found = await look()
        assert set(found.sources.values()) == {"spare"}
        server.down, server.slow = False, 60.0
        assert set((await look()).sources.values()) == {"spare"}
        assert asyncio.get_running_loop().time() < 25
        second.down = True
        with pytest.raises(errors.Unreachable, match="cluster c1: source prom: no answer in time"):
            await look()

    story(tell, cluster(source(), source("spare")), spare=second)


ODD = [
    (400, {"status": "error", "errorType": "bad_data", "error": "parse error at char 3"}, "parse"),
    (422, {"status": "error", "errorType": "execution", "error": "many-to-many"}, "many-to-many"),
    (503, {"status": "error", "errorType": "timeout", "error": "query timed out"}, "timed out"),
    (200, {"status": "error", "errorType": "x", "error": "odd"}, "odd"),
    (200, {**vector([]), "warnings": ["remote read failed"]}, "remote read failed"),
    (200, {**vector([]), "isPartial": True}, "partial"),
    (200, vector([], kind="matrix"), "instant vector"),
    (200, vector([{"metric": {}, "value": "x"}]), "none of PromQL"),
    (200, vector([{"metric": {"node": str(n)}, "value": [1, "1"]} for n in range(5001)]), "5001"),
    (200, {"hello": 1}, "no answer of PromQL"),
]


@pytest.mark.parametrize(("status", "body", "words"), ODD)
def test_a_query_that_fails_is_a_gap_in_the_servers_words(
    status: int, body: dict[str, Any], words: str
) -> None:
    """Errors, warnings, partial results and odd shapes cost their figure alone."""

    async def tell(server: ScriptedPromql, look: Any) -> None:
        said = json.dumps(body).encode()
        server.answers['container_memory_working_set_bytes{id="/"}'] = (status, said)
        found = await look()
        assert words in found.gaps[Figure.NODE_MEMORY]
        assert "memory_mib" not in found.load
        assert found.load["cpu_milli"] == 3000.0

    story(tell)


WHOLE = [
    (401, b"", errors.Denied),
    (403, b"<html>", errors.Denied),
    (404, b"not found", errors.Invalid),
    (302, b"", errors.Invalid),
    (429, b"", errors.Throttled),
    (502, b"<html>", errors.Temporary),
    (200, b"<html>login</html>", errors.Protocol),
    (200, b"[" * 100_000, errors.Protocol),
    (200, json.dumps(vector([])).encode(), errors.Protocol),
]


@pytest.mark.parametrize(("status", "body", "kind"), WHOLE)
def test_a_server_that_answers_no_promql_at_all_is_an_error(
    status: int, body: bytes, kind: type[errors.LabfleetError]
) -> None:
    """HTML, wrong credentials, a wrong path: told apart, and naming cluster and source."""

    async def tell(server: ScriptedPromql, look: Any) -> None:
        server.answers["time()"] = (status, body)
        with pytest.raises(kind, match="cluster c1: source prom: "):
            await look()

    story(tell)


def test_own_queries_are_asked_in_place_of_the_built_in_ones() -> None:
    """With the matchers and the label's name filled in; what they leave open is not guessed."""
    own = "sum by ($label) (my_cpu{$matchers})"
    asked = 'sum by (label_labfleet_simulation_id) (my_cpu{cluster="a"})'
    name = "label_labfleet_simulation_id"
    rows = [
        {"metric": {name: "run-x"}, "value": [0, "2"]},
        {"metric": {name: "run-y", "job": "1"}, "value": [0, "1"]},
        {"metric": {name: "run-y", "job": "2"}, "value": [0, "1"]},
    ]

    async def tell(server: ScriptedPromql, look: Any) -> None:
        server.answers["my_cpu"] = (200, json.dumps(vector(rows)).encode())
        found = await look()
        assert found.now["run-x"]["cpu_milli"] == 2000.0
        assert "run-y" not in found.now
        assert found.gaps[Figure.RUN_CPU] == "prom: two series for run-y"
        assert asked in server.asked

    story(tell, cluster(source(matchers='cluster="a"', queries={Figure.RUN_CPU: own})))


def test_two_clusters_on_one_server_are_told_apart_by_matchers() -> None:
    """Every selector of every built-in query has them, also that of the pods' labels."""

    async def tell(server: ScriptedPromql, look: Any) -> None:
        assert (await look()).load
        for each in server.asked:
            assert each == "time()" or each.count('cluster="a"') == each.count("{")

    story(tell, cluster(source(matchers='cluster="a"')))


def test_credentials_are_sent_and_read_each_time() -> None:
    """Bearer or basic; a URL that holds them is refused, and no error repeats it."""

    async def tell(server: ScriptedPromql, look: Any) -> None:
        token, password = SecretRef(env="T"), SecretRef(env="P")
        await look(cluster(source(token=token)))
        assert server.headers[-1]["Authorization"] == "Bearer value of T"
        await look(cluster(source(username="u", password=password)))
        assert server.headers[-1]["Authorization"] == "Basic dTp2YWx1ZSBvZiBQ"
        await look()
        assert "Authorization" not in server.headers[-1]
        with pytest.raises(errors.Invalid, match="not in the url") as told:
            await look(cluster(source(url="http://u:hidden@prom.test:9090")))
        assert "hidden" not in str(told.value)
        with pytest.raises(errors.Invalid, match="needs a url"):
            await look(cluster(source(url=None)))

    story(tell)


def test_connections_are_kept_and_given_up_with_their_source() -> None:
    """One for each source of a cluster; another address or ten minutes of rest close it."""

    async def played() -> None:
        made: list[str] = []
        servers = {"http://prom.test:9090": whole(), "http://new.test:9090": whole()}

        def connect(url: str, *_: Any) -> ScriptedPromql:
            made.append(url)
            return servers[url]

        reader = PromqlReader(Named(), VirtualClock(), connect=connect)
        first, moved = source(), source(url="http://new.test:9090")
        for each in (first, first, moved):
            await reader.read(cluster(each), each, [Figure.NODE_CPU])
        assert made == ["http://prom.test:9090", "http://new.test:9090"]
        assert servers[made[0]].closed == 1
        await asyncio.sleep(700)
        other = cluster(first)
        await reader.read(other, source("else", url="http://prom.test:9090"), [Figure.NODE_CPU])
        assert servers[made[1]].closed == 1
        await reader.close()
        assert servers[made[0]].closed == 2

    play(played)


def test_a_cluster_that_names_no_source_is_not_measured() -> None:
    """None says that nobody measures it, which is no usage of nothing."""

    async def played() -> None:
        assert await meter({}).usage(cluster()) is None

    play(played)


@given(
    st.dictionaries(
        st.sampled_from(list(Figure)),
        st.dictionaries(st.sampled_from(["", "a", "b"]), st.floats(0, 1e6), min_size=1),
    ),
    st.dictionaries(st.sampled_from(list(Figure)), st.just("why")),
)
def test_no_sum_has_a_part_that_is_not_known(
    values: dict[Figure, dict[str, float]], gaps: dict[Figure, str]
) -> None:
    """A load is the sum over all nodes of it or absent, and nothing is made up of nothing."""
    found = assembled(values, {}, gaps, HandClock())
    for figure, dimension in ((Figure.NODE_CPU, "cpu_milli"), (Figure.NODE_MEMORY, "memory_mib")):
        known = values.get(figure)
        if known is None or figure in gaps:
            assert dimension not in found.load
        else:
            assert found.load[dimension] == sum(known.values())
    both = (Figure.NODE_NETWORK_IN, Figure.NODE_NETWORK_OUT)
    if not all(each in values for each in both):
        assert "network_kbps" not in found.load
    told = {name for use in found.now.values() for name in use}
    assert told <= {"cpu_milli", "memory_mib", "storage_mib", "network_in_kbps", "network_out_kbps"}
    assert "" not in found.now
