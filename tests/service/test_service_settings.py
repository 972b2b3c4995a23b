"""Settings: one object, judged by name, changed with a word in the log, paused and resumed."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_world import ADMIN, World, who

from labfleet.kernel import errors
from labfleet.resources.fleet_settings import NAME, Settings
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Ref
from labfleet.resources.pool import Pool
from labfleet.service.core.fleet_settings import SettingsReader
from labfleet.service.core.service_context import Refused
from labfleet.service.reads import explain
from labfleet.service.verbs import objects, settings_verbs

ROW = KINDS["Settings"]
OPERATOR = who("operator", "otto")


async def reasons(world: World, kind: str = "Settings", name: str = NAME) -> list[str]:
    found = await objects.events(world.services, ADMIN, KINDS[kind], name, "default")
    return [each.reason for each in found]


async def stored(world: World) -> Settings:
    found = await world.services.objects.get(Settings, NAME, "default")
    assert found is not None
    await world.services.fresh()
    return found


@pytest.mark.asyncio
async def test_a_change_makes_the_object_and_keeps_only_what_was_set(world: World) -> None:
    """The first change makes settings/fleet; it holds one field and the rest are defaults."""
    await settings_verbs.change(world.services, ADMIN, {"idle.timeoutMinutes": 30})
    assert (await stored(world)).spec.idle == {"timeoutMinutes": 30}
    assert world.services.settings.now().idle.timeout_minutes == 30
    assert world.services.settings.now().idle.snooze_minutes == 60


@pytest.mark.asyncio
async def test_the_log_says_who_changed_what_from_which_value(world: World) -> None:
    """The event's reason names the field, the old and the new value, and why."""
    await settings_verbs.change(world.services, ADMIN, {"idle.timeoutMinutes": 30})
    await settings_verbs.change(
        world.services, ADMIN, {"idle.timeoutMinutes": 45}, ("idle.enabled",), reason="exam week"
    )
    assert await reasons(world) == [
        "Changed idle.timeoutMinutes 30 -> 45 (exam week)",
        "Changed idle.timeoutMinutes 60 (default) -> 30",
    ]


@pytest.mark.asyncio
async def test_unset_falls_back_to_the_environment(world: World) -> None:
    """An unset field takes the environment's value again, and says which variable gave it."""
    world.services.settings.environment = {"idle": {"timeoutMinutes": 25}}
    world.services.settings.variables = {"idle.timeoutMinutes": "IDLE_THRESHOLD_MINUTES"}
    await settings_verbs.change(world.services, ADMIN, {"idle.timeoutMinutes": 30})
    await settings_verbs.change(world.services, ADMIN, {}, ("idle.timeoutMinutes",))
    await world.services.fresh()
    row = next(
        each for each in world.services.settings.listed() if each.setting == "idle.timeoutMinutes"
    )
    assert (row.value, row.source, row.variable) == (25, "environment", "IDLE_THRESHOLD_MINUTES")
    assert (row.unit, row.default) == ("minutes", 60)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({"idle": {"timoutMinutes": 3}}, "spec.idle.timoutMinutes.*did you mean timeoutMinutes"),
        ({"idle": {"timeoutMinutes": 0}}, "spec.idle.timeoutMinutes: expected .*>= 1"),
        ({"discovery": {"regions": ["moon"]}}, "spec.discovery.regions: 'moon' is no region"),
        ({"discovery": {"amiNamePattern": "*"}}, "amiNamePattern"),
        ({"discovery": {"amiOwners": ["me"]}}, "amiOwners"),
        ({"discovery": {"template": "nowhere"}}, "spec.discovery.template.*does not exist"),
        ({"idle": {"systemUsers": "("}}, "systemUsers: no regular expression"),
        ({"idle": {"systemUsers": "a{99999999999}"}}, "systemUsers: no regular expression"),
        ({"idle": {"systemUsers": "(a+)+$"}}, "systemUsers: .*can take for ever"),
        ({"idle": {"systemUsers": ".*"}}, "systemUsers: matches every text"),
        ({"idle": {"activityCategories": []}}, "activityCategories: name at least one"),
        ({"garbage": {"keepTag": "labfleet:owner"}}, "keepTag: must not begin with"),
        ({"garbage": {"keepTag": "ke\nep"}}, "keepTag: no tag of EC2"),
        ({"thresholds": {"cpuPercent": 50}}, "cpuEasedPercent: is greater"),
        ({"idel": {}}, "idel.*did you mean idle"),
    ],
)
async def test_a_wrong_setting_is_refused_with_its_place(
    world: World, spec: dict[str, Any], what: str
) -> None:
    """Unknown keys get the nearest name; ranges, regions, patterns and names are judged."""
    with pytest.raises(errors.Invalid, match=what):
        await world.make("Settings", NAME, spec)


