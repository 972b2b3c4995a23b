"""Licences: the capacity rule, taking one, giving it back (facts/cml.md#licensing)."""

from __future__ import annotations

import json

import pytest
from scripted_cml import LICENCE, ScriptedCml, done, host_on, licence, ok, refused

from labfleet.adapters.cml import licensing
from labfleet.adapters.http.transport import ReplyLost
from labfleet.kernel import errors

PRODUCT = "PUT licensing/product_license"
REGISTER = "POST licensing/registration"
FEATURES = "PATCH licensing/features"
RETURN = "DELETE licensing/deregistration"


@pytest.mark.parametrize(
    ("product", "status", "expansion", "expected"),
    [
        ("CML_Personal", "COMPLETED", 180, 20),
        ("CML_Personal40", "COMPLETED", 180, 40),
        ("CML_Enterprise", "COMPLETED", 180, 200),
        ("CML_Enterprise", "COMPLETED", 0, 20),
        ("CML_Enterprise", "COMPLETED", None, None),
        ("CML_Education", "COMPLETED", 30, 50),
        ("CML_Enterprise", "IN_PROGRESS", 180, 5),
        ("CML_Enterprise", "NOT_REGISTERED", 180, 5),
        (None, "FAILED", 0, 5),
        ("CML_Galactic", "COMPLETED", 180, None),
        (None, "COMPLETED", 180, None),
        ("CML_Enterprise", "A_NEW_WORD", 180, None),
        ("CML_Enterprise", None, 180, None),
    ],
)
def test_capacity_is_included_nodes_plus_expansion_in_use(product, status, expansion, expected):
    """Never features[].max; what is not known is None."""
    assert licensing.parse(licence(product, status, expansion=expansion)).node_capacity == expected


@pytest.mark.parametrize(
    ("status", "authorization", "registered", "licensed"),
    [
        ("COMPLETED", "IN_COMPLIANCE", True, True),
        ("COMPLETED", "EVAL", True, False),
        ("COMPLETED", "INIT", True, False),
        ("IN_PROGRESS", "IN_COMPLIANCE", False, False),
        ("NOT_REGISTERED", None, False, False),
        (None, None, False, False),
    ],
)
def test_licensed_needs_registration_and_authorization(status, authorization, registered, licensed):
    """Both words must be right; a feature that waits does not matter."""
    seen = licensing.parse(licence(status=status, authorization=authorization))
    assert (seen.registered, seen.licensed) == (registered, licensed)
    assert (seen.registration, seen.authorization) == (status, authorization)


def test_identity_and_features_are_told():
    """The UDI finds two workers with one licence; feature ids are by short name."""
    seen = licensing.parse(licence())
    assert (seen.product_uuid, seen.hostname) == ("0c1e7a7e", "cml-controller")
    assert set(seen.features) == {"CML_ENT_BASE", "CML_NODE_COUNT"}


@pytest.mark.parametrize("value", [{}, [], None, {"features": {}, "registration": None}])
def test_a_licence_answer_without_content_is_unknown(value):
    """Nothing told is None, not unlicensed with five nodes and not an exception."""
    assert licensing.parse(value).node_capacity is None


async def register(server: ScriptedCml, *, expansion: int = 180, product="CML_Enterprise"):
    await host_on(server).register(product, LICENCE, expansion_nodes=expansion)


@pytest.mark.asyncio
async def test_a_fresh_server_gets_product_then_token():
    """Unregistered: product as a bare JSON string, then the token, nothing else yet."""
    fresh = licence(None, "NOT_REGISTERED", None, 0)
    pending = licence(status="IN_PROGRESS", expansion=0)
    server = ScriptedCml(
        {"GET licensing": [ok(fresh), ok(pending)], PRODUCT: done(), REGISTER: done()}
    )
    await register(server)
    assert list(server.count()) == ["GET licensing", PRODUCT, REGISTER]
    assert server.bodies[PRODUCT] == b'"CML_Enterprise"'
    assert json.loads(server.bodies[REGISTER] or b"") == {"token": LICENCE, "reregister": False}


@pytest.mark.asyncio
async def test_a_registration_on_its_way_is_left_alone():
    """IN_PROGRESS: repeating the call sends no change at all."""
    server = ScriptedCml({"GET licensing": ok(licence(status="IN_PROGRESS"))})
    await register(server)
    assert list(server.count()) == ["GET licensing"]


