"""Sends manifests to the server in portions, and tells what it says at file and line.

The server judges: it has defaults and rules that this client does not know. When there is more
than one portion, the shape of all is judged before the first is applied, so that a mistake in the
last one changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from labfleet.cli.kit import exits, output
from labfleet.cli.kit.call import Call
from labfleet.cli.kit.sources import Source

PATH = "/api/v1/apply"
PORTION = 100
"""Objects applied by one request: after each, people see how far it is."""
MOST = 500
"""Objects of one request at which the server stops."""
_BYTES = 2 << 20
_TOPOLOGY = re.compile(r"spec\.topology, line (\d{1,9})")
"""How the server names a line of a definition's topology."""
_ITEM = re.compile(r"items\[(\d+)\]\.?(.*)", re.DOTALL)


@dataclass(frozen=True)
class Outcome:
    """What became of one object: its result and both forms, or why it was refused."""

    source: Source
    result: str
    obj: dict[str, Any]
    before: dict[str, Any] | None = None
    failure: exits.Failure | None = None


def applied(call: Call, found: Sequence[Source]) -> Iterator[Outcome]:
    """Yield what became of each object as it is applied; Failure when nothing was changed."""
    portions = list(_portions(found, PORTION))
    checked = len(portions) > 1
    if checked:
        for portion in _portions(found, MOST):
            _send(call, portion, "check", changed=False)
    done = 0
    for portion in portions:
        yield from _outcomes(call, portion, "apply", changed=done > 0, checked=checked)
        done += len(portion)
        if checked and not call.out.structured:
            call.out.note(f"{done} of {len(found)}")


def rehearsed(call: Call, found: Sequence[Source]) -> Iterator[Outcome]:
    """Yield what applying each object would do, as the server's admission says it."""
    portions = list(_portions(found, MOST))
    if len(portions) > 1:
        call.out.note(
            f"Judged in {len(portions)} parts: an object that needs one of another part is refused "
            "here, and accepted by apply."
        )
    for portion in portions:
        yield from _outcomes(call, portion, "dry-run", changed=False)


def _portions(found: Sequence[Source], most: int) -> Iterator[list[Source]]:
    """Split by number and size; an object that is larger goes alone."""
    portion: list[Source] = []
    size = 0
    for source in found:
        mine = len(output.json_text(source.raw))
        if portion and (len(portion) == most or size + mine > _BYTES):
            yield portion
            portion, size = [], 0
        portion.append(source)
        size += mine
    if portion:
        yield portion


def _outcomes(
    call: Call, portion: Sequence[Source], mode: str, *, changed: bool, checked: bool = False
) -> Iterator[Outcome]:
    items = _send(call, portion, mode, changed=changed, checked=checked)
    for source, item in zip(portion, items, strict=True):
        call.api.warnings.update(dict.fromkeys(item.get("warnings") or ()))
        problem = item.get("problem")
        yield Outcome(
            source,
            str(item.get("result")),
            item.get("object") or {},
            item.get("before"),
            _refusal(source, problem) if isinstance(problem, dict) else None,
        )


def _send(
    call: Call, portion: Sequence[Source], mode: str, *, changed: bool, checked: bool = False
) -> list[Any]:
    body = {"items": [each.raw for each in portion]}
    query = {"namespace": call.settings.namespace, "mode": mode, "checked": checked or None}
    try:
        answer = call.api.call("POST", PATH, query=query, body=body).body
    except exits.Failure as failure:
        if failure.reason == "RouteNotFound":
            cause = "this server cannot apply objects together: it is older than this client"
            raise exits.Failure(exits.ERROR, cause, hint="Update the server.") from None
        raise _placed(failure, portion, changed=changed) from None
    items = answer.get("items") if isinstance(answer, dict) else None
    if not isinstance(items, list) or len(items) != len(portion):
        raise call.api.unexpected("an answer for each object was expected")
    return items


def _placed(failure: exits.Failure, portion: Sequence[Source], *, changed: bool) -> exits.Failure:
    """Return the refusal of a whole portion with the places of its files."""
    places = []
    for each in failure.problem.get("problems") or ():
        found = _ITEM.fullmatch(str(each.get("where") or ""))
        if found is None or int(found[1]) >= len(portion):
            return failure
        places.append(_place(portion[int(found[1])], found[2], str(each.get("what"))))
    if not places:
        return failure
    rest = "what came before is applied" if changed else "nothing was changed"
    return exits.Failure(
        failure.code,
        f"the server does not accept the manifests; {rest}",
        reason=failure.reason,
        problem={**failure.problem, "problems": places},
    )


def _place(source: Source, dotted: str, what: str) -> dict[str, str]:
    line = _TOPOLOGY.fullmatch(dotted)
    inside = source.place_in_topology(int(line[1])) if line else None
    if inside is not None:
        return {"where": inside, "what": what}
    return {"where": source.place(dotted), "what": f"{dotted}: {what}" if dotted else what}


def _refusal(source: Source, problem: dict[str, Any]) -> exits.Failure:
    """Return why one object was refused, at its file and line."""
    failure = exits.from_problem(int(problem.get("status") or 0), problem)
    given = problem.get("problems") or ()
    places = [_place(source, str(each.get("where")), str(each.get("what"))) for each in given]
    if not places:
        places = [{"where": source.place(""), "what": "this object was refused"}]
    # Problems of fields say all of a bad object; of one that meets others only the cause does.
    told = bool(given) and failure.code not in {exits.CONFLICT, exits.REFUSED}
    cause = f"{source.target} was refused" if told else f"{source.target}: {failure.cause}"
    return exits.Failure(
        failure.code,
        cause,
        hint=failure.hint,
        reason=failure.reason,
        problem={**failure.problem, "problems": places},
    )