@pytest.mark.asyncio
async def test_there_is_one_settings_object(world: World) -> None:
    """Another name or namespace is refused."""
    with pytest.raises(errors.Invalid, match="one Settings object"):
        await world.make("Settings", "mine", {})
    with pytest.raises(errors.Invalid, match="one Settings object"):
        await world.make("Settings", NAME, {}, namespace="lab")


@pytest.mark.asyncio
async def test_a_patch_makes_the_object_when_it_is_absent(world: World) -> None:
    """PATCH of settings/fleet works on an installation where nobody has set anything."""
    body = {"spec": {"idle": {"enabled": True}}}
    await objects.patch(world.services, ADMIN, ROW, NAME, body, namespace="default")
    await objects.patch(
        world.services, ADMIN, ROW, NAME, {"spec": {"idle": {"enabled": None}}}, namespace="default"
    )
    assert (await stored(world)).spec.idle == {}
    assert (await reasons(world))[1] == "Changed idle.enabled false (default) -> true"


@pytest.mark.asyncio
@pytest.mark.parametrize("caller", [OPERATOR, who("controller"), who("user", "ulla")])
async def test_only_an_admin_writes_settings(world: World, caller: Any) -> None:
    """Operators, controllers and users may not change settings."""
    with pytest.raises(errors.Denied):
        await settings_verbs.change(world.services, caller, {"idle.enabled": True})
    with pytest.raises(errors.Denied):
        await objects.patch(world.services, caller, ROW, NAME, {"spec": {}}, namespace="default")


@pytest.mark.asyncio
async def test_an_operator_pauses_and_resumes(world: World) -> None:
    """A pause says since when, by whom and why; the resume leaves nothing of it."""
    await settings_verbs.pause(world.services, OPERATOR, reason="network work")
    await world.services.fresh()
    said = world.services.settings.paused(Ref(Pool, "default", "any"))
    assert said == ("automatic actions are paused since 2026-11-27 09:00Z by otto: network work")
    await settings_verbs.resume(world.services, OPERATOR)
    await world.services.fresh()
    assert world.services.settings.paused() is None
    assert (await stored(world)).spec.automation == {}
    assert await reasons(world) == ["AutomationResumed", "AutomationPaused: network work"]


@pytest.mark.asyncio
async def test_a_pause_is_read_by_a_process_that_starts_later(world: World) -> None:
    """The pause is in the store: another reader of the same log finds it."""
    await settings_verbs.pause(world.services, OPERATOR)
    await world.services.fresh()
    assert SettingsReader(world.services.cache).paused() is not None


@pytest.mark.asyncio
async def test_a_whole_body_without_automation_does_not_resume(world: World) -> None:
    """A PUT that does not name the pause keeps it, and delete is refused meanwhile."""
    await settings_verbs.pause(world.services, OPERATOR, reason="x")
    await objects.replace(
        world.services, ADMIN, ROW, NAME, {"spec": {"idle": {"enabled": True}}}, namespace="default"
    )
    found = await stored(world)
    assert (found.spec.idle, found.spec.automation["by"]) == ({"enabled": True}, "otto")
    with pytest.raises(Refused, match="resume"):
        await objects.delete(world.services, ADMIN, ROW, NAME, "default")


@pytest.mark.asyncio
async def test_who_paused_is_the_servers_word(world: World) -> None:
    """An admin may turn the switch in a manifest, but not write who did it or when."""
    spec = {"automation": {"paused": True, "by": "somebody", "since": "2020-01-01T00:00:00Z"}}
    await world.make("Settings", NAME, spec)
    automation = (await stored(world)).spec.automation
    assert automation["by"] == "ada"
    assert automation["since"].startswith("2026-11-27T09:00:00")


@pytest.mark.asyncio
async def test_automation_is_no_setting_to_set(world: World) -> None:
    """`settings set automation.paused` points to the verb that asks for no admin."""
    with pytest.raises(errors.Invalid, match="pause and resume"):
        await settings_verbs.change(world.services, ADMIN, {"automation.paused": True})