@pytest.mark.asyncio
async def test_a_registered_server_is_only_expanded():
    """COMPLETED: the expansion count is the only thing left to ask for."""
    server = ScriptedCml({"GET licensing": ok(licence(expansion=0)), FEATURES: ok(licence())})
    await register(server)
    assert list(server.count()) == ["GET licensing", FEATURES]
    [wanted] = json.loads(server.bodies[FEATURES] or b"")
    assert wanted["count"] == 180
    assert "CML_NODE_COUNT" in wanted["id"]


@pytest.mark.asyncio
@pytest.mark.parametrize("product", ["CML_Enterprise", "CML_Personal"])
async def test_a_server_that_has_all_is_not_touched(product):
    """Everything done, or nothing to expand: one read."""
    server = ScriptedCml({"GET licensing": ok(licence(product))})
    await register(server, product=product)
    assert list(server.count()) == ["GET licensing"]


@pytest.mark.asyncio
async def test_another_registered_product_is_refused():
    """A licence of another product must be given back first; it is not replaced."""
    server = ScriptedCml({"GET licensing": ok(licence("CML_Personal"))})
    with pytest.raises(errors.Invalid, match="CML_Personal"):
        await register(server)


@pytest.mark.asyncio
async def test_a_bad_licence_token_is_invalid():
    """A refusal that names the licence is no lack of capacity here."""
    server = ScriptedCml(
        {
            "GET licensing": ok(licence(None, "NOT_REGISTERED")),
            PRODUCT: done(),
            REGISTER: refused(400, "Licensing issue: the token is not valid."),
        }
    )
    with pytest.raises(errors.Invalid):
        await register(server)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (done(204), "done"),
        (done(202), "cloud_not_told"),
        (ok(licence(status="NOT_REGISTERED")), "done"),
        (
            refused(400, "Licensing issue: The product has already been de-registered."),
            "not_registered",
        ),
    ],
)
async def test_giving_back_tells_how_it_ended(answer, outcome):
    """204, 2.10's body, 202 and already-returned are four ends without an error."""
    assert await host_on(ScriptedCml({RETURN: answer})).deregister() == outcome


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            refused(400, "Licensing issue: Cannot de-register when nodes are running."),
            "NodesRunning",
        ),
        (refused(409, "Licensing operation in progress"), "Later"),
    ],
)
async def test_giving_back_may_have_to_wait(answer, reason):
    """Running nodes and another licence operation are conflicts, not failures."""
    with pytest.raises(errors.Conflict) as caught:
        await host_on(ScriptedCml({RETURN: answer})).deregister()
    assert caught.value.reason == reason


@pytest.mark.asyncio
@pytest.mark.parametrize("answer", [ReplyLost("timeout", "no answer"), refused(500)])
async def test_a_lost_answer_to_giving_back_is_no_answer(answer):
    """Whether the licence cloud was told stood in it, so a second try must not look like a yes.

    Found by rehearsal seed 307: the second try says "already returned", and a leaked licence
    had no record.
    """
    with pytest.raises(errors.Ambiguous):
        await host_on(ScriptedCml({RETURN: answer})).deregister()


RENEWALS = ("PUT licensing/authorization/renew", "PUT licensing/registration/renew")


@pytest.mark.asyncio
async def test_a_renewal_asks_for_both_dates():
    """Authorization and registration expire by themselves, so both are asked for."""
    server = ScriptedCml(dict.fromkeys(RENEWALS, done()))
    await host_on(server).renew_licence()
    assert tuple(server.count()) == RENEWALS


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [(400, errors.Invalid, None), (409, errors.Conflict, "Later"), (403, errors.Denied, None)],
)
async def test_a_refused_renewal_is_told(status, error, reason):
    """Refused in CML's words, later, or forbidden; one refusal does not hide the other call."""
    server = ScriptedCml({RENEWALS[0]: refused(status, "no way"), RENEWALS[1]: done()})
    with pytest.raises(error) as caught:
        await host_on(server).renew_licence()
    assert "no way" in caught.value.message
    assert reason in {None, caught.value.reason}
    if status != 403:
        assert RENEWALS[1] in server.count()
