"""References off the allow-list are said at the write, in `explain`, and as an alert at start."""

from __future__ import annotations

import dataclasses
from typing import Any
from urllib.parse import unquote

import pytest
from api_caller import api as opened
from hand_clock import START

from labfleet.api import application
from labfleet.app import logs
from labfleet.app.host_secrets import HostSecrets
from labfleet.app.metrics import Metrics
from labfleet.app.server_gauges import ReferenceLog, add_references
from labfleet.engine.secrets_check import SecretsCheck
from labfleet.resources import secret_refs
from labfleet.resources.worker import WorkerPhase

OLD = {"env": "CML_PASSWORD"}
NEW = {"env": "LABFLEET_SECRET_CML"}


def machine(password: dict[str, str], token: dict[str, str] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {
        "provider": {"kind": "aws", "amiId": "ami-1"}, "cml": {"adminPassword": password},
    }  # fmt: skip
    return made | ({"licence": {"token": token}} if token else {})


def test_every_kind_with_a_reference_is_looked_at() -> None:
    """A kind that learns to hold a secret is found by its declaration; all four are."""
    assert set(secret_refs.kinds()) == {"Template", "Worker", "Webhook", "Cluster"}


@pytest.mark.asyncio
async def test_a_fleet_of_wider_rules_is_told_at_start_and_until_it_is_mended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Template, worker and webhook; an ended worker is not meant; the log says each once."""
    logs.configure(fmt="json", level="info")
    async with opened() as api:
        world = api.world
        await world.make("Template", "metal", {"machine": machine(OLD, {"file": "/etc/shadow"})})
        await world.make("Template", "good", {"machine": machine(NEW)})
        await world.make("Worker", "w1", {"machine": machine({"file": "/srv/.pgpass"})})
        gone = await world.make("Worker", "w0", {"machine": machine(OLD)})
        await world.status(gone, phase=WorkerPhase.TERMINATED)
        hook = {"url": "https://hooks.example.com/x", "secret": {"env": "HOOK"}}
        await world.make("Webhook", "chat", hook)
        await world.services.fresh()
        metrics = Metrics()
        secrets = HostSecrets({}, folder="/nowhere/secrets")
        check = SecretsCheck(
            secrets, world.services.cache, world.clock, told=ReferenceLog()
        )  # fmt: skip
        add_references(metrics, check)
        api.app = application.build(
            dataclasses.replace(world.services, secrets_check=check), api.tokens, api.ring,
            readiness=lambda: api.waiting, metrics=lambda: (b"", "text/plain"),
        )  # fmt: skip
        alerts = "/api/v1/fleet/alerts"
        assert (await api.call("GET", alerts)).json["items"] == []
        capsys.readouterr()
        check.look()
        (row,) = (await api.call("GET", alerts)).json["items"]
        assert (row["condition"], row["object"]) == ("SecretsNotAllowed", "server/secrets")
        assert row["command"].endswith("; labfleet explain worker/w1")
        assert row["since"] == START.strftime("%Y-%m-%dT%H:%M:%SZ")
        assert row["message"].startswith(
            "worker/w1 spec.machine.cml.adminPassword: secret file /srv/.pgpass is not in "
            "/nowhere/secrets: move it there"
        )
        assert row["message"].endswith("; and 1 more, see the server's log")
        said = capsys.readouterr().err
        places = ["cml.adminPassword", "cml.adminPassword", "licence.token", "spec.secret"]
        assert said.count('"reference.refused"') == len(places)
        assert all(place in said for place in places)
        assert "w0" not in said
        assert b"labfleet_refused_references 4.0" in metrics.text()[0]
        check.look()
        assert capsys.readouterr().err == ""
        await api.call("DELETE", "/api/v1/webhooks/chat")
        await world.services.fresh()
        check.look()
        said = capsys.readouterr().err
        assert (said.count("reference.allowed"), said.count("reference.refused")) == (1, 0)


@pytest.mark.asyncio
async def test_a_reference_that_leads_nowhere_is_said_at_the_write_and_explained() -> None:
    """The write is taken, since another process may have wider settings; a header warns."""
    async with opened() as api:
        world = api.world
        check = SecretsCheck(HostSecrets({}), world.services.cache, world.clock)
        api.app = application.build(
            dataclasses.replace(world.services, secrets_check=check), api.tokens, api.ring,
            readiness=lambda: api.waiting, metrics=lambda: (b"", "text/plain"),
        )  # fmt: skip
        for name, password, warned in (("a", OLD, True), ("b", NEW, False)):
            body = {"metadata": {"name": name}, "spec": {"machine": machine(password)}}
            made = await api.call("POST", "/api/v1/templates", body)
            told = unquote(made.headers.get("labfleet-warning", ""))
            assert made.status == 201
            assert ("leads nowhere: variable CML_PASSWORD is not for secrets" in told) is warned
            lines = (await api.call("GET", f"/api/v1/templates/{name}/explain")).json["lines"]
            assert any("leads nowhere" in line for line in lines) is warned
