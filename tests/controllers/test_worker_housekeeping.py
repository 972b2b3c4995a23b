"""Console text of failed boots, and tags on live instances: done beside a worker's life."""

from __future__ import annotations

from typing import Any

import pytest
from virtual_time import play
from world import ADMIN, World, world

from labfleet.controllers.worker import console
from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.kinds import KINDS
from labfleet.service.verbs import objects


async def tagged(w: World, **tags: str | None) -> None:
    """Change a worker's tags as a person does; None removes one."""
    body: Any = {"spec": {"tags": tags}}
    await objects.patch(w.services, ADMIN, KINDS["Worker"], "w1", body, namespace="default")


def on_instance(w: World) -> dict[str, str]:
    """Return the tags of the only instance."""
    (machine,) = w.compute.machines.values()
    return machine.tags


def test_what_a_person_tags_is_on_the_instance_and_what_they_drop_is_not() -> None:
    """Set, changed, dropped; other people's tags stay, and a hand's change is put right."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            on_instance(w)["theirs"] = "yes"
            await tagged(w, team="a", cost="1")
            await w.until(lambda: on_instance(w).get("team") == "a")
            await w.until(
                lambda: conditions.is_true(w.get_worker().status.conditions, "TagsApplied")
            )
            assert w.get_worker().status.machine.tags == ("cost", "team")
            assert w.get_worker().status.machine.tags_seen == dict(sorted(on_instance(w).items()))
            before = len(w.compute.calls)
            await w.let_pass(300)
            assert len(w.compute.calls) == before, "nothing to do, nothing done"
            on_instance(w)["team"] = "by hand"
            await w.until(lambda: on_instance(w)["team"] == "a")
            await tagged(w, cost=None)
            await w.until(lambda: "cost" not in on_instance(w))
            await tagged(w, team=None)
            await w.until(lambda: "team" not in on_instance(w))
            await w.let_pass(60)
            assert on_instance(w)["theirs"] == "yes"
            assert w.get_worker().status.machine.tags == ()
            assert conditions.find(w.get_worker().status.conditions, "TagsApplied") is None
            w.check()

    play(story)


def test_keys_are_written_down_before_they_are_set() -> None:
    """A lost answer leaves no tag that nobody will ever remove."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            real, known = w.compute.set_tags, []

            async def lost(region: str, instance_id: str, tags: Any) -> None:
                known.append(w.get_worker().status.machine.tags)
                await real(region, instance_id, tags)
                raise errors.Ambiguous("no answer")

            w.compute.set_tags = lost  # type: ignore[method-assign]
            await tagged(w, team="a")
            await w.until(lambda: bool(known))
            assert known[0] == ("team",)
            w.compute.set_tags = real  # type: ignore[method-assign]
            await tagged(w, team=None)
            await w.until(lambda: "team" not in on_instance(w))

    play(story)


def test_tags_that_aws_refuses_are_told_and_hold_nothing_up() -> None:
    """No permission: the condition says so, and the worker goes on."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))

            async def denied(region: str, instance_id: str, tags: Any) -> None:
                raise errors.Denied("not authorised", reason="UnauthorizedOperation")

            w.compute.set_tags = denied  # type: ignore[method-assign]
            await tagged(w, team="a")
            await w.let_pass(120)
            found = conditions.find(w.get_worker().status.conditions, "TagsApplied")
            assert found is not None
            assert (found.status, found.reason) == ("False", "Refused")
            assert "UnauthorizedOperation" in found.message
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPED"))

    play(story)


@pytest.mark.parametrize("key", ["labfleet:owner", "aws:x", "Name"])
def test_whose_a_machine_is_cannot_be_tagged_away(key: str) -> None:
    """Owner tags are refused where tags are written, with the field's name."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker()
            with pytest.raises(errors.Invalid) as caught:
                await tagged(w, **{key: "mine"})
            assert caught.value.problems[0][0] == f"spec.tags.{key}"

    play(story)


def test_a_boot_that_fails_keeps_its_console_once() -> None:
    """CML never comes up: the console's end is in the record, fetched one time."""

    async def story() -> None:
        async with world() as w:
            w.compute.console = "\x1b[31mpanic\x1b[0m: no disk\r\npassword: hunter22\n"
            w.hosts.boot(10_000.0)
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "FAILED"))
            await w.until(lambda: bool(w.get_worker().status.console))
            head, _, text = w.get_worker().status.console.partition("\n")
            assert head.startswith(f"[{w.get_worker().status.machine.id}@")
            assert text == "panic: no disk\npassword: ***"
            await w.let_pass(600)
            assert w.compute.calls.count("console_output") == 1

    play(story)


def test_a_console_is_kept_short_whole_lined_and_printable() -> None:
    """4 KiB from the end, from a line's start, without control characters."""
    text = "".join(f"line {number:06d} ä\x00\n" for number in range(2000))
    kept = console.readable(text, [])
    assert len(kept.encode()) <= 4096
    assert kept.splitlines()[0].startswith("line 00")
    assert kept.endswith("line 001999 ä\ufffd")
    assert console.readable(" \n\x1b[2J", []) == console.NOTHING
    assert len(console.readable("x" * 9000, []).encode()) == 4096


@pytest.mark.parametrize(
    "text",
    [
        "login with s3cr3t-pass now",
        "PASSWORD=s3cr3t-pass",
        '"api_key": "s3cr3t-pass"',
        "token s3cr3t-pass",
        "-----BEGIN RSA PRIVATE KEY-----\ns3cr3t-pass\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\ns3cr3t-pass",
    ],
)
def test_a_console_tells_no_secret_that_is_known(text: str) -> None:
    """Given secrets, named values and private keys are masked."""
    assert "s3cr3t-pass" not in console.readable(text, ["s3cr3t-pass"])
    if "BEGIN" in text or "=" in text:
        assert "s3cr3t-pass" not in console.readable(text, [])
    assert "AKIAABCDEFGHIJKLMNOP" not in console.readable("AKIAABCDEFGHIJKLMNOP", [])
