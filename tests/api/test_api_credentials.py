"""The two headers that carry a token: which counts, and what two different ones are."""

from __future__ import annotations

import logging

import pytest
from api_caller import Api

pytestmark = pytest.mark.asyncio
WORKERS = "/api/v1/workers"


async def called(api: Api, path: str = WORKERS, **headers: str):
    return await api.call("GET", path, role=None, **headers)


async def test_an_api_key_is_a_token_in_another_header(api: Api) -> None:
    """Upstream 002's programs are answered with the rights that the token has."""
    key = await api.token("controller")
    for path in ("/api/internal/workers", WORKERS):
        assert (await called(api, path, X_API_Key=key)).status == 200
    assert (await called(api, "/api/v1/tokens", X_API_Key=key)).status == 403
    assert (await called(api, x_api_key=f"  {key} ")).status == 200


async def test_a_wrong_or_empty_key_is_401(api: Api) -> None:
    """As a bearer token is."""
    key = await api.token("admin")
    for value in ("", " ", "lf_x_y", "\xff", "x" * 5000, f"Bearer {key}"):
        found = await called(api, X_API_Key=value)
        assert (found.status, found.json["reason"]) == (401, "Unauthenticated")


async def test_two_different_credentials_are_400(api: Api) -> None:
    """Whoever is meant, nothing is done as the other one; the same one twice is one."""
    one, other = await api.token("controller"), await api.token("admin")
    same = await called(api, X_API_Key=one, Authorization=f"Bearer {one}")
    assert same.status == 200
    for headers in (
        {"X_API_Key": one, "Authorization": f"Bearer {other}"},
        {"X_API_Key": other, "Authorization": f"Bearer {one}"},
        {"X_API_Key": other, "Authorization": "Basic abc"},
        {"X_API_Key": "", "Authorization": f"Bearer {one}"},
        {"X_API_Key": one, "Authorization": "Bearer lf_x_y"},
    ):
        found = await called(api, **headers)
        assert (found.status, found.json["reason"]) == (400, "TwoCredentials")
        assert one not in found.raw.decode()
        assert other not in found.raw.decode()
    assert (await called(api, "/healthz", **headers)).status == 200


async def test_a_header_that_comes_twice_is_one_credential_or_a_refusal(api: Api) -> None:
    """A proxy that adds its own header does not quietly win or lose."""
    one, other = await api.token("controller"), await api.token("admin")
    first = (b"x-api-key", one.encode())
    for second, status in ((first, 200), ((b"X-API-Key", other.encode()), 400)):
        found = await api.call_raw_headers("GET", WORKERS, [first, second])
        assert found.status == status


async def test_a_key_stands_in_no_log_and_no_record(api: Api, caplog: pytest.LogCaptureFixture):
    """Neither of a good request, nor of a refused one."""
    caplog.set_level(logging.DEBUG)
    key = await api.token("admin")
    await called(api, X_API_Key=key)
    await called(api, X_API_Key=key, Authorization="Bearer lf_x_y")
    await called(api, "/api/v1/nowhere", X_API_Key=key)
    secret = key.split("_", 2)[2]
    assert secret not in caplog.text
    assert not any(secret in repr(each) for each in api.done)


async def test_the_document_names_both_schemes(api: Api) -> None:
    """Either is enough."""
    document = (await called(api, "/api/v1/openapi.json")).json
    schemes = document["components"]["securitySchemes"]
    assert schemes["apiKey"] == {"type": "apiKey", "in": "header", "name": "X-API-Key"}
    assert document["security"] == [{"bearer": []}, {"apiKey": []}]
