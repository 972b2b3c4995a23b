"""The Host header: a name that is not the server's own is refused, wherever a path leads."""

from __future__ import annotations

import dataclasses

import pytest
from api_caller import Api
from hypothesis import given
from hypothesis import strategies as st

from labfleet.api import application
from labfleet.api.core import host_names
from labfleet.app import settings
from labfleet.kernel import errors

OWN = ("fleet.example.org", "Lab.Example.")
PORTS = st.one_of(st.just(""), st.integers(0, 65535).map(lambda number: f":{number}"))


@given(st.ip_addresses(), PORTS)
def test_every_address_is_known(address: object, port: str) -> None:
    """A request to an address was led there by no name, whichever address it is."""
    shown = f"[{address}]" if ":" in str(address) else str(address)
    assert host_names.of("127.0.0.1", ()).known(shown + port)


@given(st.from_regex(r"[a-z]{1,10}(\.[a-z]{2,10}){0,3}\.?", fullmatch=True), PORTS)
def test_on_loopback_other_names_are_not_known(name: str, port: str) -> None:
    """Only localhost, what lies below it, and the names that were told."""
    plain = name.rstrip(".")
    ours = plain == "localhost" or plain.endswith(".localhost")
    for host in ("127.0.0.1", "::1", "localhost", "127.8.0.1"):
        assert host_names.of(host, ()).known(name + port) is ours
    assert host_names.of("127.0.0.1", (name,)).known(name.upper() + port)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.4", "fleet.example.org"])
def test_elsewhere_every_name_is_known_until_the_own_are_told(host: str) -> None:
    """Clients reach such a server by names that nobody told it, as before."""
    assert host_names.of(host, ()).known("anything.example")
    told = host_names.of(host, OWN)
    assert [told.known(each) for each in ("fleet.example.org:8470", "lab.example", "evil.example")] == [
        True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "header", ["", ":80", "[", "[]", "evil.example:80:80", "127.0.0.1.evil.example"]
)
def test_a_header_that_is_no_name_is_not_known(header: str) -> None:
    """What cannot be read is nobody's name; no header at all comes from no browser."""
    assert not host_names.of("127.0.0.1", ()).known(header)
    assert host_names.of("127.0.0.1", ()).known(None)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "path", ["/metrics", "/api/v1/version", "/api/v1/sessions", "/healthz", "/"]
)
async def test_a_page_of_another_site_reads_nothing(api: Api, path: str) -> None:
    """421 before any route, with the setting to change; the own name is answered as ever."""
    names = host_names.of("127.0.0.1", OWN)
    api.app = application.build(
        dataclasses.replace(api.world.services), api.tokens, api.ring,
        readiness=lambda: api.waiting, metrics=lambda: (b"", "text/plain"), names=names,
    )  # fmt: skip
    found = await api.call("GET", path, host="evil.example:8470")
    assert (found.status, found.json["reason"]) == (421, "UnknownHost")
    assert "host_names" in found.json["detail"]
    for own in ("fleet.example.org", "127.0.0.1:8470", "localhost"):
        assert (await api.call("GET", path, host=own)).status != 421


@pytest.mark.parametrize(
    "name", ["https://fleet.example.org", "fleet.example.org:8470", "a b", "ü.de"]
)
def test_a_setting_that_is_no_name_is_refused(name: str) -> None:
    """A name with a scheme or a port would never be met."""
    with pytest.raises(errors.Invalid, match="host_names"):
        settings.load({"host_names": (name,)}, environment={})


def test_the_names_come_from_a_variable_too() -> None:
    """A list in a variable is separated by commas, as with every list."""
    found = settings.load({}, environment={"LABFLEET_HOST_NAMES": "a.example, b.example"})
    assert found.host_names == ("a.example", "b.example")
