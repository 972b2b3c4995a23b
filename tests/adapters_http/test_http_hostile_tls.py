"""Our HTTP client over TLS against servers that break it: alerts, garbage, cuts, early ends.

The server's end of TLS is Python's own, on memory buffers, behind the scripts of `scripted_network`.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback_server import identity
from scripted_network import Script, ScriptedLoop, marks, play
from test_http_hostile import OK, SMALL, Outcome, asked, judge_line, later, turns

from labfleet.adapters.http.pool import HttpTransport
from labfleet.adapters.http.transport import NotSent, Reply, ReplyLost
from labfleet.resources.machine import TlsSettings

ALERTS = [bytes([21, 3, 3, 0, 2, level, number]) for level in (1, 2) for number in (0, 10, 40, 80)]
"""Unprotected alerts: close_notify, unexpected_message, handshake_failure, internal_error."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """The TLS of a server."""
    folder: Path = tmp_path_factory.mktemp("tls")
    context: ssl.SSLContext = identity(folder, "hostile")[0]
    return context


def outcomes(*scripts: Script, times: int = 1, pause: float = 0.0) -> list[Outcome]:
    """Ask so often over TLS connections of these scripts."""
    found: list[Outcome] = []

    async def client(loop: ScriptedLoop) -> None:
        made = HttpTransport("https://h", TlsSettings(mode="off"), SMALL)
        for _ in range(times):
            found.append(await asked(loop, made))
            if pause:
                await later(loop, pause)
        await made.close()

    judge_line(play(scripts, client))
    return found


def test_a_server_without_faults_is_understood(server: ssl.SSLContext) -> None:
    """Two replies over one connection: the scripts speak TLS."""
    first, second = outcomes(Script([[OK], [OK]], tls=server), times=2)
    assert isinstance(first, Reply)
    assert isinstance(second, Reply)
    assert (marks(first.body), marks(second.body)) == ({1}, {2})


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_outcome_over_tls_is_typed_and_bounded(data: st.DataObject, server: Any) -> None:
    """What holds in the clear holds for the same servers behind TLS, ended in order or not."""
    script = st.builds(
        Script,
        turns=st.lists(st.one_of(turns(), turns().map(lambda one: [*one, "goodbye"])), max_size=3),
        tls=st.just(server),
    )
    pause = data.draw(st.sampled_from([0.0, 1.0]))
    times = data.draw(st.integers(1, 3))
    scripts = data.draw(st.lists(script, max_size=4))
    assert len(outcomes(*scripts, times=times, pause=pause)) == times


@settings(max_examples=60, deadline=None)
@given(
    early=st.lists(
        st.one_of(st.sampled_from(ALERTS), st.binary(max_size=60), st.sampled_from([0.5, 4.0])),
        max_size=6,
    ),
    end=st.sampled_from(["eof", "reset", ""]),
)
def test_a_handshake_that_fails_in_any_way_sends_nothing(early: list[Any], end: str) -> None:
    """Alerts, garbage, silence and an end before TLS stands: NotSent, by the connect deadline."""
    steps = [*early, end] if end else early
    anything = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (outcome,) = outcomes(Script(early=steps, tls=anything, raw=True))
    assert isinstance(outcome, NotSent)
    assert outcome.cause in {"tls", "closed", "timeout"}


@pytest.mark.parametrize("alert", ALERTS)
@pytest.mark.parametrize("place", ["idle", "asked", "body"])
def test_an_alert_in_the_clear_ends_the_connection(
    server: ssl.SSLContext, alert: bytes, place: str
) -> None:
    """Whoever can write into the stream can end it, not change it."""
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n~~~"
    turn = {
        "idle": [OK, ("sealed", alert)],
        "asked": [("sealed", alert)],
        "body": [half, ("sealed", alert)],
    }
    found = outcomes(
        Script([turn[place], [OK]], tls=server), Script([[OK]], tls=server), times=2, pause=1.0
    )
    if place == "idle":
        assert all(isinstance(each, Reply) for each in found)
    else:
        assert isinstance(found[0], ReplyLost)
        assert isinstance(found[1], Reply)


def test_a_body_without_a_length_is_whole_only_after_an_orderly_end(server: ssl.SSLContext) -> None:
    """A cut by anybody on the way is told from the server's own end."""
    body = b"HTTP/1.1 200 OK\r\n\r\n~~~"
    (ended,) = outcomes(Script([[body, "goodbye"]], tls=server))
    (cut,) = outcomes(Script([[body, "eof"]], tls=server))
    assert isinstance(ended, Reply)
    assert isinstance(cut, ReplyLost)
    assert cut.cause == "truncated"


@pytest.mark.parametrize("kept_back", [1, 5, 20])
def test_a_part_of_a_record_does_not_begin_the_next_reply(
    server: ssl.SSLContext, kept_back: int
) -> None:
    """A reply nobody asked for, of which a part of the record came early, reaches no request."""
    smuggled = OK.replace(b"~", b"!")
    turn = [OK, ("early", smuggled, kept_back)]
    scripts = Script([turn, [("rest",)]], tls=server), Script([[OK]], tls=server)
    first, second = outcomes(*scripts, times=2, pause=1.0)
    assert isinstance(first, Reply)
    assert isinstance(second, Reply)
    assert b"!" not in second.body
