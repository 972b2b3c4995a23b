"""What a forecast rests on, in one sentence for people."""

from __future__ import annotations

from labfleet.decisions.prediction.rules import FEW, Rule
from labfleet.decisions.prediction.window import CLOSE
from labfleet.resources.history import RunKind

KINDS = {
    RunKind.SIMULATION: "charts and programs",
    RunKind.SESSION: "labs",
    RunKind.BOOT: "templates",
}
GUESSES = {
    Rule.LARGEST: "the largest of {runs}",
    Rule.CLOSEST: "the closest of {runs}",
    Rule.LARGEST_CLOSE: "the largest of the {few} closest among {runs}",
    Rule.TYPICAL: "the middle of the {many} closest among {runs}",
    Rule.SCALED: "the closest of {runs}, scaled by size",
    Rule.LINE: "how {runs} grew with size",
}


def runs_of(family: str, count: int, *, reported: bool) -> str:
    """Return the runs of a family in words: `12 runs of waku`."""
    word = "reported run" if reported else "run"
    return f"the one {word} of {family}" if count == 1 else f"{count} {word}s of {family}"


def of_family(runs: str, rule: Rule, count: int, ratio: float, *, exact: bool) -> str:
    """Return what a forecast from runs of the family itself rests on."""
    begun = _begun(runs, rule, count, exact=exact)
    return f"{begun}, times {ratio:.2f} for how far such guesses were off."


def leader(runs: str, rule: Rule, count: int, margin: float, missed: float) -> str:
    """Return what a recommended size rests on."""
    begun = _begun(runs, rule, count, exact=False)
    return (
        f"{begun}, times {margin:.2f}; this has wasted least so far, "
        f"and {100 * missed:.0f} % of the recent runs would have needed more."
    )


def no_leader(runs: str) -> str:
    """Return what a recommended size rests on as long as few runs were followed."""
    return f"From {runs}, too few to tell what wastes least: the bound at 95 %."


def _begun(runs: str, rule: Rule, count: int, *, exact: bool) -> str:
    if count == 1:
        return f"From {runs}"
    if exact and rule in {Rule.CLOSEST, Rule.SCALED}:
        return f"From the last of {runs} that asked for the same"
    text = GUESSES[rule].format(runs=runs, few=min(FEW, count), many=min(CLOSE, count))
    return f"From {text}"


def of_kind(kind: RunKind, count: int, *, declared: bool) -> str:
    """Return what a forecast from the first runs of other families rests on."""
    what = "used of what they were given" if declared else "used"
    others = f"the first runs of {count} other {KINDS[kind]}"
    return f"No run of this family yet; from what {others} {what}."


def declared() -> str:
    """Return what a forecast from a declared value rests on."""
    return "No comparable run yet; as declared."
