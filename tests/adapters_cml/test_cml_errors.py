"""Every bad answer becomes one of the product's errors (facts/cml.md#client-rules)."""

from __future__ import annotations

import pytest
from scripted_cml import (
    LAB,
    LICENCE,
    PASSWORD,
    ScriptedCml,
    done,
    host_on,
    ok,
    page,
    refused,
)

from labfleet.adapters.cml import errors as translate
from labfleet.adapters.cml.transport import Limits
from labfleet.adapters.http.transport import NotSent, Reply, ReplyLost
from labfleet.kernel import errors

START = f"PUT labs/{LAB}/start"
READ = f"GET labs/{LAB}"
VALIDATION = (
    '{"Input validation failed": [{"location": ["body", "title"], "type": "x", '
    '"message": "too long", "input": "s3cret"}]}'
)


async def start(server: ScriptedCml) -> None:
    await host_on(server).start(LAB)


async def read(server: ScriptedCml) -> None:
    await host_on(server).lab(LAB)


async def import_one(server: ScriptedCml) -> None:
    await host_on(server).import_lab("lab: {}", title="t")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (NotSent("timeout", "x"), errors.Unreachable, "Timeout"),
        (NotSent("no_route", "x"), errors.Unreachable, "NoRoute"),
        (NotSent("refused", "x"), errors.Booting, "Refused"),
        (NotSent("closed", "x"), errors.Booting, "Closed"),
        (NotSent("tls", "x"), errors.Protocol, "Tls"),
        (NotSent("certificate", "x"), errors.Denied, "Certificate"),
        (page(502), errors.Booting, "BadGateway"),
        (page(503), errors.Booting, "BadGateway"),
        (refused(504), errors.Booting, "BadGateway"),
        (page(404), errors.Booting, "BadGateway"),
        (page(200), errors.Booting, "BadGateway"),
        (page(413), errors.Invalid, "Invalid"),
        (refused(403, "not permitted"), errors.Denied, "Forbidden"),
        (refused(403, "failed to license the node"), errors.OutOfCapacity, "Licence"),
        (refused(400, "Licensed node limit reached"), errors.OutOfCapacity, "Licence"),
        (refused(400, "Insufficient resources"), errors.OutOfCapacity, "Capacity"),
        (refused(409, "Not enough disk space"), errors.OutOfCapacity, "Disk"),
        (refused(404, f"Lab not found: {LAB}"), errors.Gone, "NotFound"),
        (refused(409, "another operation"), errors.Conflict, "Later"),
        (refused(400, "cannot start"), errors.Invalid, "Invalid"),
        (refused(405, "method"), errors.Invalid, "Invalid"),
        (refused(429, "slow down"), errors.Throttled, "Throttled"),
        (refused(500, "contact support"), errors.Temporary, "ServerError"),
        (Reply(302, {"location": "/x"}, b""), errors.Protocol, "ProtocolError"),
        (ReplyLost("timeout", "x"), errors.Temporary, "Timeout"),
        (ReplyLost("closed", "x"), errors.Temporary, "Closed"),
        (ReplyLost("truncated", "x"), errors.Protocol, "Truncated"),
        (ReplyLost("too_large", "x"), errors.Protocol, "TooLarge"),
    ],
)
async def test_a_bad_answer_to_a_repeatable_change_is_named(answer, kind, reason):
    """A change that may be repeated fails by the cause of its failure, never as Ambiguous."""
    with pytest.raises(kind) as caught:
        await start(ScriptedCml({START: answer}))
    assert (type(caught.value), caught.value.reason) == (kind, reason)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "answer",
    [
        ReplyLost("timeout", "x"),
        ReplyLost("closed", "x"),
        ReplyLost("truncated", "x"),
        page(502),
        refused(504),
        refused(500, "contact support"),
        Reply(200, {}, b'{"id": "3b0f7'),
        ok({"warnings": None}),
        page(200),
    ],
)
async def test_an_import_whose_effect_is_unknown_is_ambiguous(answer):
    """An import is Ambiguous whenever the lab may exist and no id came back."""
    with pytest.raises(errors.Ambiguous):
        await import_one(ScriptedCml({"POST import": answer}))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (NotSent("refused", "x"), errors.Booting),
        (NotSent("closed", "closed before sending"), errors.Booting),
        (NotSent("timeout", "x"), errors.Unreachable),
        (refused(503), errors.Booting),
        (refused(400, "Unknown node definition: foo"), errors.Invalid),
    ],
)
async def test_an_import_that_surely_did_not_happen_is_not_ambiguous(answer, kind):
    """An import that never left, or was refused, may be repeated at once."""
    with pytest.raises(kind):
        await import_one(ScriptedCml({"POST import": answer}))


