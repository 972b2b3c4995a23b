"""The websocket of events, UDP lab ports, and the process that other programs' tests start."""

import asyncio
import json
import socket
import ssl
import urllib.request
from contextlib import suppress

import aiohttp
import pytest
from test_sim_shell import TRUST_ALL, call, login, program, until

from cml_simulator.shell.fixture import running
from cml_simulator.shell.ui_socket import accept, frame, frames


def test_the_handshake_of_the_rfc():
    """The example of RFC 6455 section 1.3."""
    assert accept(b"dGhlIHNhbXBsZSBub25jZQ==") == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def masked(opcode, data, key=b"\x01\x02\x03\x04"):
    body = bytes(b ^ key[n % 4] for n, b in enumerate(data))
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2)
    return bytes([0x80 | opcode]) + size + key + body


def test_frames_come_in_pieces():
    """Frames are taken whole, however they arrive; what is no client's frame is refused."""
    buffer = bytearray()
    found = []
    for byte in masked(1, b"hello") + masked(9, b"x" * 300):
        buffer.append(byte)
        found += list(frames(buffer))
    assert found == [(1, b"hello"), (9, b"x" * 300)]
    for bad in (frame(1, b"unmasked"), b"\x01\x80", b"\x81\xff", b"\x81\xfe\xff\xff"):
        with pytest.raises(ValueError, match="frame"):
            list(frames(bytearray(bad)))
    assert frame(2, b"x" * 70_000)[:10] == b"\x82\x7f" + (70_000).to_bytes(8)


async def messages(ws, wanted):
    """Read until a message of each wanted (event_type, event, element_type) has come."""
    seen = []
    async with asyncio.timeout(20):
        while not wanted <= {
            (m["event_type"], m.get("event"), m.get("element_type")) for m in seen
        }:
            seen.append(await ws.receive_json())
    return seen


@pytest.mark.asyncio
async def test_a_listener_hears_what_happens(topo):
    """Labs, nodes and states arrive without polling; statistics come by themselves."""
    async with program("--port", "0", "--password", "pw", "--speed", "100") as (line, http):
        base = f"{line['url']}/api/v0"
        token = await login(http, base)
        url = f"{line['url'].replace('https', 'wss')}/ws/ui"
        async with http.ws_connect(url, ssl=TRUST_ALL, heartbeat=5) as ws:
            await ws.send_json({"token": token, "client_uuid": "x"})
            await asyncio.sleep(0.05)
            text = json.loads(topo({"id": "a"}))
            lab = (await call(http, "POST", f"{base}/import", text, token))[1]["id"]
            node = {"label": "b", "node_definition": "alpine", "x": 0, "y": 0}
            await call(http, "POST", f"{base}/labs/{lab}/nodes", node, token)
            await call(http, "PUT", f"{base}/labs/{lab}/start", None, token)
            seen = await messages(
                ws,
                {
                    ("lab_event", "created", "Lab"),
                    ("lab_element_event", "created", "Node"),
                    ("lab_event", "state", "Lab"),
                    ("state_change", "BOOTED", "Node"),
                    ("system_stats", None, None),
                },
            )
            assert {m["lab_id"] for m in seen if "lab_id" in m} == {lab}


@pytest.mark.asyncio
async def test_a_stranger_hears_nothing():
    """A wrong token closes the socket; another path is no websocket."""
    async with program("--port", "0", "--password", "pw", "--http") as (line, http):
        async with http.ws_connect(f"{line['url']}/ws/ui") as ws:
            await ws.send_json({"token": "wrong"})
            assert (await ws.receive()).type is aiohttp.WSMsgType.CLOSE
            assert ws.close_code == 1008
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect(f"{line['url']}/ws/other")


class Ask(asyncio.DatagramProtocol):
    """Sends one datagram and keeps the answer."""

    def __init__(self):
        self.got = asyncio.get_running_loop().create_future()

    def datagram_received(self, data, addr):
        if not self.got.done():
            self.got.set_result(data)


def free_udp_port() -> int:
    """Return a port of those that CML may open, outside of the system's own choice, that is free."""
    for port in range(6100, 7000):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no UDP port is free")


@pytest.mark.asyncio
async def test_a_udp_port_answers(topo):
    """pat:udp opens a UDP port that echoes, once the node has its address."""
    argv = ("--port", "0", "--password", "pw", "--speed", "300")
    port = free_udp_port()
    async with program(*argv) as (line, http):
        base = f"{line['url']}/api/v0"
        token = await login(http, base)
        text = topo(
            {"id": "a", "tags": [f"pat:udp:{port}:53"]},
            {"id": "net", "kind": "external_connector", "configuration": "NAT"},
            links=[("a", "net")],
        )
        lab = (await call(http, "POST", f"{base}/import", json.loads(text), token))[1]["id"]
        await call(http, "PUT", f"{base}/labs/{lab}/start", None, token)

        async def echoed():
            loop = asyncio.get_running_loop()
            place = ("127.0.0.1", port)
            transport, ask = await loop.create_datagram_endpoint(Ask, remote_addr=place)
            transport.sendto(b"ping")
            try:
                async with asyncio.timeout(0.2):
                    return await ask.got == b"ping"
            except (TimeoutError, OSError):
                return False
            finally:
                transport.close()

        await until(echoed)


def test_other_programs_start_one_in_a_line():
    """The context manager starts a process, says where it is, and ends it."""
    with running(version="2.8", rules=["refusal_status=409"]) as cml:
        # private _create_unverified_context: the standard library has no public name for it
        trust = ssl._create_unverified_context()
        with urllib.request.urlopen(f"{cml.url}/api/v0/system_information", context=trust) as reply:
            assert json.loads(reply.read())["version"].startswith("2.8.")
        assert cml.password not in repr(cml)
