"""The licensing state machine: registration, authorization, node counts, the smart-licence cloud.

Steps take time; before a read the steps that are due must be applied (`world.settle`).
Status words and rules: facts/cml.md#licensing.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cml_simulator.core.errors import CmlError, refused
from cml_simulator.core.inputs import licence_stamp

FREE = "CML_Free"
FREE_NODES = 5
DEFAULT = "CML_Enterprise"
"""What a registration without a chosen product registers."""
INCLUDED = {"CML_Personal": 20, "CML_Personal40": 40, "CML_Enterprise": 20, "CML_Education": 20}
WIDE = ("CML_Enterprise", "CML_Education")
BASE = "regid.2019-10.com.cisco.CML_{},1.0_15d3393c-846c-4e00-a54e-1ea90f2b2160"
COUNT = "regid.2019-10.com.cisco.CML_NODE_COUNT,1.0_2607650b-6ca8-46d5-81e5-e6688b7383c4"
MAX_COUNT = 500
SSMS = "https://smartreceiver.cisco.com/licservice/license"
DAY = 86_400.0
RENEW_EVERY, RETRY_EVERY = 30 * DAY, DAY
AUTHORIZED_FOR, REGISTERED_FOR = 90 * DAY, 365 * DAY


class Stage(StrEnum):
    """registration.status."""

    NOT_REGISTERED = "NOT_REGISTERED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(slots=True)
class LicenceCloud:
    """The licence vendor's records: product_uuid -> since when it holds a licence.

    With `bought`, holders beyond that number are out of compliance, the latest ones first.
    """

    held: dict[str, float] = field(default_factory=dict)
    bought: int | None = None

    def covers(self, product_uuid: str) -> bool:
        """Whether a holder is within what was bought."""
        return self.bought is None or product_uuid in list(self.held)[: self.bought]


@dataclass(slots=True)
class Reservation:
    """The licence reservation, without a cloud: codes copied by hand. `reservation` changes it."""

    mode: bool = False
    request_code: str | None = None
    confirmation_code: str | None = None
    return_code: str | None = None


@dataclass(slots=True)
class Licence:
    """The licence of one server. The token itself is not kept, only whether it is a good one."""

    product_uuid: str
    hostname: str
    product: str = FREE
    stage: Stage = Stage.NOT_REGISTERED
    token_good: bool = False
    expansion: int = 0
    due: float | None = None
    attempted: float | None = None
    registered_at: float | None = None
    authorized_at: float | None = None
    failure: str | None = None
    reachable: bool = True
    ssms: str | None = SSMS
    proxy: dict[str, Any] = field(default_factory=lambda: {"server": None, "port": None})
    renewed_at: float | None = None
    next_try: float | None = None
    expired: bool = False
    covered: bool = True
    compliant: bool = True
    reservation: Reservation = field(default_factory=Reservation)
    words: dict[str, str] = field(default_factory=dict)

    @property
    def authorized(self) -> bool:
        good = self.covered and self.compliant and not self.expired
        return self.stage is Stage.COMPLETED and self.authorized_at is not None and good

    @property
    def quota(self) -> int:
        """Concurrent nodes: the product's included ones plus the requested expansion count."""
        if not self.authorized:
            return FREE_NODES
        return INCLUDED.get(self.product, FREE_NODES) + self.expansion


def next_due(licence: Licence) -> float | None:
    """Return when the next step happens by itself: an answer, or the automatic renewal."""
    times = [at for at in (licence.due, licence.next_try) if at is not None]
    return min(times, default=None)


def step(licence: Licence, cloud: LicenceCloud, authorization_seconds: float) -> None:
    """Apply the step that is due: registration answered, authorization answered, or a renewal."""
    at = licence.due
    if at is None or (licence.next_try is not None and licence.next_try < at):
        _renew_by_itself(licence, cloud)
        return
    licence.due = None
    if licence.stage is Stage.COMPLETED:
        _authorize(licence, cloud, at)
    elif not licence.reachable:
        licence.stage = Stage.FAILED
        licence.failure = "Communication send error"
    elif not licence.token_good:
        licence.stage = Stage.FAILED
        licence.failure = "The registration token is not valid"
    else:
        licence.stage = Stage.COMPLETED
        licence.registered_at = at
        cloud.held.setdefault(licence.product_uuid, at)
        licence.due = at + authorization_seconds


