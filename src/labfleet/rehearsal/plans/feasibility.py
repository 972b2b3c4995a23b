"""Finds labs and slots that can never be served, before anything is played.

An answer in which a lab fails because its name is misspelt is useless, and after a day of
virtual time the reason is hard to see. Uses the product's own rules (demand, placement). What
the user wrote is refused at its line. What comes from a recording or a manifest, or what only
some variants cannot serve, may be intended and becomes a note.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from cml_simulator.core.definitions import DEFINITIONS
from labfleet.decisions import placement
from labfleet.kernel import errors
from labfleet.rehearsal.plans import demand_rows
from labfleet.rehearsal.plans.demand import Crowd, PlannedSession
from labfleet.rehearsal.plans.plan import Variant, WhatIfPlan
from labfleet.rehearsal.plans.plan_words import Wrong
from labfleet.rehearsal.plans.planned_fleet import Fleet
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.resources.definition import DefinitionSpec, DefinitionStatus
from labfleet.resources.machine import Machine
from labfleet.service.kinds import definition_rules

NOTES_SHOWN = 20


def notes(
    asked: WhatIfPlan, folder: Path, variants: list[tuple[Variant, Fleet]], draws: Sequence[Crowd]
) -> tuple[str, ...]:
    """Return what the reader should know beforehand, each in a sentence, of all draws at once.

    Raises Wrong, or Invalid with the demand file's line, for what can never run.
    """
    # A file's or a record's demand is the same in every draw.
    apart = [each for at, each in enumerate(draws) if each not in draws[:at]]
    crowd = replace(draws[0], wishes=tuple(wish for each in apart for wish in each.wishes))
    found = _Examination(asked, folder, variants, crowd, len(apart))
    found.definitions()
    found.exams()
    found.tracks_and_sizes()
    found.lengths()
    more = len(found.told) - NOTES_SHOWN
    shown = found.told[:NOTES_SHOWN]
    return (*shown, *([f"and {more} more warnings"] if more > 0 else []))


@dataclass(slots=True)
class _Examination:
    """One look at a plan's demand beside its fleet."""

    asked: WhatIfPlan
    folder: Path
    variants: list[tuple[Variant, Fleet]]
    crowd: Crowd
    draws: int = 1
    told: list[str] = field(default_factory=list)
    _specs: dict[str, tuple[DefinitionSpec, DefinitionStatus]] = field(default_factory=dict)
    _places: dict[str, int] = field(default_factory=dict)

    def _all(self) -> Iterable[tuple[str, dict[str, Any]]]:
        yield from ((name, spec) for kind, name, spec in self.variants[0][1]
                    if kind == "Definition")  # fmt: skip
        yield from self.crowd.definitions

    def definitions(self) -> None:
        """Read every definition; refuse an invalid topology even when no session asks for it."""
        self._places = {lab.name: number for number, lab in enumerate(self.asked.definitions)}
        wanted = Counter(wish.definition for wish in self.crowd.wishes)
        for name, raw in self._all():
            try:
                spec = msgspec.convert(raw, DefinitionSpec)
                status = definition_rules.status_of(spec)
            except (msgspec.ValidationError, errors.LabfleetError, ValueError) as problem:
                self._wrong(name, f"its topology is refused: {problem}", "topologyFile")
            self._specs[name] = (spec, status)
            for kind in sorted(set(status.node_definitions) - set(DEFINITIONS)):
                near = difflib.get_close_matches(kind, DEFINITIONS, 1, 0.6)
                hint = f"; did you mean {near[0]}?" if near else ""
                what = f"no CML server of a what-if has the node definition {kind}{hint}"
                if name in self._places:
                    key = "nodes" if self.asked.definitions[self._places[name]].nodes else None
                    self._wrong(name, what, key or "topologyFile")
                elif wanted[name]:
                    self._note(f"definition {name}", wanted[name], f"will fail: {what}")
        for name in sorted(set(wanted) - set(self._specs)):
            told = "will be refused: the log no longer has it"
            self._note(f"definition {name}", wanted[name], told)

    def _note(self, of: str, count: int, told: str) -> None:
        many = f"{count} session{'' if count == 1 else 's'}"
        among = f" in {self.draws} draws" if self.draws > 1 else ""
        self.told.append(f"{many}{among} of {of} {told}")

    def _wrong(self, name: str, told: str, key: str) -> NoReturn:
        number = self._places.get(name)
        steps = ("manifests",) if number is None else ("definitions", number, key)
        raise Wrong(f"definition {name}: {told}", *steps)

    def exams(self) -> None:
        """Refuse exams that are longer than their lab may run."""
        generated = self.asked.demand.generated
        for number, exam in enumerate(generated.exams if generated else ()):
            most = self._specs[exam.definition][0].max_duration_minutes
            if exam.minutes > most:
                told = f"{exam.definition} runs {most} minutes at most; raise its maxMinutes"
                raise Wrong(told, "demand", "generated", "exams", number, "minutes")

    def tracks_and_sizes(self) -> None:
        """Refuse labs too large for the workers of every variant; note those too large in some."""
        seen: dict[tuple[str, str | None], list[PlannedSession]] = {}
        for wish in (*self.crowd.wishes, *self._drawable()):
            if wish.definition in self._specs:
                track = wish.track or self._specs[wish.definition][0].track
                seen.setdefault((wish.definition, track), []).append(wish)
        shapes = [(variant.name, _shapes(fleet)) for variant, fleet in self.variants]
        for (name, track), wishes in seen.items():
            tracks = sorted({each.track for _, found in shapes for each in found})
            if track is not None and track not in tracks:
                what = f"no pool serves the track {track}; there are {', '.join(tracks)}"
                self._never(wishes, f"will wait in vain: {what}", what, "track")
                continue
            spec, status = self._specs[name]
            request = placement.PlacementRequest(
                amounts=status.demand,
                start=EPOCH,
                track=track,
                licence_affinity=spec.licence_affinity,
            )
            no = [(variant, placement.never_fits(request, found, now=EPOCH))
                  for variant, found in shapes]  # fmt: skip
            refused = [(variant, each.message) for variant, each in no if each is not None]
            if len(refused) == len(shapes):
                what = f"it fits no worker: {refused[0][1]}"
                self._never(wishes, f"will be refused: {what}", what, "resources")
                continue
            for variant, what in refused:
                told = f"will be refused with {variant}: {what}"
                self._note(f"definition {name}", len(wishes), told)

    def _drawable(self) -> Iterable[PlannedSession]:
        """Return a wish for each lab that this draw did not ask for but another one may."""
        generated = self.asked.demand.generated
        drawn = {wish.definition for wish in self.crowd.wishes}
        if generated is not None and (generated.on_demand_per_day or generated.slots_per_day):
            weights = generated.definitions or dict.fromkeys(self._specs, 1.0)
            yield from (
                PlannedSession(0.0, name) for name in weights if weights[name] and name not in drawn
            )

    def _never(self, wishes: list[PlannedSession], note: str, what: str, key: str) -> None:
        """Refuse at the row, else at the definition; for a recording only note it."""
        first = wishes[0]
        own = first.definition in self._places
        if first.line and (not own or first.track is not None):
            self._row(first, what)
        if own:
            lab = self.asked.definitions[self._places[first.definition]]
            if key == "resources" and lab.resources is None:
                key = "nodes" if lab.nodes else "topologyFile"
            self._wrong(first.definition, what, key)
        self._note(f"definition {first.definition}", len(wishes), note)

    def _row(self, wish: PlannedSession, told: str) -> NoReturn:
        demand_rows.refuse(self.folder / (self.asked.demand.file or ""), wish.line, told)

    def lengths(self) -> None:
        """Refuse rows that are longer than their lab may run; note drawn slots that are."""
        longer: Counter[str] = Counter()
        for wish in self.crowd.wishes:
            if wish.end is None or wish.definition not in self._specs:
                continue
            most = self._specs[wish.definition][0].max_duration_minutes
            begin = wish.at if wish.start is None else wish.start
            if wish.end - begin > most * 60:
                if wish.line:
                    told = f"{(wish.end - begin) / 60:g} minutes are too long"
                    self._row(wish, f"{told}: {wish.definition} runs {most} at most (maxMinutes)")
                longer[wish.definition] += self.asked.demand.recorded is None
        for name, count in sorted((+longer).items()):
            most = self._specs[name][0].max_duration_minutes
            told = f"will be refused: they are drawn longer than its {most} minutes"
            self._note(f"definition {name}", count, told)


def _shapes(fleet: Fleet) -> list[placement.WorkerShape]:
    """Return the empty worker of each pool."""
    machines = {name: spec["machine"] for kind, name, spec in fleet if kind == "Template"}
    return [
        placement.shape(
            f"one of pool {name}",
            spec.get("track", "default"),
            msgspec.convert(machines[spec["template"]], Machine),
        )
        for kind, name, spec in fleet
        if kind == "Pool"
    ]