@pytest.mark.asyncio
@pytest.mark.parametrize("body", [b'{"id": ', b"", b"[1, 2", b"\xff\xfe", b"NaN"])
async def test_broken_json_is_a_protocol_error(body):
    """A 200 that is no JSON is Protocol, with its size and not its content."""
    reply = Reply(200, {"content-type": "application/json"}, body)
    with pytest.raises(errors.Protocol, match=f"{len(body)} bytes"):
        await read(ScriptedCml({READ: reply}))


@pytest.mark.asyncio
async def test_validation_errors_carry_places_and_no_input():
    """CML's JSON inside the description becomes (where, what) pairs; the input is dropped."""
    server = ScriptedCml({START: refused(400, VALIDATION)})
    with pytest.raises(errors.Invalid) as caught:
        await start(server)
    assert caught.value.problems == (("title", "too long"),)
    assert "body." not in caught.value.message
    assert "s3cret" not in caught.value.message


@pytest.mark.asyncio
async def test_a_403_in_maintenance_mode_is_temporary():
    """A 403 is asked about once: in maintenance mode it passes by itself."""
    mode = ok({"maintenance_mode": True, "notice": None, "resolved_notice": None})
    server = ScriptedCml({START: refused(403), "GET system/maintenance_mode": mode})
    with pytest.raises(errors.Temporary) as caught:
        await start(server)
    assert caught.value.reason == "Maintenance"
    assert "Authorization" not in server.headers[-1]


@pytest.mark.asyncio
async def test_retry_after_is_passed_on():
    """Seconds of a Retry-After header reach the caller; a date in it is ignored."""
    for text, expected in (("7", 7.0), ("Fri, 27 Nov", None)):
        reply = refused(503, "busy", **{"retry-after": text})
        with pytest.raises(errors.Booting) as caught:
            await start(ScriptedCml({START: reply}))
        assert caught.value.retry_after == expected


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "leak", [PASSWORD, "token-1", LICENCE, "s3cret%2Fpa%20ss%22word", 's3cret/pa ss\\"word']
)
async def test_secrets_are_scrubbed_from_server_texts(leak):
    """Password, token and licence token never stand in an error, however the server spells."""
    answers = {
        "GET licensing": ok({}),
        "PUT licensing/product_license": done(),
        "POST licensing/registration": refused(400, f"bad thing {leak} in it"),
        START: refused(400, f"bad thing {leak} in it"),
    }
    host = host_on(ScriptedCml(answers))
    for call in (host.register("CML_Personal", LICENCE, expansion_nodes=0), host.start(LAB)):
        with pytest.raises(errors.Invalid) as caught:
            await call
        shown = f"{caught.value} {caught.value!r} {caught.value.args} {caught.value.message}"
        assert leak not in shown
        assert "***" in shown


@pytest.mark.asyncio
async def test_secrets_are_in_no_repr_and_no_log(caplog):
    """No object of the adapter shows a secret, and the adapter logs nothing."""
    caplog.set_level(0)
    host = host_on(ScriptedCml())
    await host.authenticate()
    # private _client, _login, _scrub, _address: no part, however deep, may show a secret in its
    # repr
    client = host._client
    shown = " ".join(
        repr(thing) for thing in (host, client, client._login, client._scrub, client._address)
    )
    assert PASSWORD not in shown
    assert "token-1" not in shown
    assert [r for r in caplog.records if r.name != "asyncio"] == []


def test_a_scrub_is_bounded_and_keeps_the_password():
    """A thousand tokens later the password is still hidden and the memory is not larger."""
    scrub = translate.Scrub().add("password")
    for number in range(1000):
        scrub = scrub.add(f"token-{number}.")
    assert len(scrub.secrets) <= 16
    assert scrub.clean("password token-999. token-990.") == "*** *** ***"


@pytest.mark.asyncio
async def test_a_request_larger_than_allowed_is_not_sent():
    """A topology over the bound is Invalid before a byte is sent."""
    server = ScriptedCml()
    host = host_on(server, Limits(request_bytes=10))
    server.answers["POST authenticate"] = ok("t")
    # private _token: a login that succeeded, without a server
    host._client._login._token = "t"
    with pytest.raises(errors.Invalid, match="too many"):
        await host.import_lab("x" * 11, title="t")
    assert server.log == []
