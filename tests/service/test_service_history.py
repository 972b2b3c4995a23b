"""The history of an object: which word and which sentence belong to each event. Pure."""

from __future__ import annotations

import json

import pytest
from hand_clock import START

from labfleet.interfaces import store as stores
from labfleet.resources.meta import Key
from labfleet.service.reads import history


def event(
    reason: str,
    phase: str = "PENDING",
    message: str = "",
    *,
    why: str = "",
    kind: str = "MODIFIED",
    uid: str = "u",
):
    """An event as the store has it."""
    status = {"phase": phase, "message": message, "reason": why}
    doc = json.dumps({"status": status}).encode()
    key = Key("Session", "default", "s")
    return stores.Event(1, kind, key, uid, doc, START, "ada", "r", reason)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("older", "newer", "reason", "message"),
    [
        # a verb keeps what the last step said: that is no news
        (event("x", message="no worker yet"), event("CancelAsked", message="no worker yet"), "CancelAsked", ""),
        (event("x"), event("Deleted", message="its time is over"), "Deleted", "its time is over"),
        # a controller's sentence, with the word of the phase it led to
        (event("x"), event("placed on w-1", "SCHEDULED", "placed on w-1", why="Scheduled"), "Scheduled", "placed on w-1"),
        (event("x"), event("stopping the lab", "STOPPING"), "PhaseChanged", "stopping the lab"),
        (event("x", "STOPPING"), event("stopping the lab", "STOPPING"), "StatusChanged", "stopping the lab"),
        # nothing but the phase was said
        (event("x"), event("RUNNING", "RUNNING"), "PhaseChanged", ""),
        (event("x", "RUNNING"), event("RUNNING", "RUNNING"), "StatusChanged", ""),
        # a word with its sentence
        (event("x"), event("PoolPaused: three were lost"), "PoolPaused", "three were lost"),
        # another object of the name before it says nothing of this one
        (event("x", message="m", uid="v"), event("Created", message="m", kind="ADDED"), "Created", "m"),
        (event("x", "RUNNING", uid="v"), event("retention is over", kind="DELETED"), "Removed", "retention is over"),
    ],
)  # fmt: skip
def test_the_word_and_the_sentence_of_an_event(older, newer, reason, message):
    """The reason is one word, and the message is what this event brought."""
    told = next(history.told([newer], older=older))
    assert (told.reason, told.message) == (reason, message)


def test_without_the_event_before_no_sentence_is_guessed():
    """At the beginning of what is kept only an object's first event has its status's sentence."""
    (later,) = history.told([event("CancelAsked", message="no worker yet")])
    (first,) = history.told([event("Created", message="asked for", kind="ADDED")])
    assert (later.message, first.message) == ("", "asked for")
