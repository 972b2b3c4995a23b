"""`labfleet kept` and `labfleet continue`, as somebody types them, of a server that answers."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from datetime import timedelta

import pytest
from live_api import LiveApi, live_api, place

from labfleet.interfaces import store as stores
from labfleet.resources.kept_work import KeptWork
from labfleet.resources.session import SessionPhase

TEXT = b"lab: {}\nnodes: []\n# enable secret\n"


@pytest.fixture
def live() -> Iterator[LiveApi]:
    """An installation in which a session has ended, whose lab was kept, and another one waits."""
    with place() as at, live_api(at) as made:
        world = made.api.world
        made.do(world.definition("two", keep="owner", continuable=True))
        for name in ("mine", "waits"):
            session = made.do(world.make("Session", name, {"definition": "two", "owner": "admin"}))
            if name == "mine":
                now = world.clock.now()
                until = now + timedelta(days=7)
                lab = stores.NewKeptLab(session.metadata.uid, "admin", TEXT, now, until)
                bounds = stores.KeptBounds(1 << 20, 1 << 20, 1 << 20)
                made.do(world.store.keep_lab(lab, bounds))
                work = KeptWork(readers="owner", at=now, until=until, size=len(TEXT))
                ended = {"phase": SessionPhase.COMPLETED, "ended_at": now, "kept": work}
                made.do(world.status(session, **ended))
        yield made


@pytest.fixture
def at(live) -> dict[str, str]:
    """The variables of who calls that installation."""
    return {"LABFLEET_URL": live.url, "LABFLEET_TOKEN": live.token}


def test_a_kept_lab_is_written_for_oneself_alone_and_never_over_a_file(run, at, tmp_path):
    """To stdout as it came, or into a new file that nobody else may read."""
    assert run("kept", "mine", env=at).out.encode() == TEXT
    file = tmp_path / "mine.yaml"
    said = run("kept", "session/mine", "--write", str(file), env=at)
    assert (said.code, said.out) == (0, "")
    assert "may hold passwords" in said.err
    assert file.read_bytes() == TEXT
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = run("kept", "mine", "--write", str(file), env=at)
    assert (again.code, "exists already" in again.err) == (2, True)
    none = run("kept", "waits", env=at)
    assert (none.code, none.out) == (4, "")
    assert "nothing is kept of session 'waits'" in none.err


def test_a_kept_lab_is_deleted_after_a_question(run, at):
    """Not without an answer where nobody can be asked; then it is gone."""
    asked = run("kept", "mine", "--delete", env=at)
    assert asked.code != 0
    assert run("kept", "mine", env=at).out.encode() == TEXT
    said = run("kept", "mine", "--delete", "--yes", env=at)
    assert said.out == "what was kept of session/mine is deleted\n"
    assert run("kept", "mine", env=at).code == 4


def test_a_session_goes_on_with_an_ended_one(run, at):
    """One command; it says what it goes on with, and refuses what is not over or not kept."""
    said = run("continue", "mine", env=at)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("session/mine-next goes on with what was kept of session/mine")
    shown = run("get", "session/mine-next", "-o", "jsonpath={.spec.continueFrom}", env=at)
    assert shown.out.strip() == "mine"
    waits = run("continue", "waits", env=at)
    assert (waits.code, "is PENDING" in waits.err) == (5, True)


def test_the_new_session_has_the_name_that_it_is_given(run, at):
    """A name that is taken is refused; for scripts the name alone is said."""
    assert run("continue", "mine", "--as", "waits", env=at).code == 5


def test_a_script_reads_the_name_alone(run, at):
    """With the length that was asked for."""
    said = run("-q", "continue", "mine", "--as", "evening", "--minutes", "30", env=at)
    assert said.out == "evening\n"
    shown = run("get", "session/evening", "-o", "jsonpath={.spec.durationMinutes}", env=at)
    assert shown.out.strip() == "30"
