"""A kind that was declared in two places is known to the CLI."""

from __future__ import annotations

import pytest
from throwaway_kind import declare


@pytest.fixture(autouse=True)
def gadget(monkeypatch, stub):
    """Declare the throw-away kind, to the stub of the server too."""
    declare(monkeypatch)
    # Not by the module's name: several folders have a `conftest`.
    monkeypatch.setitem(type(stub).put.__globals__["PLURALS"], "gadgets", "Gadget")


def test_a_declared_kind_is_listed_shown_and_applied(run, stub):
    """Its columns, its short name, wide output, and a manifest."""
    stub.put("Gadget", "g-1", spec={"colour": "red", "size": 3}, status={"phase": "TURNING"})
    head, row = run("get", "gadgets").out.splitlines()
    assert head.split() == ["NAME", "PHASE", "COLOUR", "AGE"]
    assert row.split() == ["g-1", "TURNING", "red", "1h"]
    assert "SIZE" in run("get", "gad", "-o", "wide").out
    assert run("get", "gadget/g-1", "--json").json["spec"]["colour"] == "red"
    text = "apiVersion: labfleet.dev/v1\nkind: Gadget\nmetadata: {name: g-2}\nspec: {size: 2}\n"
    done = run("apply", "-f", "-", stdin=text)
    assert done.code == 0, done.err
    assert stub.objects["Gadget", "g-2"]["spec"]["size"] == 2
