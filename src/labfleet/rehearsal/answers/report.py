"""The answer of a what-if: text for people, one JSON object and CSV for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from labfleet.kernel import spreadsheet
from labfleet.kernel.clock import utc_text
from labfleet.rehearsal.answers import columns as column_sets
from labfleet.rehearsal.answers import table, verdict
from labfleet.rehearsal.answers.columns import FIGURES, VariantColumn
from labfleet.rehearsal.answers.table import span
from labfleet.rehearsal.figures.tally import Figures
from labfleet.rehearsal.plans.plan import Best
from labfleet.rehearsal.whatif.what_if import Answer
from labfleet.resources import prices

BAR, SHOWN, WIDTH = 30, 3, 80
BORING_SECONDS = 300.0
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked, as far as the answer has to repeat it.

    `recorded` are a recorded period's figures, `behind` their breakdown. `sizes` are the
    values of a sweep by variant. `origin` is the instant of hour 0 where it is a
    real one. `notes` are caveats that the reader of the answer has to know. `replay` is the
    command that plays it again.
    """

    name: str
    rule: Best
    hours: float
    recorded: Figures | None = None
    behind: Json = field(default_factory=dict)
    sizes: dict[str, float] = field(default_factory=dict)
    swept: str = ""
    origin: datetime | None = None
    notes: Sequence[str] = ()
    replay: str = "labfleet rehearse --plan"


# --- for programs ----------------------------------------------------------------------


def answer(asked: Question, answers: list[Answer], extra: Json) -> Json:
    """Return the JSON object."""
    found = column_sets.gathered(answers)
    said = verdict.judge(found, asked.rule)
    cpu = sum(each.seconds for each in answers)
    hours = sum(each.virtual_hours for each in answers)
    struck: dict[str, int] = {}
    for each in answers:
        for word, count in each.faults.items():
            struck[word] = struck.get(word, 0) + count
    made = {
        "plan": asked.name,
        "seeds": found[0].seeds if found else [],
        "variants": [_variant(each, asked.rule) for each in found],
        "best": said.best,
        "least_bad": said.least_bad,
        "same": list(said.same),
        "verdict": said.text,
        "best_rule": verdict.told(asked.rule),
        "violations": [
            {"variant": each.name, "seed": each.seed, "rule": broken.rule,
             "at_hours": round(broken.at / 3600, 4), "text": broken.text, "replay": asked.replay}
            for each in answers for broken in each.violations
        ],
        "hashes": {_label(each, found): each.log for each in answers},
        "virtual_hours": round(hours, 2),
        "speed": round(hours * 3600 / cpu, 1) if cpu else None,
        "cpu_seconds": round(cpu, 1),
        "commits": sum(each.commits for each in answers),
        "steps": sum(each.steps for each in answers),
        "faults": struck,
        **extra,
    }  # fmt: skip
    if asked.sizes:
        judged = not any(each.broken for each in found)
        made["smallest_enough"] = (
            verdict.smallest(found, asked.sizes, asked.rule) if judged else None
        )
    if asked.recorded is not None:
        made["recorded"] = {
            **column_sets.plain(asked.recorded),
            "good_enough": verdict.good_enough(asked.recorded, asked.rule),
            "apart": column_sets.apart(asked.recorded, found[0].figures),
            **asked.behind,
        }
    return made


def _label(each: Answer, found: list[VariantColumn]) -> str:
    several = bool(found) and len(found[0].draws) > 1
    return f"{each.name} seed {each.seed}" if several else each.name


def _variant(each: VariantColumn, rule: Best) -> Json:
    worst = each.worst
    return {
        "name": each.name,
        "settings": each.settings,
        **column_sets.middle(each.figures),
        "range": column_sets.ranges(each.figures),
        "draws": [
            {"seed": draw.seed, "log": draw.log, **column_sets.plain(draw.figures)}
            for draw in each.draws
        ],
        "good_enough": verdict.kept(each, rule),
        "told_of_seed": worst.seed,
        "refusals": worst.refusals,
        "cpu_seconds": round(sum(draw.seconds for draw in each.draws), 1),
        "waiters": worst.waiters,
        "reasons": worst.reasons,
        **worst.details,
    }


def csv_text(asked: Question, answers: list[Answer]) -> str:
    """Return a row for the record and for each variant and draw, with every figure."""
    pools = sorted({pool for each in answers for pool in each.settings})
    keys = ("policy", "minWorkers", "maxWorkers", "template")
    titles = (f"{pool}.{key}" for pool in pools for key in keys)
    rows: list[list[Any]] = [["variant", "seed", *titles, *FIGURES]]
    if asked.recorded is not None:
        blank = [""] * (len(pools) * len(keys))
        rows.append(["recorded", "", *blank, *_cells(asked.recorded)])
    for each in answers:
        settings = [each.settings.get(pool, {}).get(key, "") for pool in pools for key in keys]
        rows.append([each.name, each.seed, *settings, *_cells(each.figures)])
    return spreadsheet.rows(rows)


def _cells(found: Figures) -> list[Any]:
    return ["" if value is None else value for value in column_sets.plain(found).values()]


# --- for people ------------------------------------------------------------------------


