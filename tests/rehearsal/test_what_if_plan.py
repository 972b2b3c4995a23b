"""Plans of a what-if: what they become, and where each mistake is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from labfleet.kernel import errors
from labfleet.rehearsal import plan_command
from labfleet.rehearsal.plans import plan
from labfleet.rehearsal.whatif import what_if
from labfleet.resources import prices
from labfleet.resources.machine import Machine
from labfleet.service.kinds import paid_rows

PLAN = """\
name: small
hours: 6
templates:
- {name: metal, instanceType: m5zn.metal}
- {name: half, instanceType: own, hourlyPriceUsd: 1.5, capacity: {cpu: 24, memory: 96Gi, labs: 10}}
pools:
- {name: main, template: metal, track: main, scaling: {minWorkers: 1, maxWorkers: 3}}
definitions:
- {name: pod, nodes: [iosv, iosv, alpine], minutes: 60, track: main}
demand:
  generated: {onDemandPerDay: 24}
variants:
- {name: as it is}
- {name: smaller machines, template: half, scaling: {maxWorkers: 6}}
seed: 1
"""


def _written(folder: Path, text: str) -> Path:
    path = folder / "plan.yaml"
    path.write_text(text)
    return path


def test_a_plan_gives_a_case_for_each_variant(tmp_path: Path) -> None:
    """Variants share fleet and demand, and differ in what they say."""
    asked = plan.load(_written(tmp_path, PLAN))
    (first, second), real = plan_command.cases_of(asked, tmp_path)
    assert real is None
    assert first.crowd == second.crowd
    pools = [spec for case in (first, second) for kind, _, spec in case.fleet if kind == "Pool"]
    assert [each["template"] for each in pools] == ["metal", "half"]
    assert [each["scaling"]["maxWorkers"] for each in pools] == [3, 6]
    sizes = {name: spec["machine"] for kind, name, spec in first.fleet if kind == "Template"}
    assert sizes["metal"]["hourlyPriceUsd"] == 4.3605
    assert sizes["half"]["capacity"]["memoryMib"] == 96 * 1024


def test_a_plan_may_name_a_strategy(tmp_path: Path) -> None:
    """A pool's holds for all variants but those that name another; the answer shows which."""
    text = PLAN.replace("track: main, scaling", "track: main, strategy: LEAST_LABS, scaling")
    text = text.replace("name: smaller machines,", "name: packed, strategy: PACKED,")
    cases, _ = plan_command.cases_of(plan.load(_written(tmp_path, text)), tmp_path)
    shown = [what_if.settings(each.fleet)["main"]["strategy"] for each in cases]
    assert shown == ["LEAST_LABS", "PACKED"]
    plain, _ = plan_command.cases_of(plan.load(_written(tmp_path, PLAN)), tmp_path)
    assert what_if.settings(plain[0].fleet)["main"]["strategy"] == "PACKED"


