"""Why a provider does not do what it is asked: neutral words, and what each says of a region.

An adapter finds the word for an error (`Compute.trouble`); conditions, alerts and pages say it.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from labfleet.kernel.clock import utc_text


class Trouble(StrEnum):
    """What is the matter with a provider, for all that asks it."""

    SILENT = "ProviderSilent"
    THROTTLED = "Throttled"
    EXPIRED = "CredentialsExpired"
    REFUSED = "CredentialsRefused"
    FORBIDDEN = "NotAllowed"


SAYS = {
    Trouble.SILENT: "does not answer",
    Trouble.THROTTLED: "asks for fewer requests and answers none",
    Trouble.EXPIRED: "says that our credentials are expired",
    Trouble.REFUSED: "does not accept our credentials",
    Trouble.FORBIDDEN: "does not allow our credentials what is needed",
}
"""What each says of a region, before "since"."""

CAUSES: dict[str, tuple[str, str]] = {
    Trouble.SILENT: (
        (
            "The provider's API does not answer: an outage there, or no way to it from this server. What "
            "runs goes on; nothing is launched, started, stopped or ended until it answers."
        ),
        (
            "Look at the provider's status page, and from the server at its network, proxy and name "
            "service. Nothing has to be done to the workers: all of them go on by themselves."
        ),
    ),
    Trouble.THROTTLED: (
        "The provider has refused our requests as too many for minutes.",
        (
            "Find out what else uses the account's request limits, or ask for higher ones. The workers "
            "go on by themselves."
        ),
    ),
    Trouble.EXPIRED: (
        "The credentials of this server for the provider are expired, or its clock is wrong.",
        (
            "Renew the credentials where the server reads them (role, profile, variables), and compare "
            "the host's clock. The workers go on by themselves."
        ),
    ),
    Trouble.REFUSED: (
        "The provider does not know the credentials of this server, or there are none.",
        (
            "Set the credentials where the server reads them (role, profile, variables). The workers "
            "go on by themselves."
        ),
    ),
    Trouble.FORBIDDEN: (
        "The credentials of this server lack a permission; the message names the call.",
        (
            "Add the action to the policy of the server's role; a policy of the organisation may deny "
            "it, too. The workers go on by themselves."
        ),
    ),
}
"""Word -> cause and fix, for alerts and runbook."""


def sentence(title: str, region: str, trouble: Trouble, since: datetime) -> str:
    """Return the sentence for people; it stays the same while the trouble lasts."""
    return f"{title} {region} {SAYS[trouble]} since {utc_text(since, seconds=True)}"
