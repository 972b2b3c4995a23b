"""What people do with pools: their size, a pause, their end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labfleet.kernel.quantity import count
from labfleet.resources.kinds import KINDS
from labfleet.resources.pool import Pool
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices, paid_rows, rules
from labfleet.service.verbs import lifecycle, objects, settings_verbs
from labfleet.web.acts import edits, fields, hits
from labfleet.web.acts.act import Act, Doing, same
from labfleet.web.acts.fields import Field

MOST = 1000
_GONE = WorkerPhase.TERMINATED
_LAST = ("on them go on to their end", "on them goes on to its end")


def _workers(services: ServiceContext, pool: Pool) -> list[Worker]:
    found = services.cache.by(indices.WORKERS_OF_POOL, pool.key.path)
    return sorted(
        (each for each in found if each.status.phase is not _GONE), key=lambda each: each.name
    )


def _bounds(pool: Pool) -> tuple[int, int]:
    return pool.spec.scaling.min_workers, pool.spec.scaling.max_workers


def _scale_fields(_s: ServiceContext, _c: Caller, pool: Any) -> tuple[Field, ...]:
    least, most = _bounds(pool)
    return (
        Field(name="least", label="Least number of workers", show="number", required=True,
              least=0, most=MOST, first=str(least)),
        Field(name="greatest", label="Greatest number of workers", show="number", required=True,
              most=MOST, first=str(most)),
        edits.version(pool),
    )  # fmt: skip


def _spec(doing: Doing) -> dict[str, Any]:
    least, most = _bounds(doing.obj)
    asked = (doing.values.get("least"), doing.values.get("greatest"))
    return {"scaling": {"minWorkers": least if asked[0] is None else asked[0],
                        "maxWorkers": most if asked[1] is None else asked[1]}}  # fmt: skip


async def _scale(doing: Doing) -> str:
    await edits.write(doing, "Pool", _spec(doing))
    scaling = _spec(doing)["scaling"]
    return f"Done: {doing.name} has {scaling['minWorkers']} to {count(scaling['maxWorkers'], 'worker')}."


async def _scale_follows(doing: Doing) -> Sequence[str]:
    scaling, pool = _spec(doing)["scaling"], doing.obj
    await edits.tried(doing, [doing.manifest("Pool", {"scaling": scaling})])
    have = len(_workers(doing.services, pool))
    least, most = scaling["minWorkers"], scaling["maxWorkers"]
    told = [f"It has {count(have, 'worker')} now."]
    if least > have:
        told.append(f"{count(least - have, 'more worker')} are made for it soon.")
    if most < have:
        told.append(f"{count(have - most, 'worker')} beyond that go as they become empty.")
    each = _price(doing.services, pool)
    if each is None:
        return [*told, "What an hour of a worker costs is unknown: neither template nor list says."]
    bounds = f"at least ${each * least:.2f} and at most ${each * most:.2f}"
    return [*told, f"An hour costs {bounds}, at ${each:.2f} a worker."]


def _price(services: ServiceContext, pool: Pool) -> float | None:
    template = services.cache.get(Template, pool.spec.template, pool.namespace)
    if template is None:
        return None
    return paid_rows.hourly_usd(template.spec.machine, None, services.prices)


def _scale_back(doing: Doing) -> str:
    least, most = _bounds(doing.obj)
    return same(doing, "pools", "scale", least=str(least), greatest=str(most))


def _scalable(_s: ServiceContext, _c: Caller, pool: Pool) -> str | None:
    return "" if pool.spec.desired == "Ready" else "it is being emptied"


def _pause(*, paused: bool) -> Any:
    async def does(doing: Doing) -> str:
        await settings_verbs.pause_pool(
            doing.services, doing.caller, *doing.where, paused=paused, reason=doing.text("reason")
        )
        what = "rests" if paused else "goes on"
        return f"Done: every automatic action on {doing.name} and its workers {what}."

    return does


async def _pause_follows(doing: Doing) -> Sequence[str]:
    have = len(_workers(doing.services, doing.obj))
    return [
        "It makes and ends no worker, and stops none that nobody uses; what people ask for goes on.",
        f"It has {count(have, 'worker')}; what they cost goes on.",
    ]


async def _resume_follows(_doing: Doing) -> Sequence[str]:
    return ["It grows and shrinks by itself again; what waited for that is made up for at once."]


def _emptied(doing: Doing) -> list[str]:
    workers = _workers(doing.services, doing.obj)
    here = [each for worker in workers for each in hits.on_worker(doing.services, worker)]
    named = ", ".join(each.name for each in workers[: hits.NAMED])
    more = f" and {len(workers) - hits.NAMED} more" if len(workers) > hits.NAMED else ""
    told = f"{count(len(workers), 'worker')}: {named}{more}." if workers else "It has no worker."
    return [each for each in (told, hits.sessions(here, *_LAST)) if each]


def _desire(desired: str, said: str) -> Any:
    async def does(doing: Doing) -> str:
        await edits.write(doing, "Pool", {"desired": desired})
        return f"Asked: {doing.name} {said}."

    return does


async def _drain_follows(doing: Doing) -> Sequence[str]:
    await edits.tried(doing, [doing.manifest("Pool", {"desired": "Draining"})])
    return ["No session is placed on its workers any more.", *_emptied(doing)]


async def _delete(doing: Doing) -> str:
    done = await objects.delete(
        doing.services, doing.caller, KINDS["Pool"], *doing.where, uid=doing.uid
    )
    if done.metadata.finalizers:
        return f"Asked: {doing.name} goes once its workers are gone."
    return f"Done: {doing.name} is gone."


async def _delete_follows(doing: Doing) -> Sequence[str]:
    await rules.delete(doing.services, doing.caller, doing.obj)
    return ["Its workers are emptied and ended for good, then it goes.", *_emptied(doing)]


ACTS = (
    Act(
        verb="scale", kind="Pool", title="Scale", right="update", routes="patchPool", does=_scale,
        follows=_scale_follows, fields=_scale_fields, opens=_scalable, undo=_scale_back,
        line=lambda doing: doing.applied("Pool", _spec(doing)),
        back="Scale it to what it was; workers that went are made anew.",
    ),
    Act(
        verb="pause", kind="Pool", title="Pause", right="pause", routes="pausePool", many=True,
        does=_pause(paused=True), follows=_pause_follows,
        fields=lambda _s, _c, _o: (fields.reason(lifecycle.TEXT_LIMIT),),
        opens=lambda _s, _c, pool: None if pool.spec.paused else "",
        line=lambda doing: doing.line(
            f"pause --pool {doing.argument}", doing.option("--reason", "reason"), target=""
        ),
        back="Resume lets it go on.", undo=lambda doing: same(doing, "pools", "resume"),
    ),
    Act(
        verb="resume", kind="Pool", title="Resume", right="pause", routes="resumePool", many=True,
        does=_pause(paused=False), follows=_resume_follows,
        fields=lambda _s, _c, _o: (fields.reason(lifecycle.TEXT_LIMIT),),
        opens=lambda _s, _c, pool: "" if pool.spec.paused else None,
        line=lambda doing: doing.line(
            f"resume --pool {doing.argument}", doing.option("--reason", "reason"), target=""
        ),
        back="Pause stops it again.", undo=lambda doing: same(doing, "pools", "pause"),
    ),
    Act(
        verb="drain", kind="Pool", title="Drain", right="update", routes="patchPool",
        does=_desire("Draining", "is emptied"), follows=_drain_follows, grave=True,
        opens=lambda _s, _c, pool: "" if pool.spec.desired == "Ready" else None,
        line=lambda doing: doing.applied("Pool", {"desired": "Draining"}),
        back="Cancel drain fills it again.", undo=lambda doing: same(doing, "pools", "cancel-drain"),
    ),
    Act(
        verb="cancel-drain", kind="Pool", title="Cancel drain", right="update", routes="patchPool",
        does=_desire("Ready", "hosts sessions again"),
        opens=lambda _s, _c, pool: "" if pool.spec.desired == "Draining" else None,
        line=lambda doing: doing.applied("Pool", {"desired": "Ready"}),
        back="Drain empties it again.", undo=lambda doing: same(doing, "pools", "drain"),
    ),
    Act(
        verb="delete", kind="Pool", title="Delete", right="delete", routes="deletePool",
        does=_delete, follows=_delete_follows, grave=True, goes=lambda _doing: "/pools",
        line=lambda doing: doing.line("delete pool"),
    ),
)  # fmt: skip
