"""Translates what botocore raises into the product's few kinds of failure.

The kinds and what follows from each: facts/aws.md#error-classes.

The question that decides most: may the call have happened? For a mutation a lost or broken
reply is Ambiguous; for a read it is only Temporary.
"""

from __future__ import annotations

from botocore import exceptions as sdk
from botocore.parsers import ResponseParserError

from labfleet.interfaces.compute import trouble_of
from labfleet.kernel import errors
from labfleet.resources.providers.trouble import Trouble

THROTTLES = frozenset(
    {
        "RequestLimitExceeded", "EC2ThrottledException", "Throttling", "ThrottlingException",
        "RequestThrottled", "TooManyRequestsException", "BandwidthLimitExceeded", "SlowDown",
    }
)  # fmt: skip
# A zone that does not offer the type answers `Unsupported`: try elsewhere
# (facts/aws.md#error-classes).
CAPACITY = frozenset(
    {
        "InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientCapacity",
        "InsufficientReservedInstanceCapacity", "InsufficientFreeAddressesInSubnet",
        "InsufficientVolumeCapacity", "UnfulfillableCapacity", "ReservationCapacityExceeded",
        "Unsupported",
    }
)  # fmt: skip
QUOTAS = frozenset(
    {
        "VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded",
        "VolumeLimitExceeded", "MaxIOPSLimitExceeded", "AddressLimitExceeded",
        "NetworkInterfaceLimitExceeded", "PendingVerification",
    }
)  # fmt: skip
DENIALS = frozenset(
    {
        "UnauthorizedOperation", "AuthFailure", "AccessDenied", "AccessDeniedException",
        "ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidClientTokenId",
        "SignatureDoesNotMatch", "OptInRequired", "Blocked", "UnrecognizedClientException",
        "InvalidSecurityToken", "MissingAuthenticationToken", "IncompleteSignature",
    }
)  # fmt: skip
EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
FORBIDDEN = frozenset(
    {"UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "OptInRequired"}
)
ABSENT = frozenset(
    {
        "InvalidInstanceID.NotFound", "InvalidVolume.NotFound", "InvalidAllocationID.NotFound",
        "InvalidAddress.NotFound", "InvalidAddressID.NotFound",
    }
)  # fmt: skip
IN_USE = frozenset({"VolumeInUse", "InvalidIPAddress.InUse", "InvalidAddress.Locked"})
WRONG_STATE = frozenset({"IncorrectInstanceState", "IncorrectState", "InvalidNextToken"})
TROUBLE = frozenset({"InternalError", "InternalFailure", "Unavailable", "ServiceUnavailable"})
NOT_SENT = (
    sdk.EndpointConnectionError,
    sdk.ConnectTimeoutError,
    sdk.ProxyConnectionError,
    sdk.SSLError,
)
NO_CREDENTIALS = (
    sdk.NoCredentialsError,
    sdk.PartialCredentialsError,
    sdk.CredentialRetrievalError,
    sdk.TokenRetrievalError,
    sdk.SSOError,
    sdk.ProfileNotFound,
)
BAD_REQUEST = (
    sdk.ParamValidationError,
    sdk.NoRegionError,
    sdk.InvalidRegionError,
    sdk.UnknownEndpointError,
    sdk.EndpointProviderError,
    sdk.InvalidEndpointConfigurationError,
)
MESSAGE_LIMIT = 500

# What the SDK may raise from a call; anything else is a bug of ours and is not translated.
OUTSIDE = (sdk.ClientError, sdk.BotoCoreError, sdk.HTTPClientError, ResponseParserError)


def trouble(problem: errors.LabfleetError) -> Trouble | None:
    """Return what an error says of AWS itself; refusals of our own (NotOurs) say nothing of it."""
    if not isinstance(problem, errors.Denied):
        return trouble_of(problem)
    if problem.reason in EXPIRED:
        return Trouble.EXPIRED
    if problem.reason in FORBIDDEN:
        return Trouble.FORBIDDEN
    return Trouble.REFUSED if problem.reason in DENIALS | {"NoCredentials"} else None


def translate(error: Exception, *, action: str, mutating: bool) -> errors.LabfleetError:
    """Return our error for one of OUTSIDE; it never carries headers, bodies or credentials."""
    if isinstance(error, sdk.ClientError):
        return _of_reply(error, action=action, mutating=mutating)
    text = f"{action}: {error}"[:MESSAGE_LIMIT]
    if isinstance(error, NO_CREDENTIALS):
        return errors.Denied(text, reason="NoCredentials")
    if isinstance(error, BAD_REQUEST):
        return errors.Invalid(text)
    if isinstance(error, NOT_SENT):
        return errors.Unreachable(text)
    if mutating:
        return errors.Ambiguous(f"{text}; the reply was lost, it may have happened")
    if isinstance(error, ResponseParserError):
        return errors.Protocol(f"{action}: the reply is not EC2's XML")
    return errors.Unreachable(text)


def _of_reply(error: sdk.ClientError, *, action: str, mutating: bool) -> errors.LabfleetError:
    """Classify an answer that EC2 gave in its own words."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    message = str(error.response.get("Error", {}).get("Message", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    text = f"{action}: {code}: {message}"[:MESSAGE_LIMIT]
    known = _by_code(code, text)
    if known is not None:
        return known
    if status >= 500 or code in TROUBLE:
        if mutating:
            return errors.Ambiguous(f"{text}; it may have happened", reason="ServerTrouble")
        return errors.Temporary(text, reason="ServerTrouble")
    if code.startswith(("Invalid", "Missing", "Malformed", "Unknown", "TagLimit", "Validation")):
        return errors.Invalid(text, reason=_word(code))
    return errors.Permanent(text, reason=_word(code))


def _by_code(code: str, text: str) -> errors.LabfleetError | None:
    if code in THROTTLES:
        return errors.Throttled(text)
    if code in CAPACITY:
        return errors.OutOfCapacity(text, reason=code)
    if code in QUOTAS:
        return errors.QuotaExceeded(text, reason=code)
    if code in DENIALS:
        return errors.Denied(text, reason=code)
    if code in WRONG_STATE:
        return errors.Temporary(text, reason=code)
    if code in ABSENT:
        return errors.Gone(text)
    if code == "IdempotentInstanceTerminated":
        return errors.Gone(text, reason=code)
    if code in IN_USE:
        return errors.Conflict(text, reason="InUse")
    if code == "IdempotentParameterMismatch":
        return errors.Conflict(text, reason=code)
    if code == "OperationNotPermitted":
        return errors.Permanent(text, reason="Protected")
    return None


def _word(code: str) -> str:
    """Return a code as one CamelCase word: `InvalidSubnetID.NotFound` → InvalidSubnetIDNotFound."""
    return "".join(part for part in code.split(".") if part.isalnum()) or "Permanent"
