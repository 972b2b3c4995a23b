"""Applications of the same routes share the framework's part, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from api_caller import Api
from api_caller import api as opened
from throwaway_kind import declare

from labfleet.service.reads import listing


@pytest.mark.asyncio
async def test_two_installations_answer_of_their_own(api: Api) -> None:
    """What is made at one is neither at the other nor does its token open it."""
    async with opened() as other:
        await api.world.definition("here")
        assert (await api.call("GET", "/api/v1/definitions/here")).status == 200
        assert (await other.call("GET", "/api/v1/definitions/here")).status == 404
        stranger = f"Bearer {await api.token('admin')}"
        headers = {"Authorization": stranger}
        assert (await other.call("GET", "/api/v1/workers", role=None, **headers)).status == 401


@pytest.mark.asyncio
async def test_a_defect_is_told_to_the_application_that_it_struck(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one of the same routes hears nothing of it."""

    async def broken(*_: Any) -> Any:
        raise KeyError("a slip")

    async with opened() as other:
        monkeypatch.setattr(listing, "listed", broken)
        assert (await other.call("GET", "/api/v1/workers")).status == 500
        assert [type(each) for each in other.defects] == [KeyError]
        assert api.defects == []


@pytest.mark.asyncio
async def test_another_kind_has_its_own_routes(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application of more routes answers them, and the one before it still does not."""
    declare(monkeypatch)
    async with opened() as other:
        assert (await other.call("GET", "/api/v1/gadgets")).status == 200
        assert (await other.call("GET", "/api/v1/definitions")).status == 200
    assert (await api.call("GET", "/api/v1/gadgets")).json["reason"] == "RouteNotFound"
