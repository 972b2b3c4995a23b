"""The journal of mutating calls to the outside world: it answers whether a call took effect.

Each such call has an `Effect` (resources.meta), stored in the status of its object. The
protocol, which a controller follows and this module supports:

1. *Intent.* `open` an effect and save it in the status, in the same commit as the decision.
   Only then `call`. At most one effect is open per object.
2. *Call.* `call` starts only when it certainly ends before the effect's own `expires`, so that
   no call of a former leader is under way after that. The call carries the effect's id as client
   token or marker. A call of at most `CALL_SECONDS` also fits into the lease time left: it is over
   before anybody else leads, whether its effect was saved or not. A longer one, up to
   `OPERATION_SECONDS`, may outlast the lead that began it: its saved effect is a lease of its own
   on this one object, which every later leader waits out.
3. *Outcome.* Success: save the result and clear the effect in one commit. A definite failure
   (Temporary, Permanent, Conflict, Gone): nothing happened; clear it, or keep it and try
   again under the same id. Before a later try, `fits` tells whether a call still ends before
   `expires`; if not, `reopen` it and save that first.
4. *Unknown.* Ambiguous (a time-out included), a crash or a change of leader leave the effect
   open. Whoever finds an open effect that is not `mine` first looks up what the call did. What
   is found may be adopted at once. "Not there" may be believed only when `overdue`: until then
   return `Again`. That a longer call is over is judged by the own monotonic clock, from when this
   process first saw the effect (`noticed`), because two hosts' wall clocks may differ. Then
   `reopen` (same id, so the other side still recognises a late first try) or clear it.

An effect is `mine` when this process opened it and every call made under it failed definitely,
so nothing has happened; the process remembers that in memory. Such an effect needs neither
look-up nor waiting. After a successful call it is no longer `mine`: when the outcome could not
be saved (a conflict), the next step has to look up what the call made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from labfleet.engine.election import Leadership
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.kernel.ids import IdSource
from labfleet.resources.meta import Effect

T = TypeVar("T")

# Machine seconds of a call that has to end within the lease time left: between two renewals a
# leader is sure of 0.9 - 1/4 of its lease, 9.75 s of 15 s.
CALL_SECONDS = 8.0
# Machine seconds of a call under a saved effect: a launch, an import or a licence on a bad day.
OPERATION_SECONDS = 15.0
# Machine seconds by which the wall clocks of two hosts may differ (more is an alert).
SKEW_SECONDS = 300.0
# Machine seconds between a call's deadline and its effect's `expires`: they cover the commit
# before the call, the network after it, and two hosts' clocks that differ a little.
MARGIN_SECONDS = 5.0
# Machine seconds that the last bytes of a dead process may still be in the network.
DEAD_SECONDS = 2.0
MINE_LIMIT = 10_000


class Effects:
    """Opens effects and makes the calls under them."""

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        leadership: Leadership,
        *,
        sole_since: datetime | None = None,
    ) -> None:
        """`sole_since`: since then every earlier process of this role is known to be dead.

        A composition root may know it from a file lock. Calls begun before it end soon after it,
        because their sockets died with their process; their effects need no longer wait.
        """
        self._clock = clock
        self._ids = ids
        self._leadership = leadership
        self._sole_since = sole_since
        self._mine: dict[str, None] = {}
        self._since: dict[tuple[str, int], float] = {}

    def open(
        self,
        kind: str,
        *,
        deadline: float,
        attempt: int = 1,
        parameters: Mapping[str, str] | None = None,
    ) -> Effect:
        """Return a new effect to be saved before its call; `deadline` is machine seconds.

        `parameters` is what is needed to repeat or look up the call; never a secret.
        """
        begun = self._clock.now()
        effect = Effect(
            id=self._ids.uid(),
            kind=kind,
            begun=begun,
            expires=begun + self._span(deadline + MARGIN_SECONDS),
            attempt=attempt,
            parameters=dict(parameters or {}),
        )
        self.noticed(effect)
        self._remember(effect)
        return effect

    def reopen(self, effect: Effect, *, deadline: float) -> Effect:
        """Return the effect for one more try, to be saved before its call.

        Same id and parameters, attempt + 1, new times. Only for an effect that is `mine`, or
        that was looked up, not found, and `overdue`.
        """
        begun = self._clock.now()
        again = msgspec.structs.replace(
            effect,
            begun=begun,
            expires=begun + self._span(deadline + MARGIN_SECONDS),
            attempt=effect.attempt + 1,
        )
        self.noticed(again)
        self._remember(again)
        return again

    def noticed(self, effect: Effect) -> None:
        """Remember since when this process has known of an effect: a standby sees it in its cache.

        Every try under it began before that, so it is over when its time has passed from there.
        """
        self._since.setdefault((effect.id, effect.attempt), self._clock.monotonic())
        while len(self._since) > MINE_LIMIT:
            # Forgetting is safe: what is noticed later is waited for longer.
            del self._since[next(iter(self._since))]

    def overdue(self, effect: Effect) -> bool:
        """Tell whether every call under this effect has certainly ended."""
        now, sole = self._clock.now(), self._sole_since
        if sole is not None and effect.begun < sole and now >= sole + self._span(DEAD_SECONDS):
            return True
        self.noticed(effect)
        if now < effect.expires:
            return False
        lasts = effect.expires - effect.begun
        if lasts <= self._span(CALL_SECONDS + MARGIN_SECONDS):
            return True  # it ended with the lease of the leader that began it
        known = self._clock.monotonic() - self._since[effect.id, effect.attempt]
        return known >= lasts.total_seconds() or now >= effect.expires + self._span(SKEW_SECONDS)

    def known_not_done(self, effect: Effect) -> bool:
        """Tell whether this process opened it and knows that nothing happened under it."""
        return effect.id in self._mine

    def fits(self, effect: Effect, *, deadline: float) -> bool:
        """Tell whether a call of this many machine seconds ends before the effect expires."""
        lasts, call = effect.expires - effect.begun, self._span(deadline)
        since = self._since.get((effect.id, effect.attempt))
        if since is not None:  # also when the wall clock was set back meanwhile
            known = timedelta(seconds=self._clock.monotonic() - since)
            if known + call > lasts:
                return False
        return self._clock.now() + call <= effect.expires

    async def call(self, effect: Effect, make: Callable[[], Awaitable[T]], *, deadline: float) -> T:
        """Make the call and return its answer; `deadline` is machine seconds.

        Raises Temporary (LeaseTooShort, EffectExpired) when the call was not started, Ambiguous
        (TimedOut) when it may have happened, and whatever else `make` raises.
        """
        left, needed = self._leadership.remaining(), min(deadline, CALL_SECONDS)
        if left <= needed:
            message = f"{effect.kind} needs {needed:g} s of the lease, which has {left:.1f} s left"
            raise errors.Temporary(message, reason="LeaseTooShort")
        if not self.fits(effect, deadline=deadline):
            message = f"{effect.kind} has no time left; reopen it and save it before the call"
            raise errors.Temporary(message, reason="EffectExpired")
        known = effect.id in self._mine
        # Only a definite failure brings it back to the effects under which nothing happened.
        self._mine.pop(effect.id, None)
        try:
            async with asyncio.timeout(deadline):
                return await make()
        except TimeoutError:
            message = f"{effect.kind} gave no answer within {deadline:g} s; it may have happened"
            raise errors.Ambiguous(message, reason="TimedOut") from None
        except errors.Ambiguous:
            raise
        except errors.LabfleetError:
            if known:
                self._remember(effect)
            raise

    def _remember(self, effect: Effect) -> None:
        self._mine[effect.id] = None
        while len(self._mine) > MINE_LIMIT:
            # Forgetting is safe: an effect that is not `mine` is looked up.
            del self._mine[next(iter(self._mine))]

    def _span(self, machine: float) -> timedelta:
        return timedelta(seconds=machine * self._clock.rate)
