"""Ports: asked for, given, seen.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import port_numbers
from labfleet.resources import port_tags
from labfleet.resources.amounts import Shortage
from labfleet.resources.definition import PortRequest
from labfleet.resources.port_tags import PortTag
from labfleet.resources.topology import Node, Topology


def lab(**tags: list[str]) -> Topology:
    """A lab whose nodes have these labels and tags."""
    return of(tags)


def of(tags: dict[str, list[str]]) -> Topology:
    """A lab whose nodes have these labels, of any spelling, and tags."""
    nodes = tuple(
        Node(id=str(n), label=label, node_definition="alpine", tags=tuple(each))
        for n, (label, each) in enumerate(tags.items())
    )
    return Topology(title="", description="", notes="", version="0.3.0", nodes=nodes, links=0)


@pytest.mark.parametrize(
    ("tag", "wanted"),
    [
        ("serial:5041", PortTag("serial", "tcp", 0, 5041)),
        ("serial:5041:1", PortTag("serial", "tcp", 1, 5041)),
        ("vnc:5044", PortTag("vnc", "tcp", 0, 5044)),
        ("pat:2022:22", PortTag("pat", "tcp", 22, 2022)),
        ("pat:tcp:2022:22", PortTag("pat", "tcp", 22, 2022)),
        ("pat:udp:5000:161", PortTag("pat", "udp", 161, 5000)),
        ("SERIAL:5041", PortTag("serial", "tcp", 0, 5041)),
        (" pat : tcp : 2022 : 22 ", PortTag("pat", "tcp", 22, 2022)),
        ("serial:0", PortTag("serial", "tcp", 0, None)),
        ("serial:65536", PortTag("serial", "tcp", 0, None)),
        ("serial:80", PortTag("serial", "tcp", 0, 80)),
        ("serial:", PortTag("serial", "tcp", 0, None)),
        ("serial:abc", None),
        ("pat:2022", None),
        ("pat:2022:0", None),
        ("pat:2022:65536", None),
        ("serial:\u0665\u0660", None),
        ("ansible:key=value", None),
        ("serial", None),
        ("serial:" + "1" * 80, None),
    ],
)
def test_tag_corner_cases(tag, wanted):
    """Each spelling of facts/cml.md#ports is read as one thing or as nothing."""
    assert port_tags.parse(tag) == wanted


def test_template_names_follow_the_seed():
    """A name is label_kind; further lines and inner ports get a suffix."""
    found = port_numbers.template_of(lab(PC=["serial:1", "serial:2:1", "vnc:3", "pat:udp:4:161"]))
    assert [each.name for each in found] == [
        "PC_serial", "PC_serial1", "PC_vnc", "PC_pat_udp_161",
    ]  # fmt: skip


def test_template_drops_duplicates_and_numbers():
    """Two tags for one line are one port, whatever numbers they gave."""
    assert len(port_numbers.template_of(lab(PC=["serial:5041", "serial:5042"]))) == 1


def test_labels_are_sanitised_without_collision():
    """A blank becomes `_`; where that would make two labels one, they are told apart."""
    names = [
        each.name
        for each in port_numbers.template_of(
            of(
                {
                    "R 1": ["serial:"],
                    "R_1": ["serial:"],
                    "\u674e\u96f7": ["vnc:"],
                    "\u738b\u4e94": ["vnc:"],
                }
            )
        )
    ]
    assert names[1] == "R_1_serial"
    assert len(set(names)) == 4
    assert port_numbers.template_of(of({"my PC": ["serial:"]}))[0].name == "my_PC_serial"


@given(st.lists(st.text(min_size=1, max_size=128), unique=True, max_size=8))
def test_any_labels_give_legal_distinct_names(labels):
    """Every set of labels gives names that the definition's schema takes, none twice."""
    made = port_numbers.template_of(of({label: ["serial:", "pat:udp:1:65535"] for label in labels}))
    names = [each.name for each in made]
    assert len(set(names)) == 2 * len(labels)
    assert all(len(name) <= 96 and name.isascii() for name in names)


def requests(tcp: int, udp: int = 0) -> list[PortRequest]:
    """This many requests of each transport."""
    made = [PortRequest(name=f"t{n}", node="N", kind="serial") for n in range(tcp)]
    for n in range(udp):
        made.append(PortRequest(name=f"u{n}", node="N", kind="pat", transport="udp", inner=n + 1))
    return made


