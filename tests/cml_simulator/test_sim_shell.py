"""The command over real sockets: TLS, control, own addresses, lab ports, orderly end."""

import asyncio
import contextlib
import json
import signal
import ssl
import sys

import aiohttp
import pytest

TRUST_ALL = ssl.create_default_context()
TRUST_ALL.check_hostname = False
TRUST_ALL.verify_mode = ssl.CERT_NONE


@contextlib.asynccontextmanager
async def program(*argv):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cml_simulator", *argv, stdout=asyncio.subprocess.PIPE
    )
    try:
        line = json.loads(await process.stdout.readline())
        assert line["ready"] is True
        async with aiohttp.ClientSession() as http:
            yield line, http
    finally:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            assert await process.wait() == 0


async def call(http, method, url, body=None, token=None):
    head = {"Authorization": f"Bearer {token}"} if token else {}
    async with http.request(method, url, json=body, headers=head, ssl=TRUST_ALL) as reply:
        return reply.status, await reply.json(content_type=None) if reply.status != 204 else None


async def login(http, base):
    body = {"username": "admin", "password": "pw"}
    return (await call(http, "POST", f"{base}/authenticate", body))[1]


async def until(check):
    async with asyncio.timeout(20):
        while not await check():
            await asyncio.sleep(0.02)


async def answers(address, port):
    try:
        reader, writer = await asyncio.open_connection(address, port)
    except OSError:
        return False
    try:
        return bool(await reader.read(100))
    except ConnectionError:
        return False
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.asyncio
async def test_alone_it_is_one_booted_cml():
    """One CML over TLS, unregistered with five nodes, ready when the line is printed."""
    async with program("--port", "0", "--password", "pw", "--speed", "100") as (line, http):
        base = f"{line['url']}/api/v0"
        assert base.startswith("https://127.0.0.1:")
        assert (await call(http, "GET", f"{base}/system_information"))[1]["ready"] is True
        token = await login(http, base)
        status = (await call(http, "GET", f"{base}/licensing", token=token))[1]
        assert status["registration"]["status"] == "NOT_REGISTERED"
        assert (await call(http, "GET", f"{line['control']}/summary"))[1]["running"] == 1


@pytest.mark.asyncio
async def test_fleet_boots_servers_on_their_own_addresses(topo, kept_port):
    """Boot, lab with a port that answers, stop closes both, next boot elsewhere."""
    argv = ("--fleet", "--port", "0", "--cml-port", str(kept_port), "--speed", "200")
    async with program(*argv, "--password", "pw") as (line, http):
        control = line["control"]
        await call(http, "POST", f"{control}/servers", {"id": "a", "boot_seconds": 20})
        place = (await call(http, "POST", f"{control}/servers/a/boot"))[1]
        base = f"https://{place['address']}:{place['port']}/api/v0"

        async def ready():
            try:
                status, body = await call(http, "GET", f"{base}/system_information")
            except (aiohttp.ClientError, ValueError):
                return False
            return status == 200 and body["ready"]

        await until(ready)
        token = await login(http, base)
        text = json.loads(topo({"id": "a", "tags": ["serial:5041"]}))
        lab = (await call(http, "POST", f"{base}/import", text, token))[1]["id"]
        assert (await call(http, "PUT", f"{base}/labs/{lab}/start", None, token))[0] == 204
        await until(lambda: answers(place["address"], 5041))
        found = (await call(http, "GET", f"{control}/summary"))[1]
        assert (found["ports_open"], found["ports_unbound"]) == (1, 0)
        await call(http, "POST", f"{control}/servers/a/stop")

        async def closed():
            return not await answers(place["address"], 5041)

        await until(closed)
        again = (await call(http, "POST", f"{control}/servers/a/boot"))[1]
        assert again["address"] != place["address"]


def test_wrong_usage_is_2():
    """An unknown option ends with 2."""
    from cml_simulator.shell.main import main

    assert main(["--nonsense"]) == 2
