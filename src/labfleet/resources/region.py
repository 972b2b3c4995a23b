"""Region: what discovery and garbage collection store about one provider region.

One object per region, written by the worker controller's leader: which images ever matched,
which instances people said no to, what the last scan found, what is suspected of having been
left behind, and what was ended. Deleting it forgets all of that. Times are fleet time.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from labfleet.resources.conditions import ANY_ERROR, Condition, ConditionType, Reason
from labfleet.resources.declaration import Kind, Loud, columns, runbook
from labfleet.resources.meta import DEFAULT_NAMESPACE, Record, Ref, Resource
from labfleet.resources.providers.trouble import CAUSES, Trouble

IMAGES_KEPT = 1000
IGNORED_KEPT = 1000
SUSPECTS_KEPT = 200
DEEDS_KEPT = 50
OUTSIDE_KEPT = 1000

LeftKind = Literal["instance", "volume", "address", "worker", "lab"]


class RegionReason(Reason):
    """Why a condition of a region is as it is."""

    ANSWERING = "Answering", "It answered the last look."
    COMPLETE = "Complete", "Every machine that matches was looked at."
    CREDENTIALS_EXPIRED = (
        "CredentialsExpired",
        "The provider says that our credentials are expired.",
    )
    CREDENTIALS_REFUSED = "CredentialsRefused", "The provider does not accept our credentials."
    NOT_ALLOWED = "NotAllowed", "Our credentials may not make the call that the message names."
    PROVIDER_SILENT = "ProviderSilent", "The provider's API has not answered for minutes."
    THROTTLED = "Throttled", "The provider refuses our requests as too many, for minutes."


class RegionCondition(ConditionType):
    """The facts that are recorded of a region."""

    PROVIDER_ANSWERS = (
        "ProviderAnswers",
        (
            "False while the region's API does not do what it is asked, with the cause; its workers that "
            "wait for it carry the same. It appears with the first trouble."
        ),
        RegionReason.ANSWERING,
        RegionReason.CREDENTIALS_EXPIRED,
        RegionReason.CREDENTIALS_REFUSED,
        RegionReason.NOT_ALLOWED,
        RegionReason.PROVIDER_SILENT,
        RegionReason.THROTTLED,
    )
    SCANNED = (
        "Scanned",
        "Discovery's last scan of the region was complete.",
        RegionReason.COMPLETE,
        ANY_ERROR,
    )


class Suspect(Record, frozen=True, kw_only=True):
    """Something that seems left behind: since when this leader sees it, why, what comes next.

    `worker`: a record whose instance is not there; `lab`: one of ours on the worker `name` that is
    no session's.

    kind: What it is.
    id: The provider's name for it, or the worker's name.
    name: Its name tag.
    since: Since when this leader sees it.
    why: Why it seems left behind.
    next: What comes next, in a sentence.
    due: Earliest instant of its end; null when nothing will happen by itself.
    """

    kind: LeftKind
    id: str
    name: str = ""
    since: datetime
    why: str = ""
    next: str = ""
    due: datetime | None = None


class Deed(Record, frozen=True, kw_only=True):
    """One end that garbage collection asked for: written before the call is made.

    at: When the end was asked for.
    kind: What was ended.
    id: The provider's name for it.
    name: Its name tag.
    why: Why it was ended.
    """

    at: datetime
    kind: LeftKind
    id: str
    name: str = ""
    why: str = ""


class Scan(Record, frozen=True, kw_only=True):
    """What discovery did here (upstream 002). `foreign` belong to another installation.

    runs: Scans so far.
    discovered: Instances that the last scan found.
    imported: Workers made of instances so far.
    foreign: Instances of the last scan that belong to another installation.
    foreign_ids: The provider's names for those.
    ignored: Instances of the last scan that are left alone.
    last_run_at: When the last scan was.
    last_error: Why the last scan failed; empty when it did not.
    settings_source: Where the settings of the last scan came from.
    """

    runs: int = 0
    discovered: int = 0
    imported: int = 0
    foreign: int = 0
    foreign_ids: tuple[str, ...] = ()
    ignored: int = 0
    last_run_at: datetime | None = None
    last_error: str = ""
    settings_source: str = "default"


class RegionSpec(Record, frozen=True, kw_only=True):
    """Nothing is wanted of a region; what is scanned stands in the settings."""


class RegionStatus(Record, frozen=True, kw_only=True):
    """What was seen. `images` are all that ever matched, oldest first (facts/aws.md#ownership).

    `outside` and `ignored` keep discovery and counting from taking one machine twice.

    conditions: Facts about it, each with its reason.
    images: All images that ever matched, oldest first (facts/aws.md#ownership).
    ignored: Instances whose observed worker a person deleted; discovery leaves them alone.
    scan: What discovery did here.
    suspects: What seems left behind.
    deeds: The newest ends that garbage collection asked for.
    ended: How many ends garbage collection has asked for.
    ended_outside: Machines of workers that others ended, each counted once.
    outside: Those of them whose workers are still recorded.
    waits: Why garbage collection does nothing here now; empty when it works.
    observed_generation: Generation of the spec that this status is about.
    """

    conditions: tuple[Condition, ...] = ()
    images: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    scan: Scan = Scan()
    suspects: tuple[Suspect, ...] = ()
    deeds: tuple[Deed, ...] = ()
    ended: int = 0
    ended_outside: int = 0
    outside: tuple[str, ...] = ()
    waits: str = ""
    observed_generation: int = 0


class Region(Resource, frozen=True, kw_only=True):
    """One provider region, as discovery and garbage collection know it."""

    spec: RegionSpec = RegionSpec()
    status: RegionStatus = RegionStatus()
    kind: str = "Region"


def ref(name: str) -> Ref[Region]:
    """Return the one object of a provider region; regions are the fleet's, in `default`."""
    return Ref(Region, DEFAULT_NAMESPACE, name)


_RUNBOOK = runbook(
    "Region",
    (
        "ProviderAnswers",
        "",
        f"False: {CAUSES[Trouble.SILENT][0]}",
        "labfleet alerts; labfleet explain region/NAME",
        CAUSES[Trouble.SILENT][1],
    ),
    (
        "Scanned",
        "",
        "False: the last scan of the region failed; nothing was judged by it.",
        "labfleet explain region/NAME",
        "Mend credentials, rights or the region's name; disable regions that are not used.",
    ),
)
KIND = Kind(
    name="Region",
    plural="regions",
    short=("r",),
    type=Region,
    summary="A provider region that is scanned and swept, and what was found there.",
    columns=columns(
        "LAST SCAN=status.scan.lastRunAt",
        "FOUND=status.scan.discovered",
        "IMPORTED=status.scan.imported",
        "ENDED=status.ended",
        "ENDED BY OTHERS=status.endedOutside",
        "WAITS=status.waits",
        "ERROR=status.scan.lastError*",
        "SUSPECTS=status.suspects*",
    ),
    creatable=False,
    conditions=RegionCondition,
    reasons=RegionReason,
    news=((RegionCondition.PROVIDER_ANSWERS, "False"), (RegionCondition.SCANNED, "False")),
    loud=(
        Loud(RegionCondition.PROVIDER_ANSWERS, "False", "critical"),
        Loud(RegionCondition.SCANNED, "False", "warning"),
    ),
    runbook=_RUNBOOK,
)