BAD_PLANS = {
    "no strategy": ("track: main, scaling", "track: main, strategy: FULLEST, scaling",
                    "line 7: pools[0].strategy: "),
    "unknown key": ("maxWorkers: 3", "maxWorker: 3", "line 7: pools[0].scaling.maxWorker: unknown"),
    "no number": ("hours: 6", "hours: many", "line 2: hours: Expected `float`"),
    "beyond numbers": ("hours: 6", "hours: 1.0e999", "line 2: hours: too large"),
    "too long": ("hours: 6", "days: 400", "line 2: days: a plan is at most 366 days"),
    "two demands": ("24}", "24}\n  file: a.csv", "line 10: demand: give exactly one"),
    "no demand": ("demand:\n  generated: {onDemandPerDay: 24}", "", "line 1: demand is missing"),
    "source": ("hours: 6", "hours: 6\nsource: x", "line 3: source: unknown key"),
    "start of nothing": ("hours: 6", "hours: 6\nstart: 2026-11-30T08:00:00Z", "line 3: start: only"),
    "no instant": ("hours: 6", "hours: 6\nstart: Monday", "line 3: start: write an instant, for"),
    "no amount": ("cpu: 24", "cpu: lots", "line 5: templates[1].capacity.cpu: 'lots' is not"),
    "unlisted machine": ("instanceType: m5zn.metal", "instanceType: q9.metal",
                         "line 4: templates[0].instanceType: q9.metal is not in the price file"),
    "two of one name": ("- {name: half", "- {name: metal",
                        "line 5: templates[1].name: two templates have the name 'metal'"),
    "no such template": ("main, template: metal", "main, template: metall",
                         "line 7: pools[0].template: metall: no template has this name"),
    "no name": ("name: main", "name: Main pool", "line 7: pools[0].name: a name is 1 to 63 of"),
    "unknown policy": ("minWorkers: 1", "policy: PREDICTIVE",
                       "line 7: pools[0].scaling.policy: 'PREDICTIVE' is none of NONE, NEED_BASED"),
    "no policy": ("minWorkers: 1", "policy: PREDICTIVE",
                  "line 7: pools[0].scaling.policy: "),
    "no manifest": ("hours: 6", "hours: 6\nmanifests: [no.yaml]",
                    "line 3: manifests[0]: cannot read"),
    "no topology": ("nodes: [iosv, iosv, alpine]", "topologyFile: no.yaml",
                    "line 9: definitions[0].topologyFile: cannot read"),
    "nodes twice": ("minutes: 60", "topologyFile: a.yaml", "line 9: definitions[0].topologyFile:"),
    "unknown node": ("alpine]", "iosvl3]",
                     "has the node definition iosvl3; did you mean iosvl2?"),
    "place of a node": ("alpine]", "iosvl3]", "line 9: definitions[0].nodes: definition pod"),
    "unknown track": ("minutes: 60, track: main", "track: mian",
                      "line 9: definitions[0].track: definition pod: no pool serves the track mian"),
    "never fits": ("minutes: 60", "resources: {cpu: 400}",
                   "line 9: definitions[0].resources: definition pod: it fits no worker: needs 400"),
    "limit below usual": ("minutes: 60", "maxMinutes: 10",
                          "line 9: definitions[0].maxMinutes: must not be less than minutes"),
    "backward window": ("onDemandPerDay: 24", "onDemandPerDay: 24, hours: [8, 8]",
                        "line 11: demand.generated.hours: from and to are the same"),
    "window outside": ("onDemandPerDay: 24", "onDemandPerDay: 24, hours: [8, 20]",
                       "line 11: demand.generated.hours: 8 to 20 never comes in a period of 6 h"),
    "nobody": ("onDemandPerDay: 24", "onDemandPerDay: 0",
               "line 11: demand.generated: nobody comes in 6 h"),
    "less than one": ("onDemandPerDay: 24", "onDemandPerDay: 0.4",
                      "nobody comes in 6 h: 0.4 a day come to no whole session; raise"),
    "everybody": ("onDemandPerDay: 24", "onDemandPerDay: 1000000000",
                  "line 11: demand.generated.onDemandPerDay: 250000000 sessions in 6 h are more"),
    "no machine": ("instanceType: own", "instanceType: ''", "line 5: templates[1]: Expected `str`"),
    "unknown lab": ("onDemandPerDay: 24", "onDemandPerDay: 24, definitions: {poddd: 1}",
                    "line 11: demand.generated.definitions.poddd: no definition has the name"),
    "no weight": ("onDemandPerDay: 24", "onDemandPerDay: 24, definitions: {pod: 0}",
                  "line 11: demand.generated.definitions: there is no definition to draw"),
    "exam of nothing": ("onDemandPerDay: 24", "exams: [{definition: pond, sessions: 2}]",
                        "line 11: demand.generated.exams[0].definition: no definition"),
    "exam too late": ("onDemandPerDay: 24", "exams: [{definition: pod, sessions: 2}]",
                      "exams[0].hour: an exam from hour 9 for 120 minutes ends after the period"),
    "exam on no day": (
        "onDemandPerDay: 24", "exams: [{definition: pod, sessions: 2, hour: 1, days: [0, 3]}]",
        "exams[0].days: day 3 (0 is the first): an exam from hour 1 for 120 minutes ends after"),
    "exam twice a day": (
        "onDemandPerDay: 24", "exams: [{definition: pod, sessions: 2, hour: 1, days: [0, 0]}]",
        "line 11: demand.generated.exams[0].days: a day stands there twice"),
    "exam too long": (
        "hours: 6\ntemplates", "hours: 24\ntemplates",
        "exams[0].minutes: pod runs 480 minutes at most; raise its maxMinutes"),
    "backward boot": (
        "hours: 6",
        "hours: 6\ntimings:\n  launchSeconds: [1, 2]\n  bootSeconds: [400, 100]",
        "line 5: timings.bootSeconds: from 400 to 100 runs backwards"),
    "backward call": ("hours: 6", "hours: 6\nfidelity: {callSeconds: [5, 1]}",
                      "line 3: fidelity.callSeconds: from 5 to 1 runs backwards"),
    "no such faults": ("hours: 6", "hours: 6\nfidelity: {faults: some}",
                       "line 3: fidelity.faults: 'some' is none of none, mild, harsh"),
    "variant's pool": ("template: half,", "template: half, pools: [odd],",
                       "line 14: variants[1].pools[0]: no pool odd; there are main"),
    "variant's template": ("name: smaller machines, template: half", "name: b, template: hal",
                           "line 14: variants[1].template: hal: no template has this name"),
    "variant's key": ("scaling: {maxWorkers: 6}", "scaling: {maxWorker: 6}",
                      "line 14: variants[1].scaling.maxWorker: variant smaller machines: unknown"),
    "variant's number": ("scaling: {maxWorkers: 6}", "scaling: {maxWorkers: 0}",
                         "line 14: variants[1].scaling.maxWorkers: variant smaller machines"),
    "variant's policy": ("scaling: {maxWorkers: 6}", "scaling: {policy: PREDICTIVE}",
                         "line 14: variants[1].scaling.policy: variant smaller machines: "),
    "variants of one name": ("name: smaller machines", "name: as it is",
                             "line 14: variants[1].name: two variants have the name 'as it is'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_PLANS)
def test_a_wrong_plan_is_refused_with_its_place(tmp_path: Path, case: str) -> None:
    """Each mistake of a plan is named with file, line and key before anything is played."""
    old, new, told = BAD_PLANS[case]
    text = PLAN.replace(old, new)
    if case == "exam too long":
        exam = "exams: [{definition: pod, sessions: 2, hour: 0, minutes: 600}]"
        text = text.replace("onDemandPerDay: 24", exam)
    path = _written(tmp_path, text)
    with pytest.raises(errors.Invalid) as caught:
        plan_command.cases_of(plan.load(path), tmp_path)
    assert caught.value.message.startswith(f"{path}, line ")
    assert told in caught.value.message


def test_a_variant_that_cannot_hold_a_lab_is_warned_of(tmp_path: Path) -> None:
    """A lab that fits only some variants is played, and a note says where it is refused."""
    big = PLAN.replace("minutes: 60", "resources: {cpu: 30}")
    (first, _), _ = plan_command.cases_of(plan.load(_written(tmp_path, big)), tmp_path)
    (note,) = first.crowd.notes
    assert note.startswith("6 sessions of definition pod will be refused with smaller machines:")
    assert "short 6 CPU" in note


def test_what_only_another_draw_asks_for_is_warned_of_too(tmp_path: Path) -> None:
    """The warnings are of all draws, with their number; the first may not have drawn the lab."""
    text = PLAN.replace("minutes: 60", "resources: {cpu: 30}").replace("seed: 1", "seeds: [1, 2]")
    (first, *_), _ = plan_command.cases_of(plan.load(_written(tmp_path, text)), tmp_path)
    (note,) = first.crowd.notes
    assert note.startswith("12 sessions in 2 draws of definition pod will be refused with smaller")


def test_what_a_capacity_leaves_out_is_as_usual(tmp_path: Path) -> None:
    """A machine with only CPU and memory given also has disk, labs, ports and nodes."""
    own = PLAN.replace("memory: 96Gi, labs: 10", "memory: 96Gi")
    (_, second), _ = plan_command.cases_of(plan.load(_written(tmp_path, own)), tmp_path)
    sizes = {name: spec["machine"] for kind, name, spec in second.fleet if kind == "Template"}
    assert sizes["half"]["capacity"] == {
        "cpuMilli": 24000, "memoryMib": 96 * 1024, "storageMib": 400 * 1024, "nodes": 200,
        "labs": 20, "ports": 6000, "networkKbps": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("price", "costs"), [("0", 0.0), ("null", 4.3605), ("2", 2.0)])
def test_a_price_of_zero_is_free_and_none_is_the_list_price(
    tmp_path: Path, price: str, costs: float
) -> None:
    """Own metal costs nothing; what states no price costs what the list says."""
    text = PLAN.replace("m5zn.metal}", f"m5zn.metal, hourlyPriceUsd: {price}}}")
    (first, _), _ = plan_command.cases_of(plan.load(_written(tmp_path, text)), tmp_path)
    machine = next(spec["machine"] for _, name, spec in first.fleet if name == "metal")
    found = paid_rows.hourly_usd(msgspec.convert(machine, Machine), None, prices.SHIPPED)
    assert found == pytest.approx(costs, abs=1e-9)


def test_a_lab_may_run_longer_than_a_day_shift(tmp_path: Path) -> None:
    """The limit of a lab rises with its usual minutes, so that no drawn slot is too long."""
    text = PLAN.replace("minutes: 60", "minutes: 600").replace("onDemand", "slots")
    (first, _), _ = plan_command.cases_of(plan.load(_written(tmp_path, text)), tmp_path)
    assert first.crowd.notes == ()
    spec = next(spec for kind, _, spec in first.fleet if kind == "Definition")
    assert spec["maxDurationMinutes"] >= 720


@pytest.mark.parametrize("name", ["exam-week", "bookings", "last-week"])
def test_the_plans_of_the_guide_are_plans(name: str) -> None:
    """Every plan that docs/how-to/ask-what-if.md points to is read; those without a store in full."""
    path = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "what-if" / f"{name}.yaml"
    asked = plan.load(path)
    if asked.demand.recorded is None:
        cases, _ = plan_command.cases_of(asked, path.parent)
        assert all(case.crowd.wishes for case in cases)
