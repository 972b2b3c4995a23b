"""Exit codes and the one error that commands raise; no I/O (facts/interface.md#exit-codes).

Scripts branch on these numbers, so a number never changes its meaning.
"""

from __future__ import annotations

from typing import Any

OK = 0
ERROR = 1
USAGE = 2
UNMET = 3
NOT_FOUND = 4
CONFLICT = 5
DENIED = 6
REFUSED = 7
TIMEOUT = 8
UNREACHABLE = 9
CHANGES = 10
DIFF_ERROR = 20
CANNOT_START = 126
NO_PROGRAM = 127
INTERRUPTED = 130

_BY_STATUS = {
    400: USAGE, 401: DENIED, 403: DENIED, 404: NOT_FOUND, 405: USAGE, 408: TIMEOUT, 409: CONFLICT,
    410: NOT_FOUND, 412: CONFLICT, 413: USAGE, 415: USAGE, 422: USAGE, 428: CONFLICT,
    429: UNREACHABLE, 502: UNREACHABLE, 503: UNREACHABLE, 504: UNREACHABLE,
}  # fmt: skip
REFUSALS = frozenset({
    "NoCapacity", "PoolTerminating", "QuotaExceeded", "TooManyCourses", "TooManyGroups",
    "TooManyHours", "TooManySessions", "TooManyTokens", "TooManyWebhooks", "TooManyWorkers",
})  # fmt: skip
"""Reasons that say no by a limit or for want of room: asking again at once helps nobody."""
_NO_ROLE_HELPS = frozenset({"InUse", "PrivateAddress", "SeatOfGroup"})
"""Reasons of a 403 that are no matter of a token's role: what helps stands in the cause."""
# What is said of one object (404, 409, 412) the client says: it knows which one.
_HINTS = {
    401: "Give a token: --token-file, LABFLEET_TOKEN_FILE or LABFLEET_TOKEN.",
    403: "Ask an admin for a token with a role that may do this (labfleet token create).",
    422: "Correct the fields named above and try again.",
    429: "The server asks for fewer calls; wait a moment and try again.",
    503: "The server is busy or starting; try again in a moment.",
}


class ReaderGoneError(Exception):
    """The reader of stdout is gone (`labfleet get | head`): nothing more to do, no error."""


class Failure(Exception):
    """A command cannot do what was asked: exit code, cause, next step, problem document."""

    def __init__(
        self,
        code: int,
        cause: str,
        *,
        hint: str = "",
        reason: str = "",
        problem: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(cause)
        self.code = code
        self.cause = cause
        self.hint = hint
        self.reason = reason
        self.problem = problem or {}

    def document(self) -> dict[str, Any]:
        """Return the RFC 9457 form: the server's own, or one made here."""
        made: dict[str, Any] = {
            "type": "about:blank",
            "title": self.cause,
            "detail": self.cause,
            "reason": self.reason or _REASONS.get(self.code, "Error"),
        }
        made.update(self.problem)
        made["exitCode"] = self.code
        if self.hint:
            made["hint"] = self.hint
        return made

    def lines(self) -> list[str]:
        """Return what a person reads: cause, problems, next step, request id."""
        said = [f"Error: {self.cause}"]
        for each in self.problem.get("problems") or ():
            where, what = each.get("where", ""), each.get("what", "")
            line = f"{where}: {what}" if where else str(what)
            if not self.cause.endswith(line):
                said.append(f"  {line}")
        if self.hint:
            said.append(self.hint)
        if self.problem.get("requestId"):
            said.append(f"Request id: {self.problem['requestId']}")
        return said


_REASONS = {
    USAGE: "Usage", UNMET: "NotMet", NOT_FOUND: "NotFound", CONFLICT: "Conflict",
    DENIED: "Denied", REFUSED: "Refused", TIMEOUT: "TimedOut", UNREACHABLE: "Unreachable",
}  # fmt: skip


def from_problem(status: int, problem: dict[str, Any]) -> Failure:
    """Return the failure that an HTTP status and its problem document stand for."""
    reason = str(problem.get("reason") or "")
    code = REFUSED if reason in REFUSALS else _BY_STATUS.get(status, ERROR)
    title = str(problem.get("title") or "")
    detail = str(problem.get("detail") or title or f"the server answered {status}")
    known = "" if code == REFUSED or reason in _NO_ROLE_HELPS else _HINTS.get(status, "")
    hint = str(problem.get("hint") or known)
    return Failure(code, detail, hint=hint, reason=reason, problem={"status": status, **problem})


def usage(cause: str, hint: str = "") -> Failure:
    """Return the failure for a wrong command line or file."""
    return Failure(USAGE, cause, hint=hint)
