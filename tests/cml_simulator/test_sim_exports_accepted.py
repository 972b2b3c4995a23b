"""Whatever a CML server of any release writes out may be made a definition again."""

from __future__ import annotations

import json
import random

import pytest
from drawn_topologies import topologies
from hypothesis import given, settings

from cml_simulator.core import builder, export
from cml_simulator.core import fleet as fleets
from cml_simulator.core import topology as cml_topology
from cml_simulator.core.profile import RELEASES, Profile, Rules
from labfleet.resources import topology, topology_check

PROFILES = [Profile(version) for version in RELEASES.values()]


def _exports(text: str, profile: Profile) -> tuple[str, str]:
    """Import a lab into a server of this release; return its download and its API answer."""
    fleet = fleets.Fleet(random.Random(7), "pw")
    server = fleets.create(fleet, profile=profile, rules=Rules(unknown_definition="warn"))
    sent = topology.personalise(text, title="lab", marker="m", tags={})
    parsed = cml_topology.parse(cml_topology.load_text(sent.encode()), profile)
    lab, _ = builder.import_topology(server, parsed, "lab", "owner", 0.0)
    return export.download(lab), json.dumps(export.topology(server, lab))


def _accepted(text: str, profile: Profile) -> None:
    before = topology.parse(text)
    for written in _exports(text, profile):
        found = topology_check.check(written)
        assert (len(found.nodes), found.links) == (len(before.nodes), before.links)


@pytest.mark.data
@pytest.mark.parametrize("profile", PROFILES, ids=lambda each: each.version)
def test_exports_of_real_labs_are_accepted(labs, profile):
    """Each of the real labs that a release can import, it exports in a form that is accepted."""
    taken = [text for text in labs.values() if topology.parse(text).version in profile.schemas]
    assert taken
    for text in taken:
        _accepted(text, profile)


@settings(max_examples=30)
@given(topologies())
def test_exports_of_any_lab_are_accepted(lab):
    """Every release exports any lab that it could import in a form that is accepted."""
    for profile in PROFILES:
        if lab["lab"]["version"] in profile.schemas:
            _accepted(json.dumps(lab), profile)
