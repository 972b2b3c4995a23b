"""An API server by lightkube: the only module that knows it and httpx2, imported when first needed.

lightkube brings kubeconfigs, tokens that are replaced, pages and the decoding of events. Of our own is
all that bounds it: bytes of a page and of an event, deadlines, no content encoding, and the end of a
watch, which lightkube would answer with a new one at once, as often as a broken server asks for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

import httpx2
import msgspec
from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.config.client_adapter import verify_cluster
from lightkube.config.models import Cluster, User
from lightkube.core.exceptions import ConfigError, NotReadyError
from lightkube.core.resource import ApiInfo, GlobalResource, NamespacedResourceG, ResourceDef

from labfleet.adapters.kubernetes import objects
from labfleet.adapters.kubernetes.access import Reached
from labfleet.adapters.kubernetes.calls import Bounds, Change, Listed, What, too_many
from labfleet.kernel import errors

_READ = ["global_list", "global_watch", "list", "watch"]
REFUSAL_BYTES = 65536
WORDS = 300
"""Most characters of a server's words in an error of ours."""
CONNECTIONS = 64
"""One for each namespace, one for nodes, and some for lists."""


def _info(group: str, version: str, kind: str, plural: str) -> ApiInfo:
    return ApiInfo(resource=ResourceDef(group, version, kind), plural=plural, verbs=_READ)


class _Pod(NamespacedResourceG, objects.PodObject, frozen=True, kw_only=True):
    _api_info = _info("", "v1", "Pod", "pods")


class _Node(GlobalResource, objects.NodeObject, frozen=True, kw_only=True):
    _api_info = _info("", "v1", "Node", "nodes")


class _Deployment(NamespacedResourceG, objects.OwnerObject, frozen=True, kw_only=True):
    _api_info = _info("apps", "v1", "Deployment", "deployments")


class _StatefulSet(NamespacedResourceG, objects.OwnerObject, frozen=True, kw_only=True):
    _api_info = _info("apps", "v1", "StatefulSet", "statefulsets")


class _DaemonSet(NamespacedResourceG, objects.OwnerObject, frozen=True, kw_only=True):
    _api_info = _info("apps", "v1", "DaemonSet", "daemonsets")


class _ReplicaSet(NamespacedResourceG, objects.OwnerObject, frozen=True, kw_only=True):
    _api_info = _info("apps", "v1", "ReplicaSet", "replicasets")


class _Job(NamespacedResourceG, objects.OwnerObject, frozen=True, kw_only=True):
    _api_info = _info("batch", "v1", "Job", "jobs")


class _PodFigures(NamespacedResourceG, objects.PodFigures, frozen=True, kw_only=True):
    _api_info = _info("metrics.k8s.io", "v1beta1", "PodMetrics", "pods")


class _NodeFigures(GlobalResource, objects.NodeFigures, frozen=True, kw_only=True):
    _api_info = _info("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes")


RESOURCES: dict[What, Any] = {
    What.PODS: _Pod,
    What.NODES: _Node,
    What.DEPLOYMENTS: _Deployment,
    What.STATEFUL_SETS: _StatefulSet,
    What.DAEMON_SETS: _DaemonSet,
    What.REPLICA_SETS: _ReplicaSet,
    What.JOBS: _Job,
    What.POD_FIGURES: _PodFigures,
    What.NODE_FIGURES: _NodeFigures,
}


class Ended(Exception):
    """The server ended a watch in order."""


