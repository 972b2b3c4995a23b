"""One statement per route: path, parameters, body, reply, refusals, roles and limit.

A route is a function with one line above it:

    @routes.post("/api/v1/workers/{name:str}/drain", "Empty a worker by a deadline",
                 needs=("drain", "Worker"))
    async def drain_worker(who: Caller, name: Name, sent: DrainRequest) -> Worker: ...

Its name is the operationId (`drainWorker`), `sent` is its body, its return type the reply, the
rest are the parameters, which Litestar reads. `served` makes the handler and `openapi` the
document from this one statement, and the tests of roles and limits walk it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from litestar import Request
from litestar.params import HeaderParameter, PathParameter, QueryParameter

from labfleet.kernel import errors
from labfleet.resources.meta import Record
from labfleet.service.core import access
from labfleet.service.core.roles import FOR_TOKENS, Role

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
EVENT_STREAM = "text/event-stream"
OWN_API = "/api/v1/"
SMALL = 64 * 1024
"""Bytes of a body where the route says nothing else."""
FEW = 16 * 1024
"""Values of a body where the route says nothing else."""
T = TypeVar("T")
Ask = Request[Any, Any, Any]
Run = Callable[..., Awaitable[Any]]
F = TypeVar("F", bound=Run)
Key = Annotated[
    str | None,
    HeaderParameter(name="Idempotency-Key", description="Same key and body, same answer."),
]
Name = Annotated[str, PathParameter(description="Name of the object.")]
Uid = Annotated[
    str | None,
    QueryParameter(name="uid", description="Only the object of this uid: names are given again."),
]
_GIVEN = frozenset({"who", "sent", "request"})
"""Arguments that are not parameters of the request: the caller, the body, the request itself."""
_known_types: dict[tuple[Any, ...], Mapping[str, Any]] = {}


class Nothing(Record, frozen=True, kw_only=True):
    """The body of a verb without parameters: none, or an empty object."""


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """A reply that differs from its route's: another status, or headers of its own."""

    value: T
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Text:
    """A reply that is no JSON."""

    content: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class EventStream:
    """A reply that is a stream: `serve` gets ASGI's receive and send.

    It raises before its first frame what the client shall read as a problem.
    """

    serve: Callable[[Any, Any], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """All that is said of one route.

    `needs` is an action of `access.ACTIONS` and a kind; None lets every token in, `public` asks for
    none. `exact` refuses unknown keys of the body; bodies of programs of several versions are read
    without. `prepare` turns a decoded body into the one that `body` describes. `limit` is the
    largest body in bytes, `values` the most that one may hold. `also` are other statuses of the same
    reply, `refuses` the errors beyond those that follow from the rest (`refusals.statuses`).
    `direct` answers without the framework (`direct`) what has no query: a JSON reply, no parameters
    but headers and a query that may be left out.
    """

    method: str
    path: str
    name: str
    summary: str
    tag: str
    run: Run
    needs: tuple[str, str] | None = None
    public: bool = False
    body: Any = None
    prepare: Callable[[Any], Any] | None = None
    media: tuple[str, ...] = (JSON,)
    exact: bool = True
    required: bool = False
    limit: int = SMALL
    values: int = FEW
    reply: Any = None
    reply_type: str = JSON
    status: int = 200
    also: tuple[int, ...] = ()
    refuses: tuple[type[errors.LabfleetError], ...] = ()
    direct: bool = False

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """Return the function's parameters that come from path, query and headers."""
        hints = _types(self.run)
        return [
            each.replace(annotation=hints[each.name])
            for each in inspect.signature(self.run).parameters.values()
            if each.name not in _GIVEN
        ]

    @property
    def shape(self) -> tuple[Hashable, ...]:
        """Return all that the framework's handler depends on, for `served.framework`."""
        run = self.run
        said = (self.method, self.path, self.name, self.summary, self.tag, self.status)
        defaults = repr((run.__defaults__, run.__kwdefaults__))
        return (*said, run.__code__, *run.__annotations__, defaults)

    @property
    def query(self) -> dict[str, Any]:
        """Return the query's parameters: name -> type."""
        found = {}
        for each in self.parameters:
            said = get_args(each.annotation)
            if f"{{{each.name}:" in self.path or any(
                isinstance(one, HeaderParameter) for one in said
            ):
                continue
            names = [one.name for one in said if isinstance(one, QueryParameter) and one.name]
            found[names[0] if names else each.name] = said[0] if said else each.annotation
        return found

    @property
    def numbers(self) -> tuple[str, ...]:
        """Return the names of the query's parameters that are whole numbers."""
        return tuple(name for name, kind in self.query.items() if kind in (int, int | None))

    @property
    def repeats(self) -> tuple[str, ...]:
        """Return the names of the query's parameters that may be given more than once."""
        return tuple(
            name
            for name, kind in self.query.items()
            if any(get_origin(each) is list for each in (kind, *get_args(kind)))
        )

    @property
    def roles(self) -> tuple[Role, ...]:
        """Return the roles whose tokens may ask; none for a public route, which looks at no token."""
        if self.public:
            return ()
        return tuple(
            role
            for role in FOR_TOKENS
            if self.needs is None or access.may(access.Principal("", role), *self.needs)
        )


class Routes:
    """The routes of one module, in the order in which they are stated."""

    def __init__(self, tag: str = "") -> None:
        self._tag = tag
        self.made: list[Route] = []

    def __iter__(self) -> Iterator[Route]:
        return iter(self.made)

    def get(self, path: str, summary: str, **said: Any) -> Callable[[F], F]:
        """State a reading; `said` are fields of `Route`."""
        return self._stated("GET", path, summary, said)

    def post(self, path: str, summary: str, **said: Any) -> Callable[[F], F]:
        """State a verb or a creation; `said` are fields of `Route`."""
        return self._stated("POST", path, summary, said)

    def put(self, path: str, summary: str, **said: Any) -> Callable[[F], F]:
        """State a replacement; `said` are fields of `Route`."""
        return self._stated("PUT", path, summary, said)

    def patch(self, path: str, summary: str, **said: Any) -> Callable[[F], F]:
        """State a merge patch; `said` are fields of `Route`."""
        said = {"media": (MERGE_PATCH, JSON), **said}
        return self._stated("PATCH", path, summary, said)

    def delete(self, path: str, summary: str, **said: Any) -> Callable[[F], F]:
        """State a deletion; `said` are fields of `Route`."""
        return self._stated("DELETE", path, summary, said)

    def _stated(
        self, method: str, path: str, summary: str, said: dict[str, Any]
    ) -> Callable[[F], F]:
        def stated(run: F) -> F:
            types = _types(run)
            whole = {
                "name": _camel(run.__name__),
                "tag": self._tag,
                "body": types.get("sent"),
                "reply": _reply(types.get("return")),
                **said,
            }
            if whole["reply"] is EventStream:
                whole |= {"reply": str, "reply_type": EVENT_STREAM}
            self.made.append(Route(method=method, path=path, summary=summary, run=run, **whole))
            return run

        return stated


def _types(run: Run) -> Mapping[str, Any]:
    """Return the types of a function's arguments and of what it returns, by name.

    Kept by its code: an application makes its functions anew, and to evaluate their annotations
    took a third of the time of building it. The same code may have got more arguments (filters).
    """
    key = (run.__code__, *run.__annotations__)
    if key not in _known_types:
        _known_types[key] = get_type_hints(run, include_extras=True)
    return _known_types[key]


def _camel(name: str) -> str:
    head, *rest = name.strip("_").split("_")
    return head + "".join(part.title() for part in rest)


def _reply(said: Any) -> Any:
    """Return the type that is replied, of an annotation such as `Reply[Worker]`."""
    return get_args(said)[0] if get_origin(said) is Reply else said
