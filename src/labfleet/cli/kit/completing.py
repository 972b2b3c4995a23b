"""Shell completion of kinds and of names from the server, within half a second."""

from __future__ import annotations

import http.client
import os
from typing import Any

import click
from click.shell_completion import CompletionItem

from labfleet.cli.kit import client, environment, exits, settings, targets
from labfleet.resources import kinds

_BUDGET = 0.5
_SHOWN = 200


def kind_or_name(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer kinds, then names of the kind that was written."""
    given = list(ctx.params.get("args") or ())
    if given and "/" not in given[0]:
        return _names(ctx, given[0], incomplete, prefix="")
    word, slash, start = incomplete.partition("/")
    if slash:
        return _names(ctx, word, start, prefix=f"{word}/")
    return [
        CompletionItem(row.plural, help=row.summary)
        for row in kinds.KINDS.values()
        if row.plural.startswith(word)
    ]


def of_kind(kind: str) -> Any:
    """Return a completer for names of one kind."""

    def offer(ctx: click.Context, _param: click.Parameter, start: str) -> list[CompletionItem]:
        return _names(ctx, kind, start, prefix="")

    return offer


def _names(ctx: click.Context, word: str, start: str, *, prefix: str) -> list[CompletionItem]:
    flags = {key: ctx.params.get(key) for key in ("url", "token_file", "context", "namespace")}
    standing = environment.CommandEnvironment(env=os.environ)
    try:
        kind = targets.kind_of(word)
        chosen = settings.resolve(standing, flags)
        api = client.Client(chosen, standing, seconds=_BUDGET, attempts=1)
        page = api.get(f"/api/v1/{kind.plural}", namespace=chosen.namespace, limit=_SHOWN)
        found = [str(each["metadata"]["name"]) for each in page["items"]]
    except (exits.Failure, http.client.HTTPException, KeyError, TypeError):
        return []
    return [CompletionItem(f"{prefix}{name}") for name in found if name.startswith(start)]
