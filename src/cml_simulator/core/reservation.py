"""Licence reservation: request code out, authorization code in, confirmation and return codes.

The order of calls and the codes' looks are the simulator's choice (the facts name only the paths):
mode on -> request -> complete (authorized at once) -> release (return code) -> mode off.
"""

from cml_simulator.core.errors import CmlError, refused
from cml_simulator.core.licensing import DEFAULT, FREE, Licence, Stage


def set_mode(licence: Licence, *, on: bool) -> None:
    """Switch the reservation mode; not while registered or reserved."""
    if licence.stage is Stage.IN_PROGRESS:
        raise CmlError(409, "Licensing issue: Another licensing operation is in progress.")
    if on != licence.reservation.mode and licence.stage is Stage.COMPLETED:
        raise refused("Licensing issue: Reservation mode cannot change while registered.")
    licence.reservation.mode = on
    if not on:
        licence.reservation.request_code = None


def _needs_mode(licence: Licence) -> None:
    if not licence.reservation.mode:
        raise refused("Licensing issue: Reservation mode is not enabled.")


def request(licence: Licence, code: str) -> str:
    """Begin a reservation; return the request code (the same one while it is open)."""
    _needs_mode(licence)
    if licence.stage is Stage.COMPLETED:
        raise refused("Licensing issue: A reservation is installed already.")
    licence.reservation.request_code = licence.reservation.request_code or code
    return licence.reservation.request_code


def complete(licence: Licence, code: str, confirmation: str, now: float) -> str:
    """Install an authorization code; return the confirmation code. 'bad...' is not accepted."""
    _needs_mode(licence)
    if licence.reservation.request_code is None:
        raise refused("Licensing issue: No reservation was requested.")
    if code.lower().startswith("bad"):
        raise refused("Licensing issue: The reservation authorization code is not valid.")
    if licence.product == FREE:
        licence.product = DEFAULT
    licence.stage = Stage.COMPLETED
    licence.registered_at = licence.authorized_at = licence.renewed_at = now
    licence.reservation.request_code = None
    licence.reservation.confirmation_code = confirmation
    return confirmation


def cancel(licence: Licence) -> None:
    """Give up a request that was not completed."""
    _needs_mode(licence)
    if licence.reservation.request_code is None:
        raise refused("Licensing issue: No reservation was requested.")
    licence.reservation.request_code = None


def release(licence: Licence, code: str) -> str:
    """Give a completed reservation back; return the return code for the vendor."""
    _needs_mode(licence)
    if licence.stage is not Stage.COMPLETED:
        raise refused("Licensing issue: No reservation is installed.")
    licence.stage = Stage.NOT_REGISTERED
    licence.registered_at = licence.authorized_at = licence.renewed_at = None
    licence.reservation.confirmation_code = None
    licence.reservation.return_code = code
    return code


def discard(licence: Licence, text: str, code: str) -> str:
    """Discard an authorization code that was never installed; return the return code."""
    _needs_mode(licence)
    if not text:
        raise refused("Licensing issue: The reservation authorization code is not valid.")
    licence.reservation.return_code = code
    return code
