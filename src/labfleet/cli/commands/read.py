"""`get`: lists and objects in every format, or followed as they change."""

from __future__ import annotations

from typing import Any

import click

from labfleet.cli.commands import watching
from labfleet.cli.kit import completing, exits, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.resources import kinds

PREDICTIONS = "predictions"
"""What `get` shows beside kinds: no objects, but what was learned."""


@click.command("get", short_help="List objects, or show some of them.")
@click.argument("args", nargs=-1, metavar="KIND[,KIND] [NAME...] | KIND/NAME...",
                shell_complete=completing.kind_or_name)  # fmt: skip
@click.option("-l", "--selector", metavar="LABELS", help="Labels: a=b,c!=d,e.")
@click.option("--tag", "tags", multiple=True, metavar="KEY[=VALUE]",
              help="Workers: tags as EC2 shows them; repeats, all must be there.")  # fmt: skip
@click.option("--search", metavar="TEXT",
              help="Only what has this text in its name or in a field with a filter.")  # fmt: skip
@click.option("-A", "--all-namespaces", is_flag=True, help="In every namespace.")
@click.option("--limit", type=click.IntRange(1, 100_000), help="At most so many rows.")
@click.option("--sort-by", metavar="PATH", help="Path or column to sort by; -PATH descends.")
@click.option("--no-headers", is_flag=True, help="Rows without headings.")
@click.option("-w", "--watch", is_flag=True, help="Go on with changes as they happen.")
@connected
def get(
    call: Call,
    *,
    args: tuple[str, ...],
    selector: str | None,
    tags: tuple[str, ...],
    search: str | None,
    all_namespaces: bool,
    limit: int | None,
    sort_by: str | None,
    watch: bool,
) -> int:
    """List objects, or show those that are named.

    Without names, every object of the kinds; `get all` lists every kind. With -o json,
    one object is printed as it is and several as {"kind": "List", "items": [...]}.
    `get predictions` shows how well predictions of what runs need have held.
    """
    if not args:
        known = ", ".join(each.plural for each in kinds.KINDS.values())
        raise exits.usage("which kind?", f"The kinds are {known}.")
    if args == (PREDICTIONS,):
        return _predictions(call)
    wanted, chosen = targets.selected(args)
    if tags:
        _taggable(wanted, chosen, watch=watch)
    if search and (wanted or watch):
        raise exits.usage("--search chooses from a list: give no name and no --watch")
    space = None if all_namespaces else call.settings.namespace
    if watch:
        names = {(each.kind.name, each.name) for each in wanted}
        scope = watching.Scope(chosen, space, selector, names)
        return watching.follow(call, scope)
    if wanted:
        return _some(call, wanted, chosen)
    found: list[Any] = []
    more = False
    asked = {"namespace": space, "labelSelector": selector, "tag": list(tags) or None, "q": search}
    for _, (items, _, rest) in targets.lists(
        call, chosen, limit=limit, sort=lambda kind: _sort(kind, sort_by), **asked
    ):
        found += items
        more = more or rest
    call.out.objects(chosen, found, spaces=all_namespaces)
    if not found:
        where = "" if all_namespaces else f" in namespace {space}"
        call.out.note(f"No {' or '.join(each.plural for each in chosen)}{where}.")
    elif more:
        call.out.note(f"Only the first {len(found)}; there are more (--limit).")
    return exits.OK


def _predictions(call: Call) -> int:
    """Show which share of runs stayed within their predicted bounds, beside what was stated."""
    answer = call.api.get("/api/v1/predictions")
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    items = answer.get("items") or []
    rows = [
        [
            str(each.get("kind")),
            str(each.get("resource")).rpartition("_")[0],
            f"{each.get('stated', 0):.0%}",
            f"{each.get('share', 0):.1%}",
            str(each.get("runs")),
        ]
        for each in items
    ]
    call.out.table(["KIND", "RESOURCE", "STATED", "ACHIEVED", "RUNS"], rows)
    if not rows:
        call.out.note(
            "No runs have been predicted and measured yet. What callers report teaches only their "
            "own runs, unless admission.trustReports is set."
        )
    return exits.OK


def _taggable(wanted: list[targets.Target], chosen: list[kinds.Kind], *, watch: bool) -> None:
    without = [each.plural for each in chosen if not each.tags]
    if without:
        raise exits.usage(f"--tag chooses among workers; {' and '.join(without)} have no tags")
    if wanted or watch:
        raise exits.usage("--tag chooses from a list: give no name and no --watch")


def _some(call: Call, wanted: list[targets.Target], chosen: list[kinds.Kind]) -> int:
    if len(wanted) == 1:
        call.out.show(wanted[0].kind, targets.need(call, wanted[0]))
        return exits.OK
    found, missing = [], None
    for target in wanted:
        try:
            found.append(targets.need(call, target))
        except exits.Failure as failure:
            if failure.code != exits.NOT_FOUND:
                raise
            missing = failure
    call.out.objects(chosen, found, spaces=False)
    if missing is not None:
        raise missing
    return exits.OK


def _sort(kind: kinds.Kind, asked: str | None) -> str | None:
    """Return the path for the server, which sorts before it pages (facts/fleet-bugs.md#t29)."""
    if not asked:
        return None
    sign, path = ("-", asked[1:]) if asked.startswith("-") else ("", asked)
    path = path.strip("{}").lstrip(".")
    by_title = {each.title.lower(): each.path for each in kind.columns}
    by_title |= {"name": "metadata.name", "age": "metadata.creationTimestamp"}
    return sign + by_title.get(path.lower(), path)
