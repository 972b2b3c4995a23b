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
    begun = _begun(family, rule, count, exact=exact)
    return f"{begun}, times {ratio:.2f} for how far such guesses were off."


def leader(family: str, rule: Rule, count: int, margin: float, missed: float) -> str:
    """Return what a recommended size rests on."""
    begun = _begun(family, rule, count, exact=False)
    return (
        f"{begun}, times {margin:.2f}; this has wasted least so far, "
        f"and {100 * missed:.0f} % of the recent runs would have needed more."
    )


def no_leader(family: str, count: int) -> str:
    """Return what a recommended size rests on as long as few runs were followed."""
    return f"Too few runs of {family} ({count}) to tell what wastes least; the bound at 95 %."


def _begun(family: str, rule: Rule, count: int, *, exact: bool) -> str:
    if count == 1:
        return f"From the one run of {family}"
    return "From " + GUESSES[rule].format(
        runs=f"{count} runs of {family}",
        few=min(FEW, count),
        closest="last run that asked for the same" if exact else "closest run",
        many="closest runs",
    )


def of_kind(kind: RunKind, count: int, *, declared: bool) -> str:
    """Return what a forecast from the first runs of other families rests on."""
    what = "used of what they were given" if declared else "used"
    others = f"the first runs of {count} other {KINDS[kind]}"
    return f"No run of this family yet; from what {others} {what}."


def declared() -> str:
    """Return what a forecast from a declared value rests on."""
    return "No comparable run yet; as declared."