def _authorize(licence: Licence, cloud: LicenceCloud, at: float) -> None:
    licence.authorized_at = licence.renewed_at = at
    licence.next_try = at + RENEW_EVERY
    licence.expired = False
    licence.covered = cloud.covers(licence.product_uuid)


def _renew_by_itself(licence: Licence, cloud: LicenceCloud) -> None:
    at = licence.next_try
    if at is None or licence.renewed_at is None or licence.stage is not Stage.COMPLETED:
        licence.next_try = None
        return
    registered = licence.registered_at or at
    if licence.reachable:
        first = licence.authorized_at
        _authorize(licence, cloud, at)
        licence.authorized_at = first
        if at - registered >= 180 * DAY:
            licence.registered_at = at
        return
    licence.next_try = at + RETRY_EVERY
    licence.expired = at - licence.renewed_at >= AUTHORIZED_FOR
    if at - registered >= REGISTERED_FOR:
        licence.stage, licence.failure = Stage.NOT_REGISTERED, "The registration has expired"
        _forget(licence)


def _forget(licence: Licence) -> None:
    licence.expansion = 0
    licence.due = licence.next_try = licence.renewed_at = None
    licence.attempted = licence.registered_at = licence.authorized_at = None
    licence.expired, licence.covered = False, True


def set_product(licence: Licence, product: str) -> None:
    """Choose the product; only an unregistered server may."""
    if product not in INCLUDED and product != FREE:
        raise refused(f"Licensing issue: Unknown product license: {product}.")
    if licence.stage in {Stage.COMPLETED, Stage.IN_PROGRESS}:
        raise refused("Licensing issue: The product license cannot change while registered.")
    licence.product = product
    licence.expansion = 0


def register(licence: Licence, token: str, now: float, seconds: float, *, again: bool) -> None:
    """Begin a registration; its answer is due later. Tokens that begin with 'bad' will fail."""
    _not_busy(licence)
    if licence.stage is Stage.COMPLETED and not again:
        raise refused("Licensing issue: The product has already been registered.")
    if licence.product == FREE:
        licence.product = DEFAULT
    licence.stage = Stage.IN_PROGRESS
    licence.token_good = not token.lower().startswith("bad")
    licence.attempted = now
    licence.failure = None
    licence.authorized_at = None
    licence.due = now + seconds


def renew(licence: Licence, now: float, *, authorization: bool) -> None:
    """Renew the registration or the authorization at once."""
    _not_busy(licence)
    if licence.stage is not Stage.COMPLETED:
        raise refused("Licensing issue: The product is not registered.")
    if not licence.reachable:
        raise refused("Licensing issue: Communication send error.")
    if authorization and licence.authorized_at is not None:
        licence.renewed_at, licence.next_try, licence.expired = now, now + RENEW_EVERY, False
    elif not authorization:
        licence.registered_at = now


def deregister(licence: Licence, cloud: LicenceCloud, *, active_nodes: int) -> bool:
    """Give the licence back; return False if the cloud could not be told (HTTP 202)."""
    _not_busy(licence)
    if active_nodes:
        raise refused("Licensing issue: Cannot de-register when nodes are running.")
    if licence.stage is not Stage.COMPLETED:
        raise refused("Licensing issue: The product has already been de-registered.")
    licence.stage = Stage.NOT_REGISTERED
    _forget(licence)
    if not licence.reachable:
        return False
    cloud.held.pop(licence.product_uuid, None)
    return True


def set_counts(licence: Licence, wanted: list[tuple[str, int]]) -> None:
    """Ask for expansion nodes; only multi-user products have them."""
    for feature, count in wanted:
        if feature != COUNT:
            raise refused(f"Licensing issue: Unknown or fixed feature: {feature}.")
        if licence.product not in WIDE:
            raise refused(f"Licensing issue: {licence.product} has no expansion nodes.")
        if licence.stage not in {Stage.COMPLETED, Stage.IN_PROGRESS}:
            raise refused("Licensing issue: The product is not registered.")
        if not 0 <= count <= MAX_COUNT:
            raise refused(f"Licensing issue: count must be from 0 to {MAX_COUNT}.")
        licence.expansion = count