def text(asked: Question, answers: list[Answer], width: int = WIDTH) -> str:
    """Return the answer for people, at most `width` wide."""
    found = column_sets.gathered(answers)
    said = verdict.judge(found, asked.rule)
    lines = _wrapped(f"{asked.name}: {round(asked.hours, 1):g} h, {_draws(found)}", width)
    for note in asked.notes:
        lines += _wrapped(f"note: {note}", width)
    lines += ["", *table.drawn(table.rows(found, asked.rule, asked.recorded), width), ""]
    lines += _wrapped(said.text, width)
    if asked.sizes and not any(each.broken for each in found):
        enough = verdict.smallest(found, asked.sizes, asked.rule)
        lines.append(f"the smallest {asked.swept} that is enough: "
                     f"{'none of these' if enough is None else f'{asked.sizes[enough]:.10g}'}")  # fmt: skip
    for each in found:
        lines += _behind(each, asked, width)
    lines += _broken(answers, asked, width)
    lines += ["", *_wrapped(_priced(found), width)]
    return "\n".join(lines) + "\n"


def _draws(found: list[VariantColumn]) -> str:
    seeds = found[0].seeds if found else []
    if len(seeds) == 1:
        return f"1 draw (seed {seeds[0]})"
    row = seeds == list(range(seeds[0], seeds[0] + len(seeds))) if seeds else False
    named = f"{seeds[0]}..{seeds[-1]}" if row else ", ".join(map(str, seeds))
    return f"{len(seeds)} draws (seeds {named}): median (lowest..highest)"


def _behind(each: VariantColumn, asked: Question, width: int) -> list[str]:
    """Return why sessions of a variant were not served, who never ran and who waited longest."""
    worst = each.worst
    seed = f" (seed {worst.seed})" if len(each.draws) > 1 else ""
    lines: list[str] = []
    for kind, reasons in worst.reasons.items():
        for row in reasons:
            said = f"{kind} {row['count']}: {row['reason']}, such as: {row['example']}"
            lines += _wrapped(said, width, "  ", "      ")
    if lines:
        lines = ["", f"why with {each.name}{seed}:", *lines]
    lost = [row for row in worst.waiters if row["never_ran"]]
    long = [row for row in worst.waiters
            if not row["never_ran"] and row["wait_seconds"] > BORING_SECONDS]  # fmt: skip
    for title, shown in (("who never ran", lost), ("who waited longest", long)):
        if shown:
            lines += ["", f"{title} with {each.name}{seed}:"]
            before = ""
            for row in shown[:SHOWN]:
                why = "the same" if row["reason"] == before else row["reason"]
                before = row["reason"]
                lines += _wrapped(_waiter(row, why, asked.origin), width, "  ", "      ")
    return lines


def _waiter(row: Json, why: str, origin: datetime | None) -> str:
    who = f"{row['session']} of {row['owner']}" if row["owner"] else row["session"]
    what = f"{row['definition']}, {'slot' if row['slot'] else 'asked'} {_when(row, origin)}"
    ended = "" if row["ran"] else f", {row['outcome'].lower()}"
    return f"{span(row['wait_seconds'])}  {who} ({what}{ended}): {why}"


def _when(row: Json, origin: datetime | None) -> str:
    hours = row["asked_hours"]
    if origin is not None:
        return utc_text(origin + timedelta(hours=hours)).removesuffix("Z")
    minutes = round(hours * 60)
    return f"day {minutes // 1440} {minutes // 60 % 24:02d}:{minutes % 60:02d}"


def _broken(answers: list[Answer], asked: Question, width: int) -> list[str]:
    lines: list[str] = []
    for each in answers:
        for broken in each.violations:
            said = f"BROKEN {broken.rule} at {broken.at / 3600:.2f} h with {each.name}"
            lines += _wrapped(f"{said} (seed {each.seed}): {broken.text}", width, "", "  ")
    if lines:
        lines += _wrapped("This is a bug of Labfleet, not of the plan: please report it with the "
                          "plan and these lines.", width)  # fmt: skip
        lines += [f"  replay: {asked.replay}"]
        lines.insert(0, "")
    return lines


def _priced(found: list[VariantColumn]) -> str:
    """Return where the prices are from, and which machines have none."""
    hours: dict[tuple[str, str], float] = {}
    for each in found:
        for draw in each.draws:
            for pool, row in draw.details["by_pool"].items():
                if row["unpriced_hours"]:
                    key = (pool or "(none)", each.name)
                    hours[key] = max(hours.get(key, 0.0), row["unpriced_hours"])
    said = f"prices: {prices.REGION} list of {prices.AS_OF} where a template states none"
    for (pool, name), most in sorted(hours.items()):
        said += f"; no price for pool {pool} with {name}: {most:.1f} worker-hours not in the cost"
    return said


def _wrapped(said: str, width: int, first: str = "", later: str = "  ") -> list[str]:
    return textwrap.wrap(said, width, initial_indent=first, subsequent_indent=later,
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip


def bar(share: float, title: str) -> str:
    """Return a progress bar of one line."""
    full = int(share * BAR)
    return f"\r{title} [{'#' * full}{'.' * (BAR - full)}] {share * 100:3.0f} %"
