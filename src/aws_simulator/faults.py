"""Fault rules: which request fails, how, how often. Nothing fails without a rule.

Rules are ordered and the first that matches and fires wins. Probability comes from the seeded
random numbers that are passed in; delays are real seconds, because they are network time.
"""

import dataclasses
import fnmatch
import random
from typing import Any

ERRORS: dict[str, tuple[int, str, str]] = {
    "throttle": (503, "RequestLimitExceeded", "Request limit exceeded."),
    "throttled": (503, "EC2ThrottledException", "Request limit exceeded."),
    "throttling": (400, "Throttling", "Rate exceeded"),
    "capacity": (
        500,
        "InsufficientInstanceCapacity",
        "We currently do not have sufficient capacity in the Availability Zone you requested.",
    ),
    "reservation": (400, "ReservationCapacityExceeded", "The reservation has no capacity left."),
    "addresses": (400, "InsufficientFreeAddressesInSubnet", "Not enough free addresses."),
    "quota": (400, "VcpuLimitExceeded", "You have requested more vCPU capacity than your limit."),
    "spot_quota": (400, "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"),
    "pending_verification": (
        400,
        "PendingVerification",
        "Your request for accessing resources in this region is being validated.",
    ),
    "unauthorized": (403, "UnauthorizedOperation", "You are not authorized to do this."),
    "auth": (401, "AuthFailure", "AWS was not able to validate the provided access credentials"),
    "expired": (400, "RequestExpired", "Request has expired."),
    "expired_token": (400, "ExpiredToken", "The security token in the request is expired"),
    "opt_in": (401, "AuthFailure", "This region is not enabled for the account"),
    "internal": (500, "InternalError", "An internal error has occurred"),
    "unavailable": (503, "Unavailable", "The service is unavailable. Please try again shortly."),
    "service_unavailable": (503, "ServiceUnavailable", "The service is unavailable."),
}
BEFORE = frozenset({*ERRORS, "error", "drop_before", "hang_before", "html", "delay"})
DURING = frozenset({"fate", "empty_page"})
AFTER = frozenset({"drop_after", "hang_after", "delay_after", "empty", "truncated"})
KINDS = BEFORE | DURING | AFTER


@dataclasses.dataclass
class Rule:
    """One fault: the match (globs), the kind, the chance and how many times it may still fire.

    `since` and `until` (simulated Unix seconds) bound the time it is in force; `key` is a glob on
    the caller's access key; `fate` and `code` belong to the fault `fate`.
    """

    fault: str
    service: str = "ec2"
    action: str = "*"
    region: str = "*"
    key: str = "*"
    match: dict[str, str] = dataclasses.field(default_factory=dict)
    p: float = 1.0
    times: int | None = None
    skip: int = 0
    since: float | None = None
    until: float | None = None
    delay: float = 0.0
    status: int = 400
    code: str = "ClientError"
    message: str = "A fault was asked for."
    fate: str = ""
    id: int = 0
    fired: int = 0

    def fits(
        self,
        service: str,
        action: str,
        region: str,
        form: dict[str, str],
        *,
        key: str = "",
        now: float = 0.0,
    ) -> bool:
        """Tell whether this rule applies to the request."""
        if self.times is not None and self.fired >= self.times:
            return False
        if self.since is not None and now < self.since:
            return False
        if self.until is not None and now >= self.until:
            return False
        pairs = (
            (service, self.service),
            (action, self.action),
            (region, self.region),
            (key, self.key),
        )
        if not all(fnmatch.fnmatchcase(value, pattern) for value, pattern in pairs):
            return False
        return all(
            any(
                fnmatch.fnmatchcase(name, wanted) and fnmatch.fnmatchcase(value, pattern)
                for name, value in form.items()
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
    if data.get("fault") not in KINDS:
        raise ValueError(f"fault: one of {', '.join(sorted(KINDS))}")
    return Rule(**data, id=number)


def choose(
    rules: list[Rule],
    rng: random.Random,
    *,
    service: str,
    action: str,
    region: str,
    form: dict[str, str],
    key: str = "",
    now: float = 0.0,
) -> Rule | None:
    """Return the first rule that fits and fires, and count it; None when none does."""
    for rule in rules:
        if not rule.fits(service, action, region, form, key=key, now=now):
            continue
        if rule.skip > 0:
            rule.skip -= 1
            continue
        if rule.p >= 1.0 or rng.random() < rule.p:
            rule.fired += 1
            return rule
    return None
