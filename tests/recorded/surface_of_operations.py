"""Where today's OpenAPI document differs from recorded ones in every operation, and why."""

from __future__ import annotations

_OPERATION = r"/paths/[^/]+/(get|put|post|patch|delete)"
EVERYWHERE: dict[str, dict[str, str]] = {
    "9f921ab": {
        _OPERATION + r"/x-roles(/\d+)?": "each route states its roles, and the document shows them",
        _OPERATION + r"/parameters/\d+/schema/.*m(in|ax)imum": "a revision in a query is bounded",
        _OPERATION
        + r"/(parameters/\d+/(schema/)?)?description": "what each is comes from the docstrings",
        r"/components/schemas/\w+(/properties/\w+)?/description": "and what each field is",
        r"/components/schemas/\w+/properties/\w+(/anyOf/\d)?/format": "instants are told as such",
        _OPERATION + r"/(requestBody|responses/2\d\d)/content/.*/example.*": "from the tests",
        r"/tags/.*": "and what each group of operations is about",
        r"/paths/[^/]+/delete/parameters/3/.*": "the uid of the object that is meant to go",
        _OPERATION + r"/x-body-(limit|values)": "bodies are bounded by route",
        _OPERATION + r"/responses/[45]\d\d/.*": "the errors of a route follow from its statement",
        _OPERATION + r"/responses/202/.*": "a deletion that waits for a finalizer is a 202",
    }
}
"""Revision -> the whole place as a pattern -> why today's differs there."""
