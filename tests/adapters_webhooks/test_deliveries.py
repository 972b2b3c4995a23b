"""Posting to addresses that users named: nothing inside is reached, whatever the name says."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from held_port import held_port
from hypothesis import given
from hypothesis import strategies as st
from loop_time import leap

from labfleet.adapters.webhooks import HttpDeliveries, retry_after
from labfleet.interfaces.outside import Answered
from labfleet.kernel import errors
from labfleet.kernel.addresses import is_public


@asynccontextmanager
async def receiver(reply: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server on loopback that keeps what it got and answers one thing."""
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        got.append(head + await reader.readexactly(length))
        writer.write(reply)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/hook", got


def answer(status: str, headers: str = "") -> bytes:
    """Return a whole reply."""
    return f"HTTP/1.1 {status}\r\n{headers}content-length: 0\r\nconnection: close\r\n\r\n".encode()


async def post(
    deliveries: HttpDeliveries, url: str, *, inside: bool, seconds: float = 5.0
) -> Answered:
    """Post a small body."""
    return await deliveries.post(
        url, b"{}", {"webhook-id": "1"}, seconds=seconds, allow_private=inside
    )


@pytest.mark.asyncio
async def test_a_body_with_its_headers_arrives_and_the_status_comes_back() -> None:
    """Where an admin allowed addresses inside, a POST is an ordinary POST."""
    deliveries = HttpDeliveries()
    async with receiver(answer("204 No Content")) as (url, got):
        assert await post(deliveries, url, inside=True) == (204, None)
    await deliveries.close()
    assert got[0].startswith(b"POST /hook HTTP/1.1")
    assert b"webhook-id: 1" in got[0]
    assert got[0].endswith(b"{}")


@pytest.mark.asyncio
async def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    """A receiver cannot send us on to an address inside."""
    deliveries = HttpDeliveries()
    there = answer("302 Found", "location: http://169.254.169.254/latest\r\n")
    async with receiver(there) as (url, _):
        assert await post(deliveries, url, inside=True) == (302, None)
    await deliveries.close()


DATE = "Sun, 29 Nov 2026 09:00:00 GMT"


@pytest.mark.parametrize(
    ("asked", "date", "seconds"),
    [
        ("120", "", 120.0),
        (" 7 ", DATE, 7.0),
        ("Sun, 29 Nov 2026 09:02:30 GMT", DATE, 150.0),
        ("Sunday, 29-Nov-26 09:02:30 GMT", DATE, 150.0),  # the form of RFC 850
        ("Sun, 29 Nov 2026 08:00:00 GMT", DATE, 0.0),
        ("Sun, 29 Nov 2026 09:02:30 GMT", "", None),
        ("Sun Nov 29 09:02:30 2026", DATE, 150.0),  # the form of asctime
        ("9" * 5000, "", 999_999_999.0),
        ("-5", DATE, None), ("soon", DATE, None), ("\u0665", DATE, None), ("", DATE, None),
        ("1.5", DATE, None), ("Sun, 29 Nov 99999 09:00:00 GMT", DATE, None),
    ],
)  # fmt: skip
def test_both_forms_of_retry_after_are_read(asked: str, date: str, seconds: float | None) -> None:
    """Seconds, and a date against the reply's own Date; anything else says nothing."""
    assert retry_after({"Retry-After": asked, "Date": date}) == seconds


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_header_of_a_receiver_is_an_error(asked: str, date: str) -> None:
    """Whatever a receiver writes, there is a wait of 0 or more seconds, or none."""
    found = retry_after({"Retry-After": asked, "Date": date})
    assert found is None or found >= 0


@pytest.mark.asyncio
async def test_a_receivers_wish_to_wait_comes_back() -> None:
    """Retry-After of a real reply is part of the answer."""
    deliveries = HttpDeliveries()
    async with receiver(answer("429 Too Many Requests", "retry-after: 90\r\n")) as (url, _):
        assert await post(deliveries, url, inside=True) == (429, 90.0)
    await deliveries.close()


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1",
        "0.0.0.0", "[::1]", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "[fe80::1]",
        "[2002:7f00:1::]", "224.0.0.1", "localhost", "127.1", "0x7f000001", "2130706433",
        "[fec0::1]", "[64:ff9b::a9fe:a9fe]", "192.0.0.8", "127.0.0.1.", "127.0.0.1\u3002",
        "\u2460\u2461\u2466.\u24ea.\u24ea.\u2460", "127\u30020\u30020\u30021",
        "169\uff0e254\uff0e169\uff0e254", "\uff11\uff12\uff17.0.0.1", "\u24dbocalhost",
        "%31%32%37.0.0.1", "hooks.example.com@127.0.0.1", "0177.0.0.1", "127.0.1",
        "[2001:0:7f00:1::1]", "[::127.0.0.1]",
    ],
)  # fmt: skip
@pytest.mark.asyncio
async def test_nothing_inside_is_reached(host: str) -> None:
    """Literals in every spelling and names of this machine are refused before a connection."""
    deliveries = HttpDeliveries()
    with pytest.raises(errors.LabfleetError) as caught:
        await post(deliveries, f"http://{host}:9/hook", inside=False)
    await deliveries.close()
    assert caught.value.reason in {"PrivateAddress", "Unreachable", "Invalid"}
    # Unreachable is no refusal, except of a name that does not resolve: nothing was dialled.
    dialled = isinstance(caught.value, errors.Unreachable) and "DNS" not in caught.value.message
    assert not dialled, caught.value.message


@pytest.mark.asyncio
async def test_a_name_that_flips_to_an_address_inside_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The address is judged where it is resolved for the connection, so rebinding gains nothing."""
    async with receiver(answer("200 OK")) as (url, got):
        port = int(url.split(":")[2].split("/")[0])

        async def flips(*_: object, **__: object) -> list[object]:
            kind = socket.SOCK_STREAM
            return [(socket.AF_INET, kind, 6, "", ("127.0.0.1", port))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", flips, raising=False)
        deliveries = HttpDeliveries()
        with pytest.raises(errors.Denied, match="not a public address"):
            await post(deliveries, f"http://hooks.example.com:{port}/", inside=False)
        await deliveries.close()
    assert got == []


@pytest.mark.asyncio
async def test_a_receiver_that_hangs_or_is_away_costs_its_deadline_only() -> None:
    """Silence is Temporary after the deadline, a closed port is Unreachable."""
    deliveries = HttpDeliveries()

    heard = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        heard.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    posting = asyncio.create_task(post(deliveries, url, inside=True, seconds=60))
    await heard.wait()
    leap(61)
    with pytest.raises(errors.Temporary):
        await posting
    await deliveries.close()
    server.close()
    await server.wait_closed()
    with (
        held_port() as closed,
        pytest.raises(errors.Unreachable, match=r"^the connection was refused$"),
    ):
        await post(deliveries, f"http://127.0.0.1:{closed}/", inside=True)
    await deliveries.close()


@pytest.mark.parametrize(
    "address", ["168.63.129.16", "::ffff:168.63.129.16", "3fff::1", "192.0.0.8"]
)
def test_addresses_that_only_look_public_are_not(address: str) -> None:
    """A cloud's host service answers each of its machines at an address of the open internet."""
    assert not is_public(address)


@given(st.ip_addresses(v=4))
def test_a_mapped_address_is_judged_as_what_it_means(address: object) -> None:
    """Writing an IPv4 address as an IPv6 one changes nothing."""
    assert is_public(str(address)) == is_public(f"::ffff:{address}")