def _not_busy(licence: Licence) -> None:
    if licence.stage is Stage.IN_PROGRESS:
        raise CmlError(409, "Licensing issue: Another licensing operation is in progress.")


def features(licence: Licence) -> list[dict[str, Any]]:
    """Return the features of the product; base max is one licence, not one node."""
    if licence.product == FREE:
        return []
    status = _word(licence, _authorization(licence))
    names = {
        "CML_Personal": ("PERSONAL", "CML - Personal License", "20 nodes included"),
        "CML_Personal40": ("PERSONAL_40", "CML - Personal Plus License", "40 nodes included"),
        "CML_Enterprise": ("ENT_BASE", "CML - Enterprise License", "20 nodes included"),
        "CML_Education": ("EDU_BASE", "CML - Education License", "20 nodes included"),
    }
    short, name, text = names[licence.product]
    rows = [(BASE.format(short), name, text, int(licence.authorized), 1)]
    if licence.product in WIDE:
        expansion = ("CML - Expansion Node License", "Expansion nodes")
        rows.append((COUNT, *expansion, licence.expansion, MAX_COUNT))
    return [
        {
            "id": key,
            "name": title,
            "description": about,
            "in_use": used,
            "status": status,
            "version": "1.0",
            "min": 0,
            "max": top,
            "minEndDate": None,
            "maxEndDate": None,
        }
        for key, title, about, used, top in rows
    ]


def _authorization(licence: Licence) -> str:
    if licence.authorized:
        return "IN_COMPLIANCE"
    if licence.stage is not Stage.COMPLETED:
        return "INIT"
    if licence.authorized_at is None:
        return "WAITING"
    return "AUTH_EXPIRED" if licence.expired else "OUT_OF_COMPLIANCE"


def _word(licence: Licence, word: str) -> str:
    """Return a status word as this server spells it (facts/cml.md#open-questions, row 3)."""
    return licence.words.get(word, word)


def status(licence: Licence, now: float) -> dict[str, Any]:
    """Return the body of GET licensing."""
    _ = now
    registered = licence.registered_at
    auth = licence.renewed_at
    done = licence.stage is Stage.COMPLETED
    return {
        "udi": {"hostname": licence.hostname, "product_uuid": licence.product_uuid},
        "registration": {
            "status": _word(licence, str(licence.stage)),
            "smart_account": "Labfleet Example SA" if done else None,
            "virtual_account": "Default" if done else None,
            "expires": licence_stamp(registered + 365 * DAY if registered else None),
            "register_time": {
                "succeeded": licence_stamp(registered),
                "attempted": licence_stamp(licence.attempted),
                "scheduled": None,
                "status": None,
                "failure": licence.failure or ("OK" if done else None),
                "success": "SUCCESS" if done else None,
            },
            "renew_time": {
                "succeeded": None,
                "attempted": None,
                "scheduled": licence_stamp(registered + 180 * DAY if registered else None),
                "status": None,
                "failure": None,
                "success": None,
            },
        },
        "authorization": {
            "status": _word(licence, _authorization(licence)),
            "expires": licence_stamp(auth + 90 * DAY if auth else None),
            "renew_time": {
                "succeeded": None,
                "attempted": licence_stamp(auth),
                "scheduled": licence_stamp(auth + 30 * DAY if auth else None),
                "status": ("FAILED" if licence.expired else "SUCCEEDED") if auth else "NOT STARTED",
                "failure": "Communication send error" if licence.expired else None,
                "success": "SUCCESS" if auth and not licence.expired else None,
            },
        },
        "features": features(licence),
        "reservation_mode": licence.reservation.mode,
        "transport": {"default_ssms": SSMS, "ssms": licence.ssms, "proxy": licence.proxy},
        "product_license": {
            "active": _word(licence, licence.product),
            "is_enterprise": licence.product in WIDE,
        },
    }
