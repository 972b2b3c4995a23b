"""Restoring: a backup is older than the world, so nothing acts by itself before somebody looked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from labfleet.app import maintenance
from labfleet.app.system import SystemClock, SystemIds
from labfleet.engine.objects import Objects
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.fleet_settings import NAME, Settings, SettingsSpec
from labfleet.resources.meta import Metadata
from labfleet.stores.opening import open_store
from labfleet.stores.runners import Threads


async def with_store(file: Path, act: object) -> Settings | None:
    """Write settings when some are given, and return what is stored."""
    store = await open_store(
        f"sqlite:///{file}", runner=Threads(), ids=SystemIds(), clock=SystemClock()
    )
    try:
        objects = Objects(store)
        if isinstance(act, Settings):
            await objects.save(act, cause=stores.Cause("ada", SystemClock().now()))
        return await objects.get(Settings, NAME, "default")
    finally:
        await store.close()


@pytest.mark.parametrize("set_before", [False, True])
def test_a_restored_store_is_paused_until_somebody_resumes(
    tmp_path: Path, set_before: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Machines launched after the backup belong to no record: collection would end them."""
    live, copy, place = tmp_path / "live", tmp_path / "copy.db", tmp_path / "restored"
    live.mkdir()
    spec = SettingsSpec(idle={"enabled": True})
    mine = Settings(metadata=Metadata(name=NAME, uid="u", generation=1), spec=spec)
    asyncio.run(with_store(live / "labfleet.db", mine if set_before else None))
    assert maintenance.main(["backup", str(copy), "--data", str(live)]) == 0
    assert maintenance.main(["restore", str(copy), "--data", str(place)]) == 0
    assert "labfleet resume" in capsys.readouterr().err
    found = asyncio.run(with_store(place / "labfleet.db", None))
    assert found is not None
    assert found.spec.automation["paused"] is True
    assert found.spec.automation["by"] == "restore"
    assert found.spec.idle == ({"enabled": True} if set_before else {})
    before = asyncio.run(with_store(live / "labfleet.db", None))
    assert before is None or before.spec.automation == {}


def test_a_pause_from_before_keeps_its_reason(tmp_path: Path) -> None:
    """Who paused, and why, is not overwritten."""
    live, copy, place = tmp_path / "live", tmp_path / "copy.db", tmp_path / "restored"
    live.mkdir()
    switch = {"paused": True, "reason": "moving", "by": "ada"}
    mine = Settings(
        metadata=Metadata(name=NAME, uid="u", generation=1), spec=SettingsSpec(automation=switch)
    )
    asyncio.run(with_store(live / "labfleet.db", mine))
    assert maintenance.main(["backup", str(copy), "--data", str(live)]) == 0
    assert maintenance.main(["restore", str(copy), "--data", str(place)]) == 0
    found = asyncio.run(with_store(place / "labfleet.db", None))
    assert found is not None
    assert msgspec.to_builtins(found.spec.automation) == switch


def test_a_restore_that_is_killed_before_its_pause_leaves_nothing_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A complete store that is not paused would end the machines launched after the backup."""
    live, copy, place = tmp_path / "live", tmp_path / "copy.db", tmp_path / "restored"
    live.mkdir()
    asyncio.run(with_store(live / "labfleet.db", None))
    assert maintenance.main(["backup", str(copy), "--data", str(live)]) == 0

    async def killed(*_: object) -> None:
        raise SystemExit(9)

    monkeypatch.setattr(maintenance, "paused", killed)
    with pytest.raises(SystemExit):
        maintenance.main(["restore", str(copy), "--data", str(place)])
    with pytest.raises(errors.Permanent) as caught:
        asyncio.run(with_store(place / "labfleet.db", None))
    assert caught.value.reason == "RestoreUnfinished"


def test_a_restore_says_how_many_tokens_work_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A token that was revoked after the backup works in the restored store: it is said."""
    live, copy, place = tmp_path / "live", tmp_path / "copy.db", tmp_path / "restored"
    live.mkdir()

    async def tokens() -> None:
        store = await open_store(
            f"sqlite:///{live}/labfleet.db", runner=Threads(), ids=SystemIds(), clock=SystemClock()
        )
        made = SystemClock().now()
        for name, revoked in (("a", None), ("b", None), ("c", made)):
            row = stores.TokenRow(name, name, "user", name, made, None, revoked)
            await store.put_token(row)
        await store.close()

    asyncio.run(tokens())
    assert maintenance.main(["backup", str(copy), "--data", str(live)]) == 0
    assert maintenance.main(["restore", str(copy), "--data", str(place)]) == 0
    assert "2 tokens work as they did at the backup" in capsys.readouterr().err
