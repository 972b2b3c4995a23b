"""Carries a call to a world and its answer back: latency and faults.

The effect happens in the world, at its own time. A caller that is killed, paused or timed out
meanwhile does not undo it. So processes that are dead already can still have late effects.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector
from labfleet.rehearsal.time.loop import Loop, Process, current
from labfleet.rehearsal.time.virtual_host import SeededRng

T = TypeVar("T")
Repeat = Literal["read", "safe", "once"]
"""read: changes nothing. safe: doing it twice is doing it once. once: neither."""

CHANGES = 8.0
"""How much likelier a change is struck than a read: changes are few, and they matter more."""
BEFORE = ("call_refused", "call_throttle", "call_error", "call_lost_before")


@dataclass(frozen=True, slots=True)
class CallProfile:
    """How one far side answers: seconds of latency, and how its client sees trouble.

    `patience` is the client's own total deadline in seconds. `trouble` tells whether a server
    error on a mutation is Ambiguous to the client (EC2: yes; CML: only for an import).
    """

    name: str
    low: float
    high: float
    patience: float
    trouble: Literal["ambiguous", "temporary"]


class Wire:
    """One far side's wire, shared by all callers."""

    def __init__(
        self,
        loop: Loop,
        rng: SeededRng,
        injector: FaultInjector,
        call_profile: CallProfile,
        rate: float = 1.0,
    ) -> None:
        self._rate = rate
        self._loop = loop
        self._rng = rng
        self._injector = injector
        self._call_profile = call_profile
        self._world = contextvars.Context()
        self.calls = 0
        self.on_answer: Callable[[Process], None] | None = None
        """Called when the answer to a change reaches a process, before it can do anything."""

    async def ask(
        self, what: str, effect: Callable[[], T], *, repeat: Repeat = "read", down: bool = False
    ) -> T:
        """Return what the effect returns, or raise the client's error for the fault."""
        self.calls += 1
        call_profile, rng, injector = self._call_profile, self._rng, self._injector
        there = rng.between(call_profile.low, call_profile.high) * self._rate
        if down:
            await asyncio.sleep(min(call_profile.patience, 5.0))
            raise errors.Unreachable(f"{what}: no connection", reason="Timeout")
        times = 1.0 if repeat == "read" else CHANGES
        struck = injector.first(BEFORE, times)
        if struck is not None:
            await self._struck(what, struck, repeat)
        if injector.strikes("call_slow"):
            there += rng.between(1.0, call_profile.patience)
        answer: asyncio.Future[Any] = self._loop.create_future()
        lost = injector.strikes("call_lost_after", times)
        if injector.strikes("call_late", times):
            there += rng.between(call_profile.patience, call_profile.patience * 1.2)
            lost = True
        self._loop.call_later(
            there,
            self._arrive,
            effect,
            answer,
            lost,
            repeat == "read",
            current(),
            context=self._world,
        )
        if not lost:
            return await answer  # type: ignore[no-any-return]
        await asyncio.sleep(call_profile.patience)
        raise self._unknown(what, repeat)

    async def _struck(self, what: str, word: str, repeat: Repeat) -> None:
        call_profile = self._call_profile
        if word == "call_refused":
            await asyncio.sleep(call_profile.low)
            raise errors.Unreachable(f"{what}: connection refused", reason="NoRoute")
        if word == "call_throttle":
            await asyncio.sleep(call_profile.low)
            raise errors.Throttled(f"{what}: too many requests", retry_after=2.0)
        if word == "call_error":
            await asyncio.sleep(call_profile.high)
            sure = repeat == "read" or (repeat == "safe" and call_profile.trouble == "temporary")
            kind = errors.Temporary if sure else errors.Ambiguous
            raise kind(f"{what}: 500 server trouble", reason="ServerTrouble")
        await asyncio.sleep(call_profile.patience)
        raise self._unknown(what, repeat)

    def _unknown(self, what: str, repeat: Repeat) -> errors.LabfleetError:
        """Return the error of a client that got no answer at all."""
        sure = repeat == "read" or (repeat == "safe" and self._call_profile.trouble == "temporary")
        kind = errors.Temporary if sure else errors.Ambiguous
        return kind(f"{what}: no answer in {self._call_profile.patience:g} s", reason="Timeout")

    def _arrive(
        self,
        effect: Callable[[], T],
        answer: asyncio.Future[T],
        lost: bool,  # noqa: FBT001 - call_later passes by place
        read: bool,  # noqa: FBT001
        caller: Process | None,
    ) -> None:
        if lost and read:
            return
        try:
            result = effect()
        except errors.LabfleetError as problem:
            if not lost and not answer.done():
                answer.set_exception(problem)
            return
        if lost or answer.done():
            return
        if read:
            answer.set_result(result)
        else:
            back = self._rng.between(self._call_profile.low, self._call_profile.high) * self._rate
            self._loop.call_later(back, self._deliver, answer, result, caller, context=self._world)

    def _deliver(self, answer: asyncio.Future[T], result: T, caller: Process | None) -> None:
        if answer.done():
            return
        answer.set_result(result)
        if self.on_answer is not None and caller is not None:
            self.on_answer(caller)
