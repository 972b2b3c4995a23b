"""`settings`, `pause`, `resume`, and a pause that is shown wherever actions are."""

from __future__ import annotations

import pytest

ROWS = [
    {"setting": "idle.timeoutMinutes", "value": 30, "unit": "minutes", "source": "settings",
     "variable": None, "default": 60},
    {"setting": "discovery.regions", "value": ["us-east-1", "us-west-2"], "unit": "",
     "source": "environment", "variable": "WORKER_DISCOVERY_REGIONS", "default": ["us-east-1"]},
    {"setting": "discovery.template", "value": None, "unit": "", "source": "default",
     "variable": None, "default": None},
]  # fmt: skip
EFFECTIVE = {"settings": ROWS, "pauses": []}
OBJECT = {"kind": "Settings", "metadata": {"name": "fleet"}, "spec": {}, "status": {}}
SET = {**OBJECT, "spec": {"idle": {"enabled": True}}}
PAUSED = {**OBJECT, "spec": {"automation": {"paused": True, "reason": ""}}}


@pytest.fixture
def fleet(stub):
    """A server with settings."""
    stub.answers["GET /api/v1/settings/effective"] = (200, EFFECTIVE)
    stub.answers["POST /api/v1/settings/change"] = (200, SET)
    stub.answers["POST /api/v1/settings/pause"] = (200, PAUSED)
    stub.answers["POST /api/v1/settings/resume"] = (200, OBJECT)
    return stub


def test_settings_shows_value_unit_and_source(run, fleet):
    """One row each; the environment's name its variable."""
    lines = [line.split() for line in run("settings").out.splitlines()]
    assert lines == [
        ["SETTING", "VALUE", "UNIT", "SOURCE"],
        ["idle.timeoutMinutes", "30", "minutes", "settings"],
        ["discovery.regions", "us-east-1,us-west-2", "-", "environment",
         "WORKER_DISCOVERY_REGIONS"],
        ["discovery.template", "-", "-", "default"],
    ]  # fmt: skip
    assert run("settings", "-o", "json").json == EFFECTIVE
    assert run("settings", "-o", "wide").out.splitlines()[1].split()[-1] == "60"
    assert run("settings", "-q").out.split() == [each["setting"] for each in ROWS]


def test_set_sends_typed_values_and_the_reason(run, fleet):
    """Numbers, words and lists are what their setting asks for."""
    said = run(
        "settings", "set", "idle.timeoutMinutes=30", "discovery.regions=us-east-1, us-west-2",
        "idle.enabled=true", "--reason", "exam week",
    )  # fmt: skip
    assert said.code == 0
    assert "idle.timeoutMinutes=30" in said.out
    assert fleet.calls("POST")[0].body == {
        "set": {
            "idle.timeoutMinutes": 30,
            "discovery.regions": ["us-east-1", "us-west-2"],
            "idle.enabled": True,
        },
        "reason": "exam week",
    }


def test_unset_names_what_falls_back(run, fleet):
    """The body names the settings."""
    assert run("settings", "unset", "idle.timeoutMinutes").code == 0
    assert fleet.calls("POST")[0].body == {"unset": ["idle.timeoutMinutes"], "reason": ""}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("set", "idle.timoutMinutes=3"), "did you mean idle.timeoutMinutes"),
        (("set", "idle.timeoutMinutes=soon"), "expected"),
        (("set", "idle.timeoutMinutes"), "SETTING=VALUE"),
        (("unset", "idel.enabled"), "did you mean idle.enabled"),
    ],
)
def test_a_wrong_setting_is_a_usage_error_and_sends_nothing(run, fleet, words, hint):
    """Exit 2 with a hint, before anything is sent."""
    said = run("settings", *words)
    assert said.code == 2
    assert hint in said.err
    assert fleet.seen == []


def test_options_may_stand_before_the_last_word(run, fleet):
    """`settings -o json set` is `settings set -o json`."""
    assert run("settings", "-o", "json", "set", "idle.enabled=true").json == SET


def test_pause_and_resume_of_the_fleet_and_of_a_pool(run, fleet):
    """Each is one call with the reason; people hear what goes on and how it ends."""
    fleet.put("Pool", "exam")
    said = run("pause", "--reason", "network work")
    assert (said.code, said.out) == (0, "automatic actions paused\n")
    assert "labfleet resume" in said.err
    assert run("pause", "--pool", "exam").out == "pool/exam paused\n"
    pauses = [{"pool": "exam", "text": "t"}, {"pool": None, "text": "t"}]
    fleet.answers["GET /api/v1/settings/effective"] = (200, {**EFFECTIVE, "pauses": pauses})
    assert run("resume", "--pool", "exam").out == "pool/exam resumed\n"
    fleet.answers["GET /api/v1/settings/fleet"] = (200, PAUSED)
    assert run("resume").out == "automatic actions resumed\n"
    assert [(each.path, each.body) for each in fleet.calls("POST")] == [
        ("/api/v1/settings/pause", {"reason": "network work"}),
        ("/api/v1/pools/exam/pause", {"reason": ""}),
        ("/api/v1/pools/exam/resume", {"reason": ""}),
        ("/api/v1/settings/resume", {"reason": ""}),
    ]


