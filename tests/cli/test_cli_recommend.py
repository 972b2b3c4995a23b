"""`recommend`: the figures, what follows, and the verbs, against the real API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from live_api import LiveApi, live_api, place

from labfleet.interfaces import store as stores
from labfleet.resources.history import Run, RunKind, Use

Go = Callable[..., Any]


@pytest.fixture
def live() -> Iterator[LiveApi]:
    """The real API, where six sessions of a definition used a quarter of what it asks for."""
    with place() as at, live_api(at) as made:
        made.do(past(made))
        yield made


async def past(live: LiveApi) -> None:
    """Make the definition and its past."""
    world = live.api.world
    await world.definition("campus", resources={"cpu": 8, "memory": "4Gi"})
    use = {"cpu_milli": Use(peak=500.0), "memory_mib": Use(peak=700.0)}
    ended = world.clock.now() - timedelta(hours=1)
    writes = tuple(
        stores.Teach(
            Run(kind=RunKind.SESSION, uid=f"u{number}", family="campus", use=use,
                duration_seconds=3600.0, ended_at=ended)
        )
        for number in range(6)
    )  # fmt: skip
    await world.store.commit(stores.Commit(stores.Cause("t", world.clock.now()), writes))
    await world.services.fresh()


@pytest.fixture
def go(run: Go, live: LiveApi) -> Go:
    """Run a command line against it."""

    def ask(*argv: str) -> Any:
        env = {"LABFLEET_URL": live.url, "LABFLEET_TOKEN": live.token}
        return run(*argv, env=env)

    return ask


def test_it_shows_figures_options_and_what_to_do(go: Go) -> None:
    """Declared, used and bound of each dimension; no line is wider than 80 columns."""
    done = go("recommend", "definition", "campus")
    assert done.code == 0, done.err
    rows = {line.split()[0]: line.split() for line in done.out.splitlines() if line.strip()}
    assert rows["memory"] == [
        "memory", "4GiB", "700MiB", "700MiB", "700MiB", "700MiB", "1GiB", "6",
    ]  # fmt: skip
    assert rows["storage"][2:] == ["-", "-", "-", "-", "-", "0"]
    assert rows["bound"][1:3] == ["2", "1GiB"]
    assert max(len(line) for line in done.out.splitlines()) <= 80
    assert "6 past sessions of family campus looked at, 200 at most" in done.err
    assert "labfleet recommend definition/campus --apply bound" in done.err
    assert go("recommend", "campus", "-o", "json").json["needsReview"] is True
    assert go("recommend", "campus", "--alone", "-o", "json").json["lookedAt"] == 0


def test_it_is_applied_and_undone_by_one_command(go: Go) -> None:
    """The new version is named with what it asks for; undoing says what new sessions get."""
    done = go("recommend", "definition/campus", "--apply", "bound", "--yes")
    assert done.code == 0, done.err
    assert done.out.startswith("definition/campus-v2 was made of definition/campus; it asks for")
    told = go("recommend", "campus")
    assert "campus-v2 is newer" in told.err
    undone = go("recommend", "campus-v2", "--undo", "--yes")
    assert "definition/campus-v2 is deprecated" in undone.out
    assert "get definition/campus." in undone.out


def test_nothing_is_applied_without_a_yes(go: Go) -> None:
    """Without a terminal and without --yes nothing is changed, and the command says so."""
    done = go("recommend", "campus", "--apply", "bound")
    assert done.code == 2
    assert "Nothing was changed" in done.err


def test_amounts_of_ones_own_are_judged(go: Go) -> None:
    """Too little memory names the nodes; amounts without custom, and two deeds, are usage errors."""
    done = go("recommend", "campus", "--apply", "custom", "--memory", "500Mi", "--yes")
    assert done.code != 0
    assert "r1 512 MiB" in done.err
    assert go("recommend", "campus", "--memory", "4Gi").code == 2
    assert go("recommend", "campus", "--undo", "--apply", "max").code == 2
    assert go("recommend", "session/campus").code == 2


def test_a_proposal_is_made_seen_and_taken_back(go: Go) -> None:
    """Who proposes what is told to the next who look, until it is taken back."""
    done = go("recommend", "campus", "--propose", "bound", "-m", "half the fleet")
    assert done.out.startswith("definition/campus has a proposal: bound")
    assert "proposes bound: half the fleet" in go("recommend", "campus").err
    assert "has no proposal now" in go("recommend", "campus", "--withdraw").out
    assert "proposes" not in go("recommend", "campus").err