@pytest.mark.asyncio
async def test_a_pool_is_paused_alone(world: World) -> None:
    """Pausing one pool leaves others running, and says who did it and why."""
    await world.template()
    for name in ("a", "b"):
        await world.make("Pool", name, {"template": "metal"})
    await settings_verbs.pause_pool(world.services, OPERATOR, "a", "default", reason="firmware")
    await world.services.fresh()
    reader = world.services.settings
    said = "pool a is paused since 2026-11-27 09:00Z by otto: firmware"
    assert (
        reader.paused(Ref(Pool, "default", "a")),
        reader.paused(Ref(Pool, "default", "b")),
        reader.paused(),
    ) == (said, None, None)
    assert [each.pool for each in reader.pauses()] == ["a"]
    assert (await reasons(world, "Pool", "a"))[0] == "PoolPaused: firmware"
    await settings_verbs.pause_pool(world.services, OPERATOR, "a", "default", paused=False)
    await world.services.fresh()
    assert reader.pauses() == ()
    pool = await world.services.objects.get(Pool, "a", "default")
    assert pool is not None
    assert pool.metadata.annotations == {}


@pytest.mark.asyncio
async def test_asked_again_a_pause_writes_nothing(world: World) -> None:
    """Pausing twice is one event."""
    await settings_verbs.pause(world.services, OPERATOR, reason="x")
    await settings_verbs.pause(world.services, OPERATOR)
    await settings_verbs.pause(world.services, OPERATOR, reason="x")
    assert len(await reasons(world)) == 1


@pytest.mark.asyncio
async def test_sections_that_were_read_can_be_sent_back(world: World) -> None:
    """Putting the values that hold anyway stores none of them."""
    await settings_verbs.replace_sections(
        world.services, ADMIN, {"idle": {"timeoutMinutes": 60, "enabled": True}}
    )
    assert (await stored(world)).spec.idle == {"enabled": True}


@pytest.mark.asyncio
async def test_new_objects_get_what_the_environment_says(world: World) -> None:
    """A template without an image gets the environment's, one with a pattern keeps its own."""
    world.services.defaults.update(  # type: ignore[attr-defined]  # a dict in every process
        {
            "Template": {
                "machine": {
                    "provider": {"kind": "aws", "amiId": "ami-env", "instanceTypes": ["m5.metal"]}
                }
            }
        }
    )
    cml = {"adminPassword": {"env": "P"}}
    bare = await world.make("Template", "t1", {"machine": {"cml": cml}})
    named = await world.make(
        "Template", "t2", {"machine": {"cml": cml, "aws": {"amiNamePattern": "CML-*"}}}
    )
    assert bare.spec.machine.provider.ami_id == "ami-env"
    assert bare.spec.machine.provider.instance_types == ("m5.metal",)
    assert (named.spec.machine.provider.ami_id, named.spec.machine.provider.instance_types) == (
        None,
        ("m5.metal",),
    )


@pytest.mark.asyncio
async def test_explanations_say_what_is_paused(world: World) -> None:
    """Operators hear why, the owner of a waiting session only that it is so."""
    await world.template()
    await world.definition()
    await world.make("Pool", "a", {"template": "metal"})
    kim = who("user", "kim")
    await world.session("s1", kim)
    await settings_verbs.pause(world.services, OPERATOR, reason="network work")
    await world.services.fresh()
    pool = await explain.explain(world.services, OPERATOR, KINDS["Pool"], "a", "default")
    assert pool.paused is not None
    assert "network work" in pool.lines[-1]
    session = await explain.explain(world.services, kim, KINDS["Session"], "s1", "default")
    assert session.paused == "automatic actions are paused"
    definition = await explain.explain(world.services, kim, KINDS["Definition"], "two", "default")
    assert definition.paused is None


@pytest.mark.asyncio
async def test_a_whole_body_without_it_does_not_resume_a_pool(world: World) -> None:
    """A PUT that does not name the switch keeps it; one that turns it takes the old mark away."""
    await world.template()
    await world.make("Pool", "a", {"template": "metal"})
    await settings_verbs.pause_pool(world.services, OPERATOR, "a", "default", reason="firmware")
    row = KINDS["Pool"]
    await objects.replace(
        world.services, ADMIN, row, "a", {"spec": {"template": "metal"}}, namespace="default"
    )
    await world.services.fresh()
    assert world.services.settings.paused(Ref(Pool, "default", "a")) is not None
    await objects.patch(
        world.services, ADMIN, row, "a", {"spec": {"paused": False}}, namespace="default"
    )
    await objects.patch(
        world.services, ADMIN, row, "a", {"spec": {"paused": True}}, namespace="default"
    )
    await world.services.fresh()
    assert world.services.settings.paused(Ref(Pool, "default", "a")) == "pool a is paused"
