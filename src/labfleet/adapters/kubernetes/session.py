"""Keeps what stands on one cluster in memory: a list, then a watch, then a list again.

A watch is a hint, a list is the truth. Each stream goes on from its last version after a cut, lists
anew when the server has forgotten it, when nothing comes for long, and every few minutes anyway.
All times are machine seconds; only what leaves here has fleet time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

from labfleet.adapters.kubernetes.calls import OWNERS, Api, Bounds, What, too_many
from labfleet.adapters.kubernetes.ends import Ends
from labfleet.adapters.kubernetes.objects import OwnerObject
from labfleet.adapters.kubernetes.pods import Book, PodSeen, ended, node_seen, number, pod_seen
from labfleet.adapters.kubernetes.standing import RUNS, Job, Standing, standing
from labfleet.interfaces.cluster_view import ClusterView, NodeView
from labfleet.kernel import backoff, errors
from labfleet.kernel.clock import Clock
from labfleet.kernel.rng import Rng
from labfleet.resources.cluster_access import KubernetesAccess

CUTS = 5
"""Watches in a row that break without bringing anything, after which a list is made."""
LASTED = 10.0
"""A watch that held so long begins a new count of failures."""
JOBS_AT_ONCE = 20
"""Most Jobs that one view asks whether they are over; the rest is asked by the next."""
OWNERS_EVERY = 10.0
OWNERS_DENIED = 600.0
"""What may not be listed is not asked for again for so long."""


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class Stream:
    """One list and its watch: nodes, or the pods of one namespace or of all."""

    def __init__(self, what: What, namespace: str | None, book: Book[Any, Any]) -> None:
        self.what = what
        self.namespace = namespace
        self.book = book
        self.version = ""
        self.api: Api | None = None
        self.heard: float | None = None
        self.problem: errors.LabfleetError | None = None

    def take(self, change: str, each: Any) -> None:
        """Take one event; a version never goes back, whatever order events come in."""
        self.book.changed(change, each)
        version = each.metadata.resourceVersion
        if version and (not number(version) or number(version) >= number(self.version)):
            self.version = version
        self.heard, self.problem = _loop_time(), None


class Session:
    """What is known of one cluster; `run` keeps it up to date until it is cancelled.

    `connect` reads the access anew and makes an Api: it is called once, and again after a 401.
    """

    def __init__(
        self,
        access: KubernetesAccess,
        connect: Callable[[], Awaitable[Api]],
        clock: Clock,
        rng: Rng,
        bounds: Bounds,
    ) -> None:
        self.access = access
        self.used = _loop_time()
        self._connect = connect
        self._clock = clock
        self._rng = rng
        self._bounds = bounds
        self._ends = Ends(RUNS)
        self._api: Api | None = None
        self._connecting = asyncio.Lock()
        self._moved = asyncio.Event()
        self._nodes: Book[Any, NodeView] = Book(node_seen)
        self._scaled = clock.rate != 1.0
        made = pod_seen(access.run_label, clock.now, scaled=self._scaled)
        self._pods: list[Book[Any, PodSeen]] = []
        self._streams = [Stream(What.NODES, None, self._nodes)]
        for namespace in access.namespaces or (None,):
            book: Book[Any, PodSeen] = Book(made, self._removed)
            self._pods.append(book)
            self._streams.append(Stream(What.PODS, namespace, book))
        self._owners: dict[tuple[str, str, str], str] = {}
        self._owners_asked: set[tuple[str, str, str]] = set()
        self._owners_next = self._owners_due = self._jobs_next = 0.0
        self._closed: OrderedDict[str, None] = OrderedDict()

    # --- keeping up -----------------------------------------------------------------------

    async def run(self) -> None:
        """Follow all streams until cancelled; leaves no connection behind."""
        try:
            async with asyncio.TaskGroup() as group:
                for each in self._streams:
                    group.create_task(self._follow(each), name=f"watch {each.what}")
        finally:
            await self._drop(self._api)

    async def api(self) -> Api:
        """Return the connection; made when there is none."""
        async with self._connecting:
            if self._api is None:
                self._api = await self._connect()
            return self._api

    async def refused(self, api: Api) -> None:
        """Take note of a 401: the next call is made by what the secrets say then."""
        await self._drop(api)

    async def _drop(self, api: Api | None) -> None:
        """Close a connection; the next call makes another from what the secrets say then."""
        if api is not None and api is self._api:
            self._api = None
            with contextlib.suppress(errors.LabfleetError, OSError):
                await api.close()

    async def _follow(self, stream: Stream) -> None:
        failures, renewed = 0, False
        while True:
            begun = _loop_time()
            try:
                await self._list(stream)
                begun, renewed = _loop_time(), False
                await self._watch(stream)
            except errors.Denied as problem:
                if problem.reason == "Unauthorized":
                    await self._drop(stream.api)
                    if not renewed:  # at once: most often the token was replaced
                        renewed = True
                        continue
                stream.problem = problem
            except errors.LabfleetError as problem:
                stream.problem = problem
            except ValueError as odd:
                message = f"list {stream.what}: {odd}"
                stream.problem = errors.Protocol(message)
            self._moved.set()
            failures = 1 if _loop_time() - begun >= LASTED else failures + 1
            asked = 0.0 if stream.problem is None else stream.problem.retry_after or 0.0
            await asyncio.sleep(max(asked, backoff.delay(failures, self._rng.random())))

    async def _list(self, stream: Stream) -> None:
        stream.api = await self.api()
        found = await stream.api.listed(stream.what, stream.namespace)
        if not found.version:
            raise errors.Protocol(f"list {stream.what}: the list has no resourceVersion")
        stream.book.listed(found.objects, found.version)
        stream.version = found.version
        self._count()
        stream.heard, stream.problem = _loop_time(), None
        self._moved.set()

    async def _watch(self, stream: Stream) -> None:
        """Watch until a list is due; go on from the last version after a cut."""
        due, cuts = _loop_time() + self._bounds.relist, 0
        while (begun := _loop_time()) < due:
            try:
                await self._events(stream, due)
            except TimeoutError:
                return  # silent, or the list is due
            except errors.TooOld:
                return
            except errors.Temporary:
                if cuts >= CUTS:
                    raise
            moved = stream.heard is not None and stream.heard > begun
            cuts = 0 if moved or _loop_time() - begun >= LASTED else cuts + 1
            if cuts > CUTS:
                return
            pause = self._bounds.spacing * (1 if cuts == 0 else cuts)
            await asyncio.sleep(max(0.0, begun + pause - _loop_time()))

    async def _events(self, stream: Stream, due: float) -> None:
        """Take the events of one watch; TimeoutError when it is silent for too long."""
        silent = self._bounds.silent
        api = stream.api = await self.api()
        async with (
            asyncio.timeout_at(min(_loop_time() + silent, due)) as patience,
            contextlib.aclosing(
                api.watched(stream.what, stream.namespace, stream.version)
            ) as changes,
        ):
            async for change, each in changes:
                stream.take(change, each)
                self._count()
                patience.reschedule(min(_loop_time() + silent, due))

    def _count(self) -> None:
        most = self._bounds.objects
        if sum(len(each) for each in self._pods) > most:
            raise too_many(What.PODS, most)
        if len(self._nodes) > most:
            raise too_many(What.NODES, most)

    def _removed(self, pod: PodSeen) -> None:
        """Remember how a pod ended that is not there any more."""
        run = self.run_of(pod)
        if run:
            self._ends.note(run, ended(pod, self._clock.now(), scaled=self._scaled))

    # --- what is known --------------------------------------------------------------------

    async def view(self) -> ClusterView:
        """Return what stands there; Temporary when that is too old, Denied or Invalid as it is."""
        age = await self.age()
        await self._ask_owners()
        now = self._clock.now()
        found = self._standing()
        if await self._ask_jobs(found.unsure):
            found = self._standing()
        return ClusterView(
            at=now - timedelta(seconds=age * self._clock.rate),
            nodes=tuple(sorted(self._nodes.all(), key=lambda each: each.name)),
            runs=found.runs,
            over=found.over,
            others=found.others,
        )

    def _standing(self) -> Standing:
        pods, nodes, now = self.pods(), self._nodes.all(), self._clock.now()
        return standing(pods, nodes, self._ends, self.run_of, now, closed=self._closed)

    async def age(self) -> float:
        """Return how old the oldest part of what is known is; raises when it is too old to be told."""
        self.used = _loop_time()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._bounds.first):
                while any(each.heard is None and each.problem is None for each in self._streams):
                    self._moved.clear()
                    await self._moved.wait()
        ages = [self._age(each) for each in self._streams]
        return max(ages)

    def _age(self, stream: Stream) -> float:
        problem = stream.problem
        if isinstance(problem, errors.Invalid):
            raise again(problem)
        if stream.heard is None:
            if problem is not None:
                raise again(problem)
            raise errors.Unreachable(f"{stream.what} were not listed yet", reason="Timeout")
        age = _loop_time() - stream.heard
        if problem is not None and age > self._bounds.down:
            raise again(problem)
        if age > self._bounds.old:
            message = f"nothing was heard of {stream.what} for {age:.0f} s"
            raise errors.Temporary(message, reason="Stale")
        return age

    def pods(self) -> list[PodSeen]:
        """Return all pods that are there."""
        return [pod for book in self._pods for pod in book.all()]

    def run_of(self, pod: PodSeen) -> str:
        """Return the run that a pod or its owner names; empty when none does."""
        if pod.own or pod.owner is None:
            return pod.own
        return self._owners.get((pod.namespace, *pod.owner), "")

    async def _ask_owners(self) -> None:
        """List the labelled owners of pods when there are pods whose owner was not looked at yet.

        A chart often labels its Deployment and not the pods of it. Without the right to list them,
        only pods' own labels count.
        """
        wanted = {
            (pod.namespace, *pod.owner)
            for pod in self.pods()
            if not pod.own and pod.owner is not None
        }
        now = _loop_time()
        known = wanted <= self._owners_asked and now < self._owners_due
        if known or now < self._owners_next:
            return
        self._owners_next, self._owners_due = now + OWNERS_EVERY, now + self._bounds.relist
        found: dict[tuple[str, str, str], str] = {}
        label = self.access.run_label
        try:
            api = await self.api()
            for what, kind in OWNERS.items():
                if not any(each[1] == kind for each in wanted):
                    continue
                for namespace in self.access.namespaces or (None,):
                    for each in (await api.listed(what, namespace, label=label)).objects:
                        meta = each.metadata
                        found[meta.namespace, kind, meta.name] = (meta.labels or {}).get(label, "")
        except (errors.Denied, errors.Gone, errors.Invalid):
            self._owners_next = now + OWNERS_DENIED
            return
        except errors.LabfleetError:
            return
        self._owners, self._owners_asked = found, wanted

    async def _ask_jobs(self, unsure: Sequence[Job]) -> bool:
        """Ask Jobs whether they will try again; return whether any of them will not.

        Without the right to list them, the longest back-off is waited out.
        """
        if not unsure or _loop_time() < self._jobs_next:
            return False
        before = len(self._closed)
        try:
            api = await self.api()
            for job in unsure[:JOBS_AT_ONCE]:
                found = (await api.listed(What.JOBS, job.namespace, name=job.name)).objects
                same = [each for each in found if each.metadata.uid == job.uid]
                if not same or any(_job_over(each) for each in same):
                    self._closed[job.uid] = None
        except (errors.Denied, errors.Gone, errors.Invalid):
            self._jobs_next = _loop_time() + OWNERS_DENIED
        except errors.LabfleetError:
            pass  # the next view asks again
        more = len(self._closed) > before
        while len(self._closed) > RUNS:
            self._closed.popitem(last=False)
        return more


def _job_over(job: OwnerObject) -> bool:
    facts = () if job.status is None else job.status.conditions or ()
    return any(each.type in {"Complete", "Failed"} and each.status == "True" for each in facts)


def again(problem: errors.LabfleetError) -> errors.LabfleetError:
    """Return a new error that says the same in the words of a view: Temporary, Denied or Invalid.

    New, because one raised twice would gather tracebacks.
    """
    if isinstance(problem, errors.Gone):
        message = f"{problem.message}: there is no API server of Kubernetes"
        return errors.Invalid(message, reason="NoSuchApi")
    if isinstance(problem, errors.TooOld):
        return errors.Temporary(problem.message, reason="Expired")
    made = type(problem)(problem.message, reason=problem.reason)
    made.retry_after = problem.retry_after
    return made
