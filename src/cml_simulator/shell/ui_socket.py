"""The websocket `/ws/ui`: the part of RFC 6455's server side that it needs.

The first message of a client holds its token; then the client gets the messages of `core.stream`
a few times a second. No task runs for it: a timer of the loop writes to the transport.
"""

import asyncio
import base64
import hashlib
import json
import struct
from collections.abc import Iterator
from typing import Any, cast

from cml_simulator.core import stream
from cml_simulator.core.fleet import Fleet
from cml_simulator.core.inputs import Clock
from cml_simulator.core.model import User
from cml_simulator.core.server import BootStage, Server, boot_stage

PATH = "/ws/ui"
TICK = 0.1
LOGIN_WITHIN = 100
"""Ticks until a client that has not logged in is cut off."""
FRAME_LIMIT = 32 * 1024
BUFFER_LIMIT = 4 * 1024 * 1024
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
GOING_AWAY, PROTOCOL_ERROR, POLICY = 1001, 1002, 1008


def frame(opcode: int, data: bytes) -> bytes:
    """Return one unmasked, final frame."""
    head = bytes([0x80 | opcode])
    size = len(data)
    if size < 126:
        return head + bytes([size]) + data
    if size < 65_536:
        return head + bytes([126]) + struct.pack(">H", size) + data
    return head + bytes([127]) + struct.pack(">Q", size) + data


def frames(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    """Take a client's whole frames out of a buffer; ValueError for an invalid frame."""
    while len(buffer) >= 2:
        opcode, final, masked = buffer[0] & 15, buffer[0] & 0x80, buffer[1] & 0x80
        size, at = buffer[1] & 127, 2
        if not final or not masked:
            raise ValueError("only masked frames in one piece")
        if size == 126:
            if len(buffer) < 4:
                return
            size, at = int.from_bytes(buffer[2:4]), 4
        elif size == 127:
            raise ValueError("the frame is too long")
        if size > FRAME_LIMIT:
            raise ValueError("the frame is too long")
        if len(buffer) < at + 4 + size:
            return
        mask = bytes(buffer[at : at + 4])
        data = bytes(byte ^ mask[n % 4] for n, byte in enumerate(buffer[at + 4 : at + 4 + size]))
        del buffer[: at + 4 + size]
        yield opcode, data


def accept(key: bytes) -> bytes:
    """Return the answer to a handshake's key."""
    return base64.b64encode(hashlib.sha1(key + _MAGIC, usedforsecurity=False).digest())


class UiSocket(asyncio.Protocol):
    """One listener."""

    def __init__(self, fleet: Fleet, clock: Clock, **_kwargs: Any) -> None:
        self._fleet, self._clock = fleet, clock
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._open = False
        self._user: User | None = None
        self._last = 0.0
        self._silent = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        _ = exc
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._open:
            self._shake_hands()
            return
        try:
            for opcode, body in frames(self._buffer):
                self._take(opcode, body)
        except ValueError:
            self._close(PROTOCOL_ERROR)

    # -------------------------------------------------------------- handshake and login

    def _shake_hands(self) -> None:
        head, end, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        if not end or self._transport is None:
            return
        lines = head.split(b"\r\n")
        fields = dict(line.partition(b":")[::2] for line in lines[1:])
        headers = {name.strip().lower(): value.strip() for name, value in fields.items()}
        path = lines[0].split(b" ")[1].split(b"?")[0]
        key = headers.get(b"sec-websocket-key")
        if path != PATH.encode() or key is None:
            status = b"404 Not Found" if path != PATH.encode() else b"400 Bad Request"
            self._transport.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")
            self._transport.close()
            return
        self._transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept(key) + b"\r\n\r\n"
        )
        self._open, self._buffer = True, bytearray(rest)
        self._last = self._clock()
        self._tick()

    def _server(self) -> Server | None:
        if self._transport is None:
            return None
        server = self._fleet.at_address(self._transport.get_extra_info("sockname")[0])
        if server is None or boot_stage(server, self._clock()) is not BootStage.READY:
            return None
        return server

    def _take(self, opcode: int, body: bytes) -> None:
        if opcode == CLOSE:
            self._close(int.from_bytes(body[:2]) or GOING_AWAY)
        elif opcode == PING:
            self._write(PONG, body)
        elif opcode == TEXT and self._user is None:
            self._log_in(body)

    def _log_in(self, body: bytes) -> None:
        server = self._server()
        try:
            token = json.loads(body)["token"]
        except (ValueError, KeyError, TypeError):
            token = None
        if server is not None and isinstance(token, str):
            self._user = stream.user_of(server, token, self._clock())
        if self._user is None:
            self._close(POLICY)

    # -------------------------------------------------------------- sending

    def _tick(self) -> None:
        server = self._server()
        if self._transport is None:
            return
        if server is None:
            self._close(GOING_AWAY)
            return
        if self._user is not None:
            now = self._clock()
            for message in stream.since(server, self._user, self._last, now):
                self._write(TEXT, json.dumps(message).encode())
            self._last = now
        else:
            self._silent += 1
            if self._silent > LOGIN_WITHIN:
                self._close(POLICY)
                return
        self._timer = asyncio.get_running_loop().call_later(TICK, self._tick)

    def _write(self, opcode: int, data: bytes) -> None:
        if self._transport is None:
            return
        if self._transport.get_write_buffer_size() > BUFFER_LIMIT:
            self._transport.abort()
            return
        self._transport.write(frame(opcode, data))

    def _close(self, code: int) -> None:
        if self._transport is not None:
            self._write(CLOSE, struct.pack(">H", code))
            self._transport.close()
        if self._timer is not None:
            self._timer.cancel()
