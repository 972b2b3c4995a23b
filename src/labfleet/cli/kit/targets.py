"""Which objects a command line means: `KIND NAME...` or `KIND/NAME...`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from labfleet.cli.kit import client, exits
from labfleet.cli.kit.call import Call
from labfleet.kernel import errors
from labfleet.resources import kinds

# A missing kind is the commonest mistake: `extend` and `drain` need none, most verbs do.
NAMING = "The kind comes first, for example session/{name}."


class Target(NamedTuple):
    """One named object; `namespace` is None where the command line's holds."""

    kind: kinds.Kind
    name: str
    namespace: str | None = None

    @property
    def path(self) -> str:
        """Return the object's address in the API."""
        return f"/api/v1/{self.kind.plural}/{client.part(self.name)}"

    def __str__(self) -> str:
        return f"{self.kind.name.lower()}/{self.name}"


def kind_of(word: str) -> kinds.Kind:
    """Return the kind that a word means; Failure with the nearest words when none."""
    try:
        return kinds.by_word(word)
    except errors.Invalid as error:
        known = [spelt for row in kinds.KINDS.values() for spelt in _spellings(row)]
        near = difflib.get_close_matches(word.lower(), known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else NAMING.format(name=word)
        raise exits.usage(error.message, hint) from None


def _spellings(row: kinds.Kind) -> tuple[str, ...]:
    return (row.plural, row.name.lower(), *row.short)


def kinds_of(words: str) -> list[kinds.Kind]:
    """Return the kinds of `workers,sessions` or `all`."""
    if words.lower() == "all":
        return list(kinds.KINDS.values())
    found: list[kinds.Kind] = []
    for word in words.split(","):
        kind = kind_of(word.strip())
        if kind not in found:
            found.append(kind)
    return found


def distinct(wanted: Sequence[Target]) -> list[kinds.Kind]:
    """Return the kinds of the targets, each once, in their order."""
    return list({each.kind.name: each.kind for each in wanted}.values())


def selected(args: Sequence[str]) -> tuple[list[Target], list[kinds.Kind]]:
    """Return the named targets (none for `KIND` alone) and their kinds."""
    if len(args) == 1 and "/" not in args[0]:
        return [], kinds_of(args[0])
    wanted = parse(args)
    return wanted, distinct(wanted)


def parse(args: Sequence[str], *, kind: str | None = None) -> list[Target]:
    """Return the targets of `KIND NAME...` or `KIND/NAME...`; bare names need `kind`."""
    if not args:
        raise exits.usage("nothing was named", "For example worker/w-1.")
    first, *rest = args
    if "/" not in first:
        if kind is not None:
            return [one(each, kind) for each in args]
        known = kind_of(first)
        if not rest:
            raise exits.usage(
                f"which {known.name.lower()}?", f"labfleet get {known.plural} lists them."
            )
        return [_target(known, _bare(known, each)) for each in rest]
    return [one(each, kind) for each in args]


def one(text: str, kind: str | None = None) -> Target:
    """Return the target of `KIND/NAME`, or of `NAME` when the kind is known."""
    word, slash, name = text.partition("/")
    if not slash:
        if kind is None:
            raise exits.usage(f"{text!r} names no kind", f"For example session/{text}.")
        return _target(kind_of(kind), text)
    found = kind_of(word)
    if kind is not None and found.name.lower() != kind.lower():
        raise exits.usage(f"{text!r} is {found.one}; this command is for {kind_of(kind).one}")
    return _target(found, name)


def _bare(kind: kinds.Kind, text: str) -> str:
    word, slash, name = text.partition("/")
    if not slash:
        return text
    if kind_of(word) != kind:
        raise exits.usage(f"{text!r} is not {kind.one}")
    return name


def _target(kind: kinds.Kind, name: str) -> Target:
    if not name:
        raise exits.usage(f"which {kind.name.lower()}?", "A name is missing after the slash.")
    if "," in name:
        # No name holds a comma; only kinds are listed with commas (`get workers,sessions`).
        names = [each.strip() for each in name.split(",") if each.strip()]
        word = kind.name.lower()
        apart = " ".join(each if "/" in each else f"{word}/{each}" for each in names)
        raise exits.usage(f"names stand apart, without commas: {name!r}", f"Write {apart}.")
    return Target(kind, name)


def lists(
    call: Call,
    wanted: Sequence[kinds.Kind],
    *,
    limit: int | None = None,
    sort: Callable[[kinds.Kind], str | None] = lambda _: None,
    **query: Any,
) -> Iterator[tuple[kinds.Kind, tuple[list[Any], str, bool]]]:
    """Yield each kind with its objects; of several kinds those that are denied are left out."""
    denied: list[exits.Failure] = []
    for kind in wanted:
        try:
            yield kind, call.api.items(kind.plural, limit=limit, sort=sort(kind), **query)
        except exits.Failure as failure:
            if failure.code != exits.DENIED:
                raise
            denied.append(failure)
    if denied and len(denied) == len(wanted):
        raise denied[0]


def space(call: Call, target: Target) -> str:
    """Return the namespace in which the object is: a manifest may name its own."""
    return target.namespace or call.settings.namespace


def fetch(call: Call, target: Target) -> Any:
    """Return the object, or None when it does not exist."""
    try:
        return call.api.get(target.path, namespace=space(call, target))
    except exits.Failure as failure:
        if failure.code == exits.NOT_FOUND:
            return None
        raise


def need(call: Call, target: Target) -> Any:
    """Return the object; Failure when it does not exist."""
    return call.api.get(target.path, namespace=space(call, target))
