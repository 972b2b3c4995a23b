"""CML's error replies: a status and a description; the routes turn them into bodies."""

import json
from collections.abc import Sequence
from dataclasses import dataclass


class CmlError(Exception):
    """A refusal with the HTTP status and the text that CML's clients match on."""

    def __init__(self, status: int, description: str) -> None:
        super().__init__(description)
        self.status = status
        self.description = description


@dataclass(frozen=True, slots=True)
class Problem:
    """One entry of CML's 'Input validation failed' list."""

    location: tuple[str | int, ...]
    kind: str
    message: str


def not_found(what: str, key: str) -> CmlError:
    """Return the 404 whose exact text virl2_client matches."""
    return CmlError(404, f"{what} not found: {key}")


def refused(text: str) -> CmlError:
    """Return a 400 with a sentence."""
    return CmlError(400, text)


def invalid(problems: Sequence[Problem]) -> CmlError:
    """Return the 400 whose description is a string that itself holds JSON."""
    found = [{"location": p.location, "type": p.kind, "message": p.message} for p in problems[:50]]
    return CmlError(400, json.dumps({"Input validation failed": found}, ensure_ascii=False))
