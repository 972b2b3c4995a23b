"""Asks whether a run may start, waits in the queue, takes an approval up, reports life and end.

Programs that start runs need this in every language: `labfleet admit` and `labfleet.client` are the
two faces of it. Every wait has a bound (facts/upstream.md#gate).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from labfleet.cli.kit import client, exits, human_units, paths
from labfleet.kernel import backoff
from labfleet.resources.meta import DEFAULT_NAMESPACE, Key
from labfleet.resources.simulation import HOLDING, SimulationPhase

T = TypeVar("T")
HELD_SECONDS = 30
"""How long the server holds one question about a run that waits."""
PATIENCE = HELD_SECONDS + 15.0
"""How long a reply may take (seconds): longer than a question is held."""
QUICK = 10.0
"""How long the reply to a report may take (seconds)."""
ASK_SECONDS = 60.0
"""How long a request that nobody decided is asked again, under its key."""
TAKE_UP_SECONDS = 60.0
END_SECONDS = 120.0
"""How long the end of a run is reported again while nobody answers."""
WITHDRAW_SECONDS = 10.0
STILL = 300.0
"""After so many seconds without news it is said again that a run waits."""
OVER = frozenset({"NotApproved", "NotFound"})
"""Reasons by which the server says that a run holds nothing any more."""


class Denied(exits.Failure):
    """The server said no; `reasons` are its words, `record` names the simulation that keeps them."""

    def __init__(
        self,
        message: str,
        reasons: tuple[str, ...],
        record: str,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> None:
        said = f" ({', '.join(reasons)})" if reasons else ""
        super().__init__(
            exits.REFUSED,
            human_units.printable(f"not admitted: {message}{said}"),
            hint=f"What would let it in: {_explain(record, namespace)}.",
            reason="NotAdmitted",
            problem={"reasons": list(reasons), "record": record},
        )
        self.message = message
        self.reasons = reasons
        self.record = record


@dataclass(frozen=True)
class Approved:
    """A run that may start: its id, and the server's first reply."""

    id: str
    reply: dict[str, Any]


