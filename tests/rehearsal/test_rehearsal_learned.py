"""Labs of a rehearsal that are counted with what past ones used, and then use far more."""

from __future__ import annotations

import pytest
from learned_breaks import LEARNED

from cml_simulator.core.profile import Machine
from cml_simulator.core.server import MIB
from labfleet.rehearsal.people import learned_labs
from labfleet.rehearsal.seeds import playing
from labfleet.rehearsal.seeds.run import rehearse
from labfleet.resources import topology


@pytest.mark.timeout(180)
def test_labs_that_use_more_than_was_learned_break_nothing() -> None:
    """All rules hold in a run that learned less than was declared, and whose labs outgrew it."""
    report = rehearse(1, LEARNED)
    assert report.violations == []
    assert report.learned["bound"] > 20
    assert report.learned["with less memory"] > 10
    assert report.learned["use above"] > 5
    assert report.phases["FAILED"] == 0


def test_the_command_that_plays_it_again_names_the_option() -> None:
    """A violation's replay has as many learned sessions."""
    assert f"--learned {LEARNED.learned}" in playing.command(1, LEARNED)


def test_its_lab_is_larger_than_four_on_a_server() -> None:
    """Five of them do not fit the memory of a server, and its topology says so."""
    text = learned_labs.topology("learned", f", ram: {learned_labs.RAM}")
    [node] = topology.parse(text).nodes
    assert node.ram == learned_labs.RAM
    memory = Machine().memory_bytes // MIB
    assert 4 * learned_labs.RAM <= memory < 5 * learned_labs.RAM
