"""The roles of callers; what each may do with a kind is declared with the kind."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """The kind of a caller."""

    ADMIN = "admin"
    OPERATOR = "operator"
    USER = "user"
    INTERNAL = "internal"