def test_lowest_free_and_two_spaces():
    """TCP and UDP may share a number; taken ones are passed over."""
    found = port_numbers.allocate(requests(2, 1), taken={("tcp", 2000), ("udp", 2001)})
    assert [(each.transport, each.number) for each in found] == [
        ("tcp", 2001), ("tcp", 2002), ("udp", 2000),
    ]  # fmt: skip


def test_template_larger_than_the_range():
    """A template that no range can hold gives the shortage, not a part of it."""
    assert port_numbers.allocate(requests(7), taken=set(), first=2000, last=2005) == Shortage(
        dimension="ports", wanted=7, free=6
    )


taken = st.sets(st.tuples(st.sampled_from(["tcp", "udp"]), st.integers(1990, 2030)))


@given(st.integers(0, 25), st.integers(0, 25), taken)
def test_allocation_is_all_or_nothing(tcp, udp, held):
    """Either every request has a free number of its own, or too few were free."""
    wanted = requests(tcp, udp)
    found = port_numbers.allocate(wanted, taken=held, first=2000, last=2020)
    if isinstance(found, Shortage):
        assert found.wanted > found.free
        return
    numbers = {(each.transport, each.number) for each in found}
    assert len(numbers) == len(wanted) == len(found)
    assert not numbers & held
    assert all(2000 <= number <= 2020 for _, number in numbers)


homes = st.integers(2000, 2020)


@given(st.integers(0, 25), st.integers(0, 25), taken, homes)
def test_where_numbers_begin_decides_nothing_but_which(tcp, udp, held, begin):
    """From any home the same requests are granted or refused; the numbers of a free home are its own."""
    wanted = requests(tcp, udp)
    plain = port_numbers.allocate(wanted, taken=held, first=2000, last=2020)
    found = port_numbers.allocate(wanted, taken=held, begin=begin, first=2000, last=2020)
    if isinstance(plain, Shortage):
        assert found == plain
        return
    assert not isinstance(found, Shortage)
    mine = [(each.transport, each.number) for each in found]
    assert len(set(mine)) == len(wanted)
    assert not set(mine) & held
    room = range(begin, min(begin + tcp, 2021))
    if not any(("tcp", number) in held for number in room):
        assert [each for each in mine if each[0] == "tcp"][: len(room)] == [
            ("tcp", n) for n in room
        ]


def test_a_home_is_a_persons_and_a_definitions_own():
    """The same on each worker and in each process, others elsewhere, always within the range."""
    assert port_numbers.home("default/kim", "default/ccnp") == 7681
    homes_ = {port_numbers.home(f"default/p{n}", "default/ccnp") for n in range(300)}
    assert len(homes_) > 280
    assert all(2000 <= each <= 7999 for each in homes_)
    assert port_numbers.home("default/kim", "b", 10, 10) == 10


def test_what_is_written_is_what_is_seen():
    """Tags written for an allocation are observed under the same names and numbers."""
    start = lab(PC=["serial:", "serial::1", "vnc:", "pat:1:22"], R2=["pat:udp:9:161"])
    given_ports = port_numbers.allocate(port_numbers.template_of(start), taken=set())
    assert not isinstance(given_ports, Shortage)
    live = lab(**{label: list(each) for label, each in port_numbers.tags(given_ports).items()})
    allocated = {each.name: each.number for each in given_ports}
    assert port_numbers.observed(live.nodes) == allocated
    assert port_numbers.drift(allocated, port_numbers.observed(live.nodes)) == ()


def test_drift_by_name():
    """Added, removed and changed ports are told apart; an empty side differs in all."""
    changes = port_numbers.drift({"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 4, "d": 5})
    assert [(each.name, each.allocated, each.observed) for each in changes] == [
        ("a", 1, None), ("c", 3, 4), ("d", None, 5),
    ]  # fmt: skip
    (added,) = port_numbers.drift({}, {"a": 1})
    assert (added.allocated, added.observed) == (None, 1)
    (lost,) = port_numbers.drift({"a": 1}, {})
    assert (lost.allocated, lost.observed) == (1, None)
    assert port_numbers.drift({}, {}) == ()


def test_claims_of_strangers_count():
    """A port that somebody else's lab names is not given to us (T41)."""
    seen = port_numbers.claims(lab(X=["serial:2000", "pat:udp:2001:53", "core"]).nodes)
    assert seen == {("tcp", 2000), ("udp", 2001)}
    found = port_numbers.allocate(requests(1), taken=seen)
    assert not isinstance(found, Shortage)
    assert found[0].number == 2001
