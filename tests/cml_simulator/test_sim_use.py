"""What nodes use follows the curves that are set through `/_control`."""

import pytest


def stats(box, lab):
    found = box.get(f"/labs/{lab}/simulation_stats")["nodes"]
    return {key: (each["cpu_usage"], each["ram_usage"], each["disk_usage"]) for key, each in found.items()}  # fmt: skip


@pytest.fixture
def server(box):
    return f"/servers/{box.server.id}"


def test_points(box, topo, server):
    """A point holds from its time after the node's start until the next one."""
    lab = box.import_text(topo({"id": "a"}))["id"]
    points = [{"at": 0, "cpu": 20, "ram": 100, "disk": 300}, {"at": 180, "cpu": 150, "ram": 400, "disk": 310}]  # fmt: skip
    assert box.control("PUT", f"{server}/use", [{"points": points}]) == {"curves": 1}
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    seen = []
    for _ in range(3):
        box.clock.forward(100)
        seen += stats(box, lab).values()
    assert seen == [(20, 100, 300), (150, 400, 310), (150, 400, 310)]


def test_others(box, topo, server):
    """A node whose label no curve fits, and a figure that a point leaves out, use the default."""
    lab = box.import_text(topo({"id": "a"}, {"id": "b"}))["id"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    box.clock.forward(300)
    before = stats(box, lab)
    box.control("PUT", f"{server}/use", [{"node": "a", "points": [{"at": 0, "ram": 77}]}])
    changed = [(before[key], each) for key, each in stats(box, lab).items() if each != before[key]]
    assert [(new[0] == old[0], new[1], new[2] == old[2]) for old, new in changed] == [
        (True, 77, True)
    ]
    box.control("PUT", f"{server}/use", [])
    assert stats(box, lab) == before


def test_host(box, topo, server):
    """The host's own figures contain what the curves say of its nodes."""
    lab = box.import_text(topo({"id": "a"}))["id"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    box.clock.forward(60)

    def memory():
        return box.get("/system_stats")["computes"][box.server.compute_id]["stats"]["memory"][
            "used"
        ]

    box.control("PUT", f"{server}/use", [{"points": [{"at": 0, "ram": 100}]}])
    little = memory()
    box.control("PUT", f"{server}/use", [{"points": [{"at": 0, "ram": 500}]}])
    assert memory() - little == 400 * 1024 * 1024


@pytest.mark.parametrize(
    "curve",
    [
        {"points": []},
        {"points": [{"at": 5}, {"at": 1}]},
        {"points": [{"at": -1}]},
        {"points": [{"at": 0, "cpu": -1}]},
        {"node": "(", "points": [{"at": 0}]},
    ],
)
def test_refused(box, server, curve):
    """A curve that says nothing, goes back in time or is negative is refused."""
    box.control("PUT", f"{server}/use", [curve], want=400)
