"""The SDK's clients as we set them up."""

from __future__ import annotations

from datetime import UTC, datetime

from botocore.utils import parse_timestamp
from hypothesis import given
from hypothesis import strategies as st

from labfleet.adapters.aws import clients


@given(
    st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2100, 1, 1)),
    st.sampled_from(["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.000Z", "%a, %d %b %Y %H:%M:%S GMT"]),
)
def test_instants_of_replies_are_what_the_sdk_reads(at: datetime, form: str) -> None:
    """The quick way and the SDK's own way give one instant for every form AWS writes."""
    text = at.replace(microsecond=0).strftime(form)
    # private _instant: the rule for one time stamp is compared with botocore's own, value by value
    assert clients._instant(text) == parse_timestamp(text)
    number = int(at.replace(tzinfo=UTC).timestamp())
    assert clients._instant(number) == parse_timestamp(number)
