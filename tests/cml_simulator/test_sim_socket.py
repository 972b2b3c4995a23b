"""The websocket of events, UDP lab ports, and the process that other programs' tests start."""

import asyncio
import json
import ssl
import urllib.request

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


OUTER = (6100, 6101, 6102)
"""UDP ports of those that CML may open, outside of the system's own choice."""


async def echoed(port):
    """Tell whether a UDP port sends back what it gets."""
    loop = asyncio.get_running_loop()
    transport, ask = await loop.create_datagram_endpoint(Ask, remote_addr=("127.0.0.1", port))
    transport.sendto(b"ping")
    try:
        async with asyncio.timeout(0.2):
            return await ask.got == b"ping"
    except (TimeoutError, OSError):
        return False
    finally:
        transport.close()


@pytest.mark.asyncio
async def test_a_udp_port_answers(topo):
    """pat:udp opens UDP ports that echo once the node has its address, but for those in use."""
    argv = ("--port", "0", "--password", "pw", "--speed", "300")
    async with program(*argv) as (line, http):
        base = f"{line['url']}/api/v0"
        token = await login(http, base)
        text = topo(
            {"id": "a", "tags": [f"pat:udp:{port}:{port}" for port in OUTER]},
            {"id": "net", "kind": "external_connector", "configuration": "NAT"},
            links=[("a", "net")],
        )
        lab = (await call(http, "POST", f"{base}/import", json.loads(text), token))[1]["id"]
        await call(http, "PUT", f"{base}/labs/{lab}/start", None, token)

        async def all_echo():
            found = (await call(http, "GET", f"{line['url']}/_control/summary"))[1]
            # No port is ours until it is bound: who else has one, the simulator says.
            free = found["ports_open"] - found["ports_unbound"]
            echoes = [await echoed(port) for port in OUTER]
            return found["ports_open"] == len(OUTER) and sum(echoes) == free > 0

        await until(all_echo)


def test_other_programs_start_one_in_a_line():
    """The context manager starts a process, says where it is, and ends it."""
    with running(version="2.8", rules=["refusal_status=409"]) as cml:
        # private _create_unverified_context: the standard library has no public name for it
        trust = ssl._create_unverified_context()
        with urllib.request.urlopen(f"{cml.url}/api/v0/system_information", context=trust) as reply:
            assert json.loads(reply.read())["version"].startswith("2.8.")
        assert cml.password not in repr(cml)