class _BoundedBody(httpx2.AsyncByteStream):
    """A body of at most so many bytes: of a list in all, of a watch in each line."""

    def __init__(self, inner: Any, most: int, *, watch: bool) -> None:
        self._inner = inner
        self._most = most
        self._watch = watch

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._inner:
            place = piece.rfind(b"\n") if self._watch else -1
            size = size + len(piece) if place < 0 else len(piece) - place - 1
            if size > self._most or len(piece) > self._most:
                raise errors.Protocol(f"the reply is larger than {self._most} bytes")
            yield piece
        if self._watch:
            raise Ended

    async def aclose(self) -> None:
        await self._inner.aclose()


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Another transport, whose replies are bounded and whose watches ask for bookmarks."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, bounds: Bounds) -> None:
        self._inner = inner
        self._bounds = bounds

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Exchange one request."""
        watch = request.url.params.get("watch") == "true"
        if watch:
            # lightkube cannot ask for them; without one a quiet watch looks like a dead one.
            request.url = request.url.copy_merge_params({"allowWatchBookmarks": "true"})
        request.headers["Accept-Encoding"] = "identity"
        reply = await self._inner.handle_async_request(request)
        if reply.headers.get("Content-Encoding", "identity") != "identity":
            await reply.aclose()
            raise errors.Protocol("the reply is compressed, although nobody asked for it")
        if reply.status_code >= 400:
            return await _kept(reply)
        watch = watch and reply.status_code == 200
        most = self._bounds.event_bytes if watch else self._bounds.page_bytes
        return httpx2.Response(
            reply.status_code,
            headers=reply.headers,
            stream=_BoundedBody(reply.stream, most, watch=watch),
            extensions=reply.extensions,
        )

    async def aclose(self) -> None:
        """Drop the connections."""
        await self._inner.aclose()


async def _kept(reply: httpx2.Response) -> httpx2.Response:
    """Return a refusal with the beginning of its body, which lightkube does not read.

    As plain text: of JSON that is no Status lightkube would make an error of another kind.
    """
    said = b""
    with contextlib.suppress(httpx2.HTTPError):
        async for piece in reply.stream:  # type: ignore[union-attr]
            said += piece[: REFUSAL_BYTES - len(said)]
            if len(said) == REFUSAL_BYTES:
                break
    await reply.aclose()
    headers = {"Content-Type": "text/plain"}
    if "Retry-After" in reply.headers:
        headers["Retry-After"] = reply.headers["Retry-After"]
    return httpx2.Response(reply.status_code, headers=headers, content=said)


class LightkubeApi:
    """An API server over lightkube; `transport` stands for the network in tests."""

    def __init__(
        self,
        reached: Reached,
        bounds: Bounds,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Take a context whose exec plugin was run; Invalid when it cannot be used."""
        self._bounds = bounds
        self._busy, self._closing = 0, False
        whole = {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": dict(reached.cluster)}],
            "users": [{"name": "it", "user": dict(reached.user)}],
        }
        try:
            config = KubeConfig.from_dict(whole).get()
            assert config is not None  # noqa: S101 - the context above is current
            assert config.user is not None  # noqa: S101 - and names a user
            if transport is None:
                # No environment decides which proxy or which certificates are used.
                trust = verify_cluster(
                    config.cluster, config.user, config.abs_file, trust_env=False
                )
                limits = httpx2.Limits(
                    max_connections=CONNECTIONS, max_keepalive_connections=8, keepalive_expiry=75
                )
                transport = httpx2.AsyncHTTPTransport(verify=trust, trust_env=False, limits=limits)
            # Of this one only the address and the token are used: TLS is the transport's.
            bare = User(
                token=config.user.token,
                token_file=config.user.token_file,
                username=config.user.username,
                password=config.user.password,
            )
            address = Cluster(server=config.cluster.server, insecure=True)
            self._client = AsyncClient(
                config=config._replace(cluster=address, user=bare),
                timeout=httpx2.Timeout(bounds.call, connect=bounds.connect),
                transport=BoundedTransport(transport, bounds),
                trust_env=False,
            )
        except (ConfigError, httpx2.InvalidURL, OSError, ValueError, msgspec.MsgspecError):
            # Their texts may quote the kubeconfig.
            message = "the kubeconfig's certificates, key or names cannot be used"
            raise errors.Invalid(message, reason="BadKubeconfig") from None

    async def listed(
        self,
        what: What,
        namespace: str | None,
        *,
        label: str | None = None,
        name: str | None = None,
    ) -> Listed:
        """Return all objects, as the interface says."""
        bounds, found = self._bounds, list[Any]()
        with translated(f"list {what}"):
            async with self._call(), asyncio.timeout(bounds.list):
                client: Any = self._client
                pages = client.list(
                    RESOURCES[what],
                    chunk_size=bounds.page,
                    labels=None if label is None else {label: None},
                    fields=None if name is None else {"metadata.name": name},
                    **_place(what, namespace),
                )
                async for each in pages:
                    found.append(each)
                    if len(found) > bounds.objects:
                        raise too_many(what, bounds.objects)
                try:
                    version = pages.resourceVersion
                except NotReadyError:
                    version = ""
        return Listed(found, version)

    async def watched(
        self, what: What, namespace: str | None, version: str
    ) -> AsyncGenerator[Change, None]:
        """Yield changes, as the interface says."""
        with translated(f"watch {what}"):
            client: Any = self._client
            changes = client.watch(
                RESOURCES[what],
                server_timeout=self._bounds.watch,
                resource_version=version,
                **_place(what, namespace),
            )
            # lightkube's generator closes its reply when it is closed itself.
            async with self._call(), contextlib.aclosing(changes):
                with contextlib.suppress(Ended):
                    async for change in changes:
                        yield change

    async def close(self) -> None:
        """Make no call any more, and drop the connections when the last one is over."""
        self._closing = True
        await self._close_unused()

    async def _close_unused(self) -> None:
        if self._closing and not self._busy:
            await self._client.close()

    @contextlib.asynccontextmanager
    async def _call(self) -> AsyncIterator[None]:
        """Count a call: httpx2 never closes a connection that is made while it closes all others."""
        if self._closing:
            raise errors.Temporary("the connection was given up", reason="Closed")
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            await self._close_unused()