@dataclass
class Gate:
    """One server's gate; `say` takes sentences about what is going on.

    Runs are asked for in `namespace`, which holds their cluster and their queue.
    """

    api: client.Client
    say: Callable[[str], None]
    namespace: str = DEFAULT_NAMESPACE

    def __post_init__(self) -> None:
        self._quick = replace(self.api, seconds=QUICK, attempts=1, keep=False, heard=None)

    @property
    def _query(self) -> dict[str, str]:
        """Return what names the namespace; nothing for the one that is meant without."""
        return {} if self.namespace == DEFAULT_NAMESPACE else {"namespace": self.namespace}

    def enter(
        self, body: dict[str, Any], *, key: str | None = None, seconds: float = 3600.0
    ) -> Approved:
        """Return the run once it is admitted and taken up; at most `seconds` in the queue.

        `body` is what `/request_run` takes. Denied when it may not start, another Failure when
        that is not known or the wait was too long; what waits or was approved is withdrawn then.
        """
        reply = self._asked(body, key or self.api.environment.key())
        record = str(reply.get("record") or reply.get("simulation_id") or "")
        message = str(reply.get("message") or "")
        if reply.get("decision") == "denied":
            raise Denied(message, _words(reply.get("reasons")), record, self.namespace)
        try:
            if reply.get("decision") == "queued":
                self._queued(record, message, reply.get("position"), seconds)
            self._taken_up(record)
        except BaseException:
            self.withdraw(record)
            raise
        return Approved(record, reply)

    def beat(self, name: str) -> None:
        """Report once that a run lives; Failure with a reason of OVER when it holds nothing."""
        self._quick.post("/simulation_heartbeat", {"simulation_id": name}, **self._query)

    def end(
        self,
        name: str,
        status: str,
        observed: dict[str, Any] | None = None,
        *,
        seconds: float = END_SECONDS,
    ) -> str:
        """Report how a run ended and return how the server has it; Failure when it did not hear."""
        body: dict[str, Any] = {"simulation_id": name, "status": status}
        if observed:
            body["observed"] = observed
        reply = self._retried(
            lambda: self._quick.post("/simulation_complete", body, **self._query),
            seconds,
            f"the end of {name} is reported again.",
        )
        return str(reply.get("status") or status) if isinstance(reply, dict) else status

    # --- asking -----------------------------------------------------------------------------

    def _asked(self, body: dict[str, Any], key: str) -> dict[str, Any]:
        def ask() -> Any:
            asked = self.api.call("POST", "/request_run", query=self._query, body=body, key=key)
            return asked.body

        # No answer at all has been tried often enough by the client; busy and undecided pass.
        reply = self._retried(ask, ASK_SECONDS, "asking again.", only=frozenset({429, 503}))
        if not isinstance(reply, dict) or reply.get("decision") not in _DECISIONS:
            raise self.api.unexpected("a decision was expected")
        return reply

    def _queued(self, name: str, message: str, position: Any, seconds: float) -> None:
        """Return once the run is approved; Failure when it cannot be any more, or not in time."""
        environment = self.api.environment
        began = told_at = environment.monotonic()
        place = f", position {position}" if isinstance(position, int) else ""
        self._tell(f"{name} waits in the queue{place}: {message}")
        while True:
            now = environment.monotonic()
            left = began + seconds - now
            if left <= 0:
                longest = human_units.span(seconds)
                raise exits.Failure(
                    exits.TIMEOUT,
                    human_units.printable(f"{name} was not admitted within {longest}: {message}"),
                    hint="The request is withdrawn. Wait longer with --timeout.",
                )
            found = self._seen(name, min(HELD_SECONDS, math.ceil(left)), left)
            phase, said = _phase(found), _message(found) or message
            if phase in HOLDING:
                waited = human_units.span(environment.monotonic() - began)
                self._tell(f"{name} is approved after {waited}")
                return
            if phase != SimulationPhase.QUEUED:
                raise _not_queued(name, phase, found, self.namespace)
            if said != message or now - told_at >= STILL:
                self._tell(f"{name} still waits ({human_units.span(now - began)}): {said}")
                message, told_at = said, now
            if environment.monotonic() - now < 1.0:
                environment.sleep(1.0)  # the server does not hold the question

    def _seen(self, name: str, held: int, seconds: float) -> Any:
        path = f"/api/v1/simulations/{client.part(name)}"
        return self._retried(
            lambda: self.api.get(path, namespace=self.namespace, wait=held),
            seconds,
            "still waiting.",
        )

    def _taken_up(self, name: str) -> None:
        try:
            self._retried(lambda: self.beat(name), TAKE_UP_SECONDS, "asking again.")
        except exits.Failure as failure:
            if failure.reason not in OVER:
                raise
            hint = f"See {_explain(name, self.namespace)}; ask again under another --key."
            cause = f"the approval is over before it was taken up: {failure.cause}"
            raise exits.Failure(exits.UNMET, cause, hint=hint, reason=failure.reason) from None

    def withdraw(self, name: str) -> None:
        """Report a run that does not start as cancelled; what is not heard lapses by itself."""
        try:
            self.end(name, "cancelled", seconds=WITHDRAW_SECONDS)
        except exits.Failure as failure:
            if failure.reason not in OVER:
                self._tell(f"{name} could not be withdrawn, it lapses by itself: {failure.cause}")

    def _retried(
        self,
        call: Callable[[], T],
        seconds: float,
        then: str,
        *,
        only: frozenset[int] | None = None,
    ) -> T:
        """Return what a call gives, tried again for so many seconds while nobody answers."""
        environment = self.api.environment
        until, tries = environment.monotonic() + seconds, 0
        while True:
            try:
                return call()
            except exits.Failure as failure:
                passes = only is None or failure.problem.get("status") in only
                left = until - environment.monotonic()
                if failure.code != exits.UNREACHABLE or not passes or left <= 0:
                    raise
                if not tries:
                    self._tell(f"{failure.cause}; {then}")
            tries += 1
            pause = backoff.delay(tries, environment.rng(), base=1.0, limit=10.0)
            environment.sleep(min(left, pause))

    def _tell(self, text: str) -> None:
        self.say(human_units.printable(text))


_DECISIONS = frozenset({"approved", "denied", "queued"})


def _explain(name: str, namespace: str) -> str:
    """Return the command that explains a run."""
    return f"labfleet explain simulation/{Key('', namespace, name).argument}"


def _not_queued(name: str, phase: str, found: Any, namespace: str) -> exits.Failure:
    """Return the failure for a run that left the queue without an approval."""
    if phase == SimulationPhase.DENIED:
        decision = paths.simple(found, "status.decision") or {}
        candidates = decision.get("candidates") or [{}]
        reasons = _words(candidates[0].get("reasons")) or _words([decision.get("reason")])
        return Denied(str(decision.get("message") or ""), reasons, name, namespace)
    note = str(paths.simple(found, "status.note") or "")
    cause = f"{name} is {phase or 'gone'} and waits no longer" + (f": {note}" if note else "")
    return exits.Failure(
        exits.UNMET, human_units.printable(cause), hint=f"See {_explain(name, namespace)}."
    )


def _phase(found: Any) -> str:
    return str(paths.simple(found, "status.phase") or "")


def _message(found: Any) -> str:
    return str(paths.simple(found, "status.decision.message") or "")


def _words(found: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in found or () if each)