def test_resume_says_what_was_not_paused_and_what_still_is(run, fleet):
    """Nobody believes that everything goes on while a pool or the whole fleet is paused."""
    fleet.put("Pool", "exam", spec={"paused": False})
    assert run("resume").out == "automatic actions were not paused; nothing was changed\n"
    told = run("resume", "--pool", "exam").out
    assert told == "pool/exam was not paused; nothing was changed\n"
    pauses = [{"pool": "exam", "text": "t"}, {"pool": None, "text": "t"}]
    fleet.answers["GET /api/v1/settings/effective"] = (200, {**EFFECTIVE, "pauses": pauses})
    fleet.answers["GET /api/v1/settings/fleet"] = (200, PAUSED)
    done = run("resume")
    said = done.err
    assert "not paused" not in done.out + said
    assert "Pool exam is still paused; it ends with: labfleet resume --pool exam" in said
    assert "Everything is still paused" in run("resume", "--pool", "exam").err
    alone = {**EFFECTIVE, "pauses": [{"pool": None, "text": "t"}]}
    fleet.answers["GET /api/v1/settings/effective"] = (200, alone)
    told = run("resume", "--pool", "exam")
    assert told.out == "pool/exam was not paused; nothing was changed\n"
    assert "Everything is still paused; it ends with: labfleet resume\n" in told.err


def test_a_pause_is_told_wherever_actions_are_shown(run, stub):
    """Tables and verbs say it once on stderr; programs read only their answer."""
    stub.paused = "automatic actions are paused by ada: Wartung\x1b[1m über Nacht"
    stub.put("Worker", "w-1")
    for words in (("get", "workers"), ("get", "pools"), ("cordon", "w-1"), ("get", "worker/x")):
        said = run(*words)
        assert said.err.count("Automatic actions are paused by ada") == 1, words
        assert "\x1b" not in said.err
    assert "paused" not in run("get", "workers", "-o", "json").err
    assert "paused" not in run("get", "workers", "-q").err


def test_the_verbs_of_a_pause_do_not_say_it_twice(run, fleet):
    """`resume` may still see the header of the pause that it ends."""
    fleet.paused = "automatic actions are paused"
    assert "are paused" not in run("resume").err


def test_an_explanation_with_its_pause_says_it_once(run, stub):
    """The line of the explanation stands for the note."""
    stub.paused = "automatic actions are paused by ada"
    answer = {"phase": "READY", "summary": "2 ready", "paused": stub.paused}
    stub.answers["GET /api/v1/pools/p1/explain"] = (200, answer)
    said = run("explain", "pool/p1")
    assert "Paused:    automatic actions are paused by ada" in said.out
    assert said.err == ""


def test_an_explanation_without_a_phase_names_none(run, stub):
    """A webhook has no phases, and what helps stands apart from its title."""
    answer = {"phase": None, "since": "2026-11-27T11:00:00Z", "summary": "2 sent",
              "runbook": {"fix": "look at NAME"}}  # fmt: skip
    stub.answers["GET /api/v1/webhooks/chat/explain"] = (200, answer)
    said = run("explain", "webhook/chat")
    assert said.out.splitlines()[0] == "webhook/chat"
    assert "If it lasts: look at chat" in said.out


def test_what_a_setting_will_not_do_is_told_with_its_value(run, fleet):
    """As a note below the table, and with a change as a warning."""
    rows = [{**ROWS[0], "note": "it does nothing for template metal"}]
    fleet.answers["GET /api/v1/settings/effective"] = (200, {**EFFECTIVE, "settings": rows})
    said = run("settings").err
    assert "idle.timeoutMinutes: it does nothing for template metal" in said
    fleet.warning = "it does nothing for template metal"
    said = run("settings", "set", "idle.enabled=true")
    assert "Warning: it does nothing for template metal" in said.err
    assert not run("settings", "set", "idle.enabled=true", "-o", "json").err


def test_a_clock_is_confirmed_with_its_reason(run, stub):
    """The route gets the reason; the reply says who follows."""
    stub.answers["POST /api/v1/settings/confirm-clock"] = (200, OBJECT)
    done = run("confirm-clock", "--reason", "NTP was off")
    assert done.out == "clock confirmed\n"
    assert stub.seen[-1].body == {"reason": "NTP was off"}


@pytest.mark.parametrize(
    ("words", "path", "stands", "said"),
    [
        (("settings", "set", "idle.enabled=true"), "change", SET, "the settings are so already"),
        (("settings", "unset", "idle.enabled"), "change", OBJECT, "the settings are so already"),
        (("settings", "unset", "idle.enabled"), "change", None, "the settings are so already"),
        (("pause",), "pause", PAUSED, "automatic actions were paused already"),
        (("resume",), "resume", OBJECT, "automatic actions were not paused"),
    ],
)
def test_a_switch_that_stood_so_already_is_not_claimed(run, fleet, words, path, stands, said):
    """When the answer is what the fleet had, nothing was changed; never made settings are empty."""
    answer = OBJECT if stands is None else stands
    fleet.answers[f"POST /api/v1/settings/{path}"] = (200, answer)
    if stands is not None:
        fleet.answers["GET /api/v1/settings/fleet"] = (200, stands)
    done = run(*words)
    assert (done.code, done.out) == (0, f"{said}; nothing was changed\n")
