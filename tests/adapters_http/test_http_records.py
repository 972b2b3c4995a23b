"""Where TLS records end, followed beside OpenSSL, whatever pieces they come in."""

from __future__ import annotations

import itertools
import ssl

from hypothesis import given
from hypothesis import strategies as st

from labfleet.adapters.http.tls import Channel, context

RECORD = st.integers(0, 600).map(
    lambda size: b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes(size)
)


@given(records=st.lists(RECORD, max_size=5), cuts=st.lists(st.integers(0, 3000), max_size=8))
def test_the_end_of_a_record_is_known_in_any_pieces(records: list[bytes], cuts: list[int]) -> None:
    """After each piece the channel knows whether a record is half there."""
    data = b"".join(records)
    ends = {0}
    for record in records:
        ends.add(max(ends) + len(record))
    channel = Channel(context("off", None), "h", None)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for begin, end in itertools.pairwise(places):
        channel.take(data[begin:end])
        assert channel.between == (end in ends)


def test_what_is_followed_is_what_a_server_sends() -> None:
    """A client's own records, as OpenSSL writes them, end where they end."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = context("off", None).wrap_bio(incoming, outgoing, server_hostname="h")
    try:
        hello.do_handshake()
    except ssl.SSLWantReadError:
        record = outgoing.read()
    channel = Channel(context("off", None), "h", None)
    channel.take(record[:-1])
    assert not channel.between
    channel.take(record[-1:])
    assert channel.between
