"""Kept labs in both databases: compressed, addressed by their content, counted against bounds.

Not objects: no event, no revision, no fence. The first content of a uid stays, so what a process
that had lost its lead brings late changes nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any, Protocol

from labfleet.interfaces import store
from labfleet.kernel import errors
from labfleet.stores.database import Database, Rows, Run
from labfleet.stores.instants import from_micros, to_micros

LARGEST = 32 << 20
"""Bytes of a content when it is read again: nobody's bound of one lab is above it."""


class _Kept(Protocol):
    """What a store has in which labs are kept."""

    _db: Database
    _sql: dict[str, str]

    async def _write(self, work: Callable[[Run], Any]) -> Any: ...

    async def _rows(self, name: str, *parameters: object) -> Rows: ...

    async def _aside(self, work: Callable[[], bytes]) -> bytes: ...


class KeptLabs(_Kept, Protocol):
    """The part of a store that keeps labs."""

    async def keep_lab(self, lab: store.NewKeptLab, bounds: store.KeptBounds) -> store.KeptLab:
        if len(lab.content) > min(bounds.lab, LARGEST):
            message = f"the lab has {len(lab.content)} bytes, more than the {bounds.lab} of one lab"
            raise errors.Invalid(message, reason="KeptLabTooLarge")
        data = await self._aside(partial(zlib.compress, lab.content))
        found: store.KeptLab = await self._write(partial(_keep, self._sql, lab, data, bounds))
        return found

    async def kept_lab(self, uid: str) -> store.KeptLab | None:
        rows = await self._rows("kept_lab", uid)
        return _lab(rows[0]) if rows else None

    async def kept_labs(
        self, *, after: str = "", limit: int = store.PAGE_LIMIT
    ) -> tuple[store.KeptLab, ...]:
        rows = await self._rows("kept_labs", after, min(max(limit, 1), store.PAGE_LIMIT))
        return tuple(_lab(row) for row in rows)

    async def kept_content(self, uid: str) -> bytes | None:
        rows = await self._rows("kept_content", uid)
        return await self._aside(partial(_plain, bytes(rows[0][0]))) if rows else None

    async def drop_kept_lab(self, uid: str) -> bool:
        return bool(await self._write(partial(_drop, self._sql, "drop_kept_lab", (uid,))))

    async def drop_old_kept_labs(self, before: datetime, *, limit: int) -> int:
        asked = (to_micros(before), min(max(limit, 1), store.PAGE_LIMIT))
        gone: int = await self._write(partial(_drop, self._sql, "drop_old_kept_labs", asked))
        return gone


def _keep(
    sql: dict[str, str], lab: store.NewKeptLab, data: bytes, bounds: store.KeptBounds, run: Run
) -> store.KeptLab:
    # Locked: two who keep at once would both find room, and a content could go under a new row.
    run(sql["lock"], ())
    known = run(sql["kept_lab"], (lab.uid,))
    if known:
        return _lab(known[0])
    digest = sha256(lab.content).hexdigest()
    ((mine, everybody, there),) = run(sql["kept_sizes"], (lab.owner, digest))
    if int(mine) + len(data) > bounds.owner:
        message = f"{len(data)} bytes do not fit: {mine} of the {bounds.owner} bytes of one owner are taken"
        raise errors.QuotaExceeded(message, reason="KeptOwnerFull")
    if not there and int(everybody) + len(data) > bounds.all:
        message = f"{len(data)} bytes do not fit: {everybody} of {bounds.all} bytes are taken"
        raise errors.QuotaExceeded(message, reason="KeptStoreFull")
    row = (lab.uid, lab.owner, digest, len(data), to_micros(lab.kept_at), to_micros(lab.until))
    run(sql["save_kept_content"], (digest, len(data), data))
    run(sql["save_kept_lab"], row)
    return _lab(row)


def _drop(sql: dict[str, str], name: str, parameters: tuple[Any, ...], run: Run) -> int:
    run(sql["lock"], ())
    gone = run(sql[name], parameters)
    for (digest,) in gone:
        run(sql["drop_kept_content"], (digest,))
    return len(gone)


def _lab(row: tuple[Any, ...]) -> store.KeptLab:
    uid, owner, digest, stored, kept_at, until = row
    return store.KeptLab(uid, owner, digest, stored, from_micros(kept_at), from_micros(until))


def _plain(data: bytes) -> bytes:
    reader = zlib.decompressobj()
    plain = reader.decompress(data, LARGEST)
    if not reader.eof:
        message = "a kept lab cannot be read again: its end is missing"
        raise errors.Permanent(message, reason="StoreCorrupt")
    return plain
