"""What a forecast rests on, in one sentence for people."""

from __future__ import annotations

from labfleet.decisions.prediction.rules import FEW, Rule
from labfleet.resources.history import RunKind

KINDS = {
    RunKind.SIMULATION: "charts and programs",
    RunKind.SESSION: "labs",
    RunKind.BOOT: "templates",
}
GUESSES = {
    Rule.LARGEST: "the largest of {runs}",
    Rule.CLOSEST: "the {closest} of {runs}",
    Rule.LARGEST_CLOSE: "the largest of the {few} {many} of {runs}",
    Rule.TYPICAL: "the middle of the {many} of {runs}",
    Rule.SCALED: "the {closest} of {runs}, scaled by size",
    Rule.LINE: "the growth with size over {runs}",
}


def of_family(family: str, rule: Rule, count: int, ratio: float, *, exact: bool) -> str:
    """Return what a forecast from runs of the family itself rests on."""
    runs = f"{count} runs of {family}" if count > 1 else f"the one run of {family}"
    if rule is Rule.LARGEST and count == 1:
        begun = f"From {runs}"
    else:
        begun = "From " + GUESSES[rule].format(
            runs=runs, few=min(FEW, count),
            closest="last run that asked for the same" if exact else "closest run",
            many="closest runs",
        )  # fmt: skip
    return f"{begun}, times {ratio:.2f} for how far such guesses were off."


def of_kind(kind: RunKind, count: int, *, declared: bool) -> str:
    """Return what a forecast from the first runs of other families rests on."""
    what = "used of what they were given" if declared else "used"
    return f"No run of this family yet; from what the first runs of {count} other {KINDS[kind]} {what}."


def declared() -> str:
    """Return what a forecast from a declared value rests on."""
    return "No comparable run yet; as declared."
