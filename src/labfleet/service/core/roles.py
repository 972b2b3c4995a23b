"""The roles of callers; what each may do with a kind is declared with the kind."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """The kind of a caller: people, then programs, then the product itself, which has no token.

    A controller reports and looks after workers, and touches no person's session. A runner asks
    whether its simulations may run, and ends and reads those.
    """

    ADMIN = "admin"
    OPERATOR = "operator"
    USER = "user"
    CONTROLLER = "controller"
    RUNNER = "runner"
    SYSTEM = "system"


FOR_TOKENS = tuple(role for role in Role if role is not Role.SYSTEM)
"""The roles that a token may have."""
EARLIER = {"internal": Role.CONTROLLER}
"""Roles of tokens that earlier versions made: what they are now."""