def _place(what: What, namespace: str | None) -> dict[str, str]:
    if what in {What.NODES, What.NODE_FIGURES}:
        return {}
    return {"namespace": "*" if namespace is None else namespace}


@contextlib.contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn what lightkube, httpx2 and msgspec raise into errors of the kernel."""
    try:
        yield
    except errors.LabfleetError as problem:
        problem.message = f"{where}: {problem.message}"
        problem.args = (problem.message,)
        raise
    except httpx2.HTTPStatusError as problem:
        raise _refused(problem, where) from None
    except (httpx2.TimeoutException, TimeoutError):
        raise errors.Unreachable(f"{where}: no answer in time", reason="Timeout") from None
    except httpx2.ConnectError as problem:
        if "CERTIFICATE_VERIFY_FAILED" in str(problem):
            message = f"{where}: the API server's certificate is not trusted"
            raise errors.Denied(message, reason="Certificate") from None
        raise errors.Unreachable(f"{where}: no connection", reason="Refused") from None
    except httpx2.RemoteProtocolError as problem:
        cut = "without sending" in str(problem) or "closed" in str(problem)
        if cut:
            raise errors.Temporary(f"{where}: the connection broke", reason="Closed") from None
        raise errors.Protocol(f"{where}: the reply is not HTTP") from None
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, RuntimeError, OSError):
        # RuntimeError: httpx2 says so of a client that was closed meanwhile.
        raise errors.Temporary(f"{where}: the connection broke", reason="Closed") from None
    except ConfigError:
        raise errors.Denied(f"{where}: the token cannot be read", reason="NoToken") from None
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, AttributeError):
        raise errors.Protocol(f"{where}: the reply is none of Kubernetes") from None


def _refused(problem: httpx2.HTTPStatusError, where: str) -> errors.LabfleetError:
    """Return the error of a status that is not 2xx, or of an ERROR event."""
    code, words, after = _said(problem)
    message = f"{where}: {code} {words}".rstrip()
    match code:
        case 401:
            return errors.Denied(message, reason="Unauthorized")
        case 403:
            return errors.Denied(message, reason="Forbidden")
        case 404:
            return errors.Gone(message)
        case 410:
            return errors.TooOld(message)
        case 429:
            return errors.Throttled(message, retry_after=after)
        case _ if code >= 500:
            return errors.Temporary(message, reason="ServerError", retry_after=after)
        case _ if 400 <= code < 500:
            return errors.Invalid(message, reason="Refused")
    return errors.Protocol(f"{where}: unexpected status {code}")


def _said(problem: httpx2.HTTPStatusError) -> tuple[int, str, float | None]:
    """Return the status, the server's own words and after how many seconds it wants to be asked."""
    reply: httpx2.Response | None = problem.response
    if reply is None:  # an event of a watch has no reply of its own
        status = problem.status if isinstance(problem, ApiError) else None
        if status is None:
            return 0, "", None
        return status.code or 0, (status.message or status.reason or "")[:WORDS], None
    words = ""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = msgspec.json.decode(reply.content)
        if isinstance(body, dict) and isinstance(body.get("message"), str):
            words = body["message"][:WORDS]
    after = reply.headers.get("Retry-After", "")
    seconds = min(float(after), 3600.0) if after.isascii() and after.isdigit() else None
    return reply.status_code, words, seconds
