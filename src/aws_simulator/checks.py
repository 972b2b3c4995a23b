"""Request checks that EC2 makes and moto does not: tags and user data.

Each returns an error as (HTTP status, code, message); None when the request is fine.
"""

import base64
import binascii

Error = tuple[int, str, str]
USER_DATA_LIMIT = 16 * 1024
TERMINATED_AT_ONCE = 1000
TAGGING = ("RunInstances", "CreateTags")


def check(action: str, form: dict[str, str]) -> Error | None:
    """Return the first objection to a request, or None."""
    if action == "TerminateInstances":
        named = sum(name.startswith("InstanceId.") for name in form)
        if named > TERMINATED_AT_ONCE:
            return 400, "InvalidParameterValue", "At most 1000 instances can be terminated at once"
    if action in TAGGING:
        return _tags(form) or _user_data(form)
    return None


def _tags(form: dict[str, str]) -> Error | None:
    in_metadata = form.get("MetadataOptions.InstanceMetadataTags") == "enabled"
    for name, value in form.items():
        if not name.startswith(("TagSpecification", "Tag.")):
            continue
        if name.endswith(".Key"):
            if value.startswith("aws:"):
                return 400, "InvalidParameterValue", "Tag keys starting with 'aws:' are reserved"
            if not 1 <= len(value) <= 128:
                return 400, "InvalidParameterValue", "Tag keys have 1..128 characters"
            if in_metadata and ("/" in value or " " in value):
                return 400, "InvalidParameterValue", f"'{value}' is not a valid metadata tag key"
        if name.endswith(".Value") and len(value) > 256:
            return 400, "InvalidParameterValue", "Tag values have at most 256 characters"
    return None


def _user_data(form: dict[str, str]) -> Error | None:
    try:
        size = len(base64.b64decode(form.get("UserData", "")))
    except binascii.Error:
        return 400, "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data"
    if size > USER_DATA_LIMIT:
        return 400, "InvalidParameterValue", "User data is limited to 16384 bytes"
    return None
