"""Giving a session to another person, as routes."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar.params import QueryParameter

from labfleet.api.core.route import Name, Routes, Uid
from labfleet.resources.definition import Variable
from labfleet.resources.meta import Record
from labfleet.resources.session import EMAIL, VARIABLES, Session, Value
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import handing

Namespace = Annotated[str, QueryParameter(name="namespace", description="Namespace of the object.")]
Email = Annotated[str, msgspec.Meta(max_length=254, pattern=EMAIL)]
Values = Annotated[dict[Variable, Value], msgspec.Meta(max_length=VARIABLES)]


class HandOverRequest(Record, frozen=True, kw_only=True):
    """To whom a session is given.

    to: Name of the person, as their token carries it; your own takes an offer back.
    student_email: That person's e-mail address; who offers a session leaves it to who takes it.
    environment: Values of variables for that person; likewise.
    """

    to: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    student_email: Email | None = None
    environment: Values = {}


class TakeRequest(Record, frozen=True, kw_only=True):
    """What whoever takes a session says of themselves.

    student_email: Their e-mail address.
    environment: Values of variables; a definition may need some.
    """

    student_email: Email | None = None
    environment: Values = {}


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
    made = Routes()

    @made.post(
        "/api/v1/sessions/{name:str}/hand-over", "Give a session to another person",
        tag="sessions", needs=("hand-over", "Session"),
    )  # fmt: skip
    async def hand_over_session(
        who: Caller,
        name: Name,
        sent: HandOverRequest,
        namespace: Namespace = "default",
        uid: Uid = None,
    ) -> Session:
        """Offer one's own session to somebody, who may take it; operators and bookers give at once."""
        return await handing.hand_over(
            services,
            who,
            name,
            namespace,
            to=sent.to,
            email=sent.student_email,
            environment=sent.environment,
            uid=uid,
        )

    @made.post(
        "/api/v1/sessions/{name:str}/take", "Take a session that is offered to you",
        tag="sessions", needs=("hand-over", "Session"),
    )  # fmt: skip
    async def take_session(
        who: Caller,
        name: Name,
        sent: TakeRequest,
        namespace: Namespace = "default",
        uid: Uid = None,
    ) -> Session:
        """Make an offered session one's own; it counts as one's own from then on."""
        return await handing.take(
            services,
            who,
            name,
            namespace,
            email=sent.student_email,
            environment=sent.environment,
            uid=uid,
        )

    return made
