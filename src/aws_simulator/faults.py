"""Fault rules: which request goes wrong, how, how often. Nothing goes wrong without a rule.

Rules are ordered and the first that matches and fires wins. Probability comes from the seeded
dice that are passed in; delays are real seconds, because they are network time.
"""

import dataclasses
import fnmatch
import random
from typing import Any

ERRORS: dict[str, tuple[int, str, str]] = {
    "throttle": (503, "RequestLimitExceeded", "Request limit exceeded."),
    "throttled": (503, "EC2ThrottledException", "Request limit exceeded."),
    "capacity": (
        500,
        "InsufficientInstanceCapacity",
        "We currently do not have sufficient capacity in the Availability Zone you requested.",
    ),
    "addresses": (400, "InsufficientFreeAddressesInSubnet", "Not enough free addresses."),
    "quota": (400, "VcpuLimitExceeded", "You have requested more vCPU capacity than your limit."),
    "unauthorized": (403, "UnauthorizedOperation", "You are not authorized to do this."),
    "auth": (401, "AuthFailure", "AWS was not able to validate the provided access credentials"),
    "expired": (400, "RequestExpired", "Request has expired."),
    "internal": (500, "InternalError", "An internal error has occurred"),
    "unavailable": (503, "Unavailable", "The service is unavailable. Please try again shortly."),
}
BEFORE = frozenset({*ERRORS, "error", "drop_before", "html", "delay"})
AFTER = frozenset({"drop_after", "empty", "truncated"})


@dataclasses.dataclass
class Rule:
    """One fault: the match (globs), the kind, the chance and how many times it may still fire."""

    fault: str
    service: str = "ec2"
    action: str = "*"
    region: str = "*"
    match: dict[str, str] = dataclasses.field(default_factory=dict)
    p: float = 1.0
    times: int | None = None
    skip: int = 0
    delay: float = 0.0
    status: int = 400
    code: str = "ClientError"
    message: str = "A fault was asked for."
    id: int = 0
    fired: int = 0

    def fits(self, service: str, action: str, region: str, form: dict[str, str]) -> bool:
        """Tell whether the request is one of those this rule is about."""
        if self.times is not None and self.fired >= self.times:
            return False
        pairs = ((service, self.service), (action, self.action), (region, self.region))
        if not all(fnmatch.fnmatchcase(value, pattern) for value, pattern in pairs):
            return False
        return all(
            any(
                fnmatch.fnmatchcase(key, wanted) and fnmatch.fnmatchcase(value, pattern)
                for key, value in form.items()
            )
            for wanted, pattern in self.match.items()
        )

    def error(self) -> tuple[int, str, str]:
        """Return (HTTP status, code, message) of the error this rule answers with."""
        return ERRORS.get(self.fault, (self.status, self.code, self.message))


def parse_rule(data: dict[str, Any], number: int) -> Rule:
    """Build a rule from JSON; ValueError for an unknown key or fault."""
    known = {field.name for field in dataclasses.fields(Rule)} - {"id", "fired"}
    unknown = sorted(set(data) - known)
    if unknown:
        raise ValueError(f"unknown rule keys: {', '.join(unknown)}")
    if data.get("fault") not in BEFORE | AFTER:
        raise ValueError(f"fault: one of {', '.join(sorted(BEFORE | AFTER))}")
    return Rule(**data, id=number)


def choose(
    rules: list[Rule],
    dice: random.Random,
    *,
    service: str,
    action: str,
    region: str,
    form: dict[str, str],
) -> Rule | None:
    """Return the first rule that fits and fires, counting it; None when all is well."""
    for rule in rules:
        if not rule.fits(service, action, region, form):
            continue
        if rule.skip > 0:
            rule.skip -= 1
            continue
        if rule.p >= 1.0 or dice.random() < rule.p:
            rule.fired += 1
            return rule
    return None
