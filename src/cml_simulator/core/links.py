"""A link's conditioning and its packet capture.

The packets are invented: each is an echo request, at a rate that depends on the link alone.
"""

import struct
from typing import Any

from cml_simulator.core.errors import CmlError, not_found, refused
from cml_simulator.core.fields import Reader
from cml_simulator.core.inputs import share
from cml_simulator.core.model import Capture, Link, State
from cml_simulator.core.server import Server

CONDITIONS: dict[str, tuple[int, int]] = {
    "bandwidth": (0, 10_000_000),
    "latency": (0, 10_000),
    "limit": (0, 10_000),
    "gap": (0, 10_000),
    "jitter": (0, 10_000),
}
PERCENTS = (
    "delay_corr",
    "loss",
    "loss_corr",
    "duplicate",
    "duplicate_corr",
    "reorder_prob",
    "reorder_corr",
    "corrupt_prob",
    "corrupt_corr",
)
CONDITION_KEYS = (*CONDITIONS, *PERCENTS, "enabled")
ENCAPS = (
    "ethernet",
    "frelay",
    "ppp",
    "ppp_hdlc",
    "pppoe",
    "c_hdlc",
    "slip",
    "ax25",
    "ieee802_11",
    "radiotap",
)
CAPTURE_KEYS = ("maxpackets", "maxtime", "bpfilter", "encap")
PACKETS_MOST = 1_000_000
SHOWN_MOST = 10_000
"""How many packets a file or a list holds at most."""


def condition(row: dict[str, Any], read: Reader) -> dict[str, Any]:
    """Return checked conditioning values: kbit/s, ms, percent."""
    found: dict[str, Any] = {
        key: read.whole(row, key, *bounds) for key, bounds in CONDITIONS.items() if key in row
    }
    found |= {key: read.number(row, key, 0, 100) for key in PERCENTS if key in row}
    enabled = row.get("enabled", True)
    if not isinstance(enabled, bool):
        read.fail("enabled", "bool_type", "Input should be a valid boolean")
    return {**{key: value for key, value in found.items() if value is not None}, "enabled": enabled}


def condition_view(link: Link) -> dict[str, Any]:
    """Return the conditioning with what is applied now; an empty object if there is none."""
    if not link.conditioning:
        return {}
    asked = {key: value for key, value in link.conditioning.items() if key != "enabled"}
    return {**link.conditioning, "operational": asked if link.conditioning.get("enabled") else None}


def start_capture(
    server: Server, link: Link, asked: dict[str, Any], state: State, now: float
) -> Capture:
    """Begin a capture on a link that runs; one at a time."""
    if state is not State.STARTED:
        raise refused(f"Link is not started: {link.id}")
    if asked.get("maxpackets") is None and asked.get("maxtime") is None:
        raise refused("Either maxpackets or maxtime is needed.")
    if link.capture is not None and running(link.capture, now):
        raise CmlError(409, f"A packet capture is running already: {link.id}")
    drop(server, link)
    key = link.id if server.config.profile.whole_links else server.new_id()
    link.capture = server.captures[key] = Capture(key, link.id, asked, now)
    return link.capture


def drop(server: Server, link: Link) -> None:
    """Forget a link's capture."""
    if link.capture is not None:
        server.captures.pop(link.capture.key, None)
        link.capture = None


def stop_capture(link: Link, now: float) -> None:
    """End a capture; a second time changes nothing."""
    if link.capture is None:
        raise not_found("Packet capture", link.id)
    if running(link.capture, now):
        link.capture.stopped_at = now


def _end(capture: Capture) -> float:
    most = capture.asked.get("maxtime")
    return capture.started_at + most if most is not None else float("inf")


def running(capture: Capture, now: float) -> bool:
    """Whether a capture still takes packets."""
    most = capture.asked.get("maxpackets")
    over = capture.stopped_at is not None or now >= _end(capture)
    return not over and (most is None or packets(capture, now) < most)


def packets(capture: Capture, now: float) -> int:
    """Return how many packets there are."""
    until = min(now, _end(capture), capture.stopped_at or now)
    rate = 0.5 + 4 * share(capture.link_id)
    most = capture.asked.get("maxpackets") or PACKETS_MOST
    return max(0, min(int((until - capture.started_at) * rate), most))


def status(server: Server, link: Link, now: float) -> dict[str, Any]:
    """Return the state of a link's capture; empty if there is none."""
    capture = link.capture
    if capture is None:
        return {}
    config = dict.fromkeys(CAPTURE_KEYS) | capture.asked
    return {
        "config": {**config, "link_capture_key": capture.key},
        "starttime": server.stamp(capture.started_at),
        "packetscaptured": packets(capture, now),
    }


def find(server: Server, key: str) -> Capture:
    """Return a capture by its key, or 404."""
    capture = server.captures.get(key)
    if capture is None:
        raise not_found("Packet capture", key)
    return capture


def _times(capture: Capture, now: float) -> list[float]:
    rate = 0.5 + 4 * share(capture.link_id)
    count = min(packets(capture, now), SHOWN_MOST)
    return [capture.started_at + (n + 1) / rate for n in range(count)]


def summaries(capture: Capture, now: float) -> list[dict[str, Any]]:
    """Return one line for each packet."""
    return [
        {
            "no": str(n + 1),
            "time": f"{at - capture.started_at:.6f}",
            "source": "192.168.255.2",
            "destination": "192.168.255.1",
            "length": str(len(FRAME)),
            "protocol": "ICMP",
            "info": f"Echo (ping) request  id=0x0001, seq={n + 1}",
        }
        for n, at in enumerate(_times(capture, now))
    ]


def detail(capture: Capture, number: str, now: float) -> list[dict[str, Any]]:
    """Return one packet's protocols, or 404."""
    count = min(packets(capture, now), SHOWN_MOST)
    if not (
        number.isascii() and number.isdigit() and len(number) < 10 and 0 < int(number) <= count
    ):
        raise not_found("Packet", number)
    names = (("eth", "Ethernet II"), ("ip", "Internet Protocol Version 4"), ("icmp", "ICMP"))
    return [{"proto": [{"name": n, "formatted_name": text, "field": []} for n, text in names]}]


FRAME = (
    bytes.fromhex("525400000001525400000002 0800".replace(" ", ""))
    + bytes.fromhex("4500001c00010000400100 00c0a8ff02c0a8ff01".replace(" ", ""))
    + bytes.fromhex("0800f7fd00010001")
)
_HEAD = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)


def file(capture: Capture, now: float) -> bytes:
    """Return the packets as a pcap file."""
    parts = [_HEAD]
    for at in _times(capture, now):
        seconds, rest = divmod(max(at, 0.0), 1.0)
        size = len(FRAME)
        parts.append(struct.pack("<IIII", int(seconds) & 0xFFFFFFFF, int(rest * 1e6), size, size))
        parts.append(FRAME)
    return b"".join(parts)
