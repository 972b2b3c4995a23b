"""The API's client: requests with deadlines, bounded retries and idempotency keys.

Repeats a call only when the connection failed or a gateway said 502, 503 or 504, and then
under the same idempotency key, so that a lost reply never makes a second object
(facts/fleet-bugs.md#t31). A command keeps one connection for all its calls.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from labfleet.cli.kit import exits, sse
from labfleet.cli.kit.environment import CommandEnvironment
from labfleet.cli.kit.settings import Settings
from labfleet.kernel import backoff
from labfleet.resources.fleet_settings import NAME
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Key

ATTEMPTS = 4
BODY_LIMIT = 64 << 20
PAGE = 500
PAGES = 400
STREAM_PATIENCE = 45.0
PAUSED_HEADER = "labfleet-paused"
WARNING_HEADER = "labfleet-warning"
_AGAIN = frozenset({502, 503, 504})
_NO_JSON = ("text/calendar", "application/yaml")
"""What is no JSON: a body of such a type is returned as its bytes."""
_KINDS = {row.plural: row for row in KINDS.values()}


@dataclass(frozen=True)
class Reply:
    """Status, decoded body, and how many attempts it took."""

    status: int
    body: Any
    attempts: int = 1


@dataclass
class Client:
    """Speaks to one server; `seconds` bounds each connect and each read.

    Who sets `keep` closes it: the connection then serves every call but streams. `heard` is
    called once, at the first answer.
    """

    settings: Settings
    environment: CommandEnvironment
    seconds: float = 30.0
    attempts: int = ATTEMPTS
    paused: str = ""
    """What is paused, by the server's last reply: replies to operators carry it."""
    warnings: dict[str, None] = field(default_factory=dict)
    """What the server said that will not do what it seems to; each once, in order."""
    keep: bool = False
    heard: Callable[[], None] | None = None
    _kept: http.client.HTTPConnection | None = field(default=None, init=False, repr=False)

    def close(self) -> None:
        """Let go of the connection that was kept."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def get(self, path: str, **query: Any) -> Any:
        """Return the decoded body of a read."""
        return self.call("GET", path, query=query).body

    def post(self, path: str, body: Any, **query: Any) -> Any:
        """Return the decoded body of a POST under a fresh idempotency key."""
        return self.call("POST", path, query=query, body=body).body

    def call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
        key: str | None = None,
    ) -> Reply:
        """Do one call, repeated within bounds; Failure for anything but 2xx.

        `key` is the idempotency key of a call that a later one shall repeat.
        """
        headers = self._headers()
        if method != "GET":
            headers["Idempotency-Key"] = key or self.environment.key()
        content = None
        if body is not None:
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
            headers["Content-Type"] = (
                "application/merge-patch+json" if method == "PATCH" else "application/json"
            )
        target = self._target(path, query)
        for attempt in range(1, self.attempts + 1):
            last = attempt == self.attempts
            try:
                status, answered, raw = self._once(method, target, headers, content)
            except (OSError, http.client.HTTPException) as error:
                if last or isinstance(error, ssl.SSLCertVerificationError):
                    raise self.unreachable(error) from None
                self._wait(attempt, None)
                continue
            if status in _AGAIN and not last:
                self._wait(attempt, answered.get("retry-after"))
                continue
            try:
                return self._reply(status, answered, raw, attempt)
            except exits.Failure as failure:
                self._advise(failure, status, path, query, body)
                raise
        raise exits.Failure(exits.UNREACHABLE, "no attempt was made")

    def items(
        self, plural: str, *, limit: int | None = None, **query: Any
    ) -> tuple[list[Any], str, bool]:
        """Return objects of every page up to `limit`, the list's cursor, and whether more exist."""
        found: list[Any] = []
        cursor = ""
        after: str | None = None
        for _ in range(PAGES):
            size = PAGE if limit is None else min(PAGE, limit - len(found))
            page = self.get(f"/api/v1/{plural}", **query, limit=size, cursor=after)
            if not isinstance(page, dict) or not isinstance(page.get("items"), list):
                raise self.unexpected("a list was expected")
            found.extend(page["items"])
            cursor = cursor or str(page.get("cursor") or "")
            after = page.get("next")
            if not after or (limit is not None and len(found) >= limit):
                break
        return found, cursor, bool(after)

    def stream(self, path: str, *, last_id: str | None, **query: Any) -> Iterator[sse.Message]:
        """Yield messages until the connection ends; OSError or HTTPException when it breaks."""
        headers = {**self._headers(), "Accept": "text/event-stream"}
        if last_id:
            headers["Last-Event-ID"] = last_id
        connection = self._connection(STREAM_PATIENCE)
        try:
            connection.request("GET", self._target(path, query), headers=headers)
            answer = connection.getresponse()
            if self.heard is not None:
                self._told(answer)
            if answer.status != 200:
                raw = answer.read(BODY_LIMIT)
                if answer.status in _AGAIN:
                    raise ConnectionError(f"the server answered {answer.status}")
                self._reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, raw, 1)
                raise self.unexpected(f"status {answer.status} for a stream")
            yield from sse.messages(answer)
        finally:
            connection.close()

    def unreachable(self, error: BaseException) -> exits.Failure:
        """Return the failure for a server that gave no answer."""
        cause = f"no answer from {self.settings.url} ({self.settings.source}): {_named(error)}"
        hint = "Is the server running (labfleet server, labfleet demo)? Another one: --url."
        if isinstance(error, ssl.SSLCertVerificationError):
            hint = "Give the certificate authority that signed it: --ca-file."
        return exits.Failure(exits.UNREACHABLE, cause, hint=hint)

    def unexpected(self, what: str) -> exits.Failure:
        """Return the failure for an answer that is not this API's."""
        hint = "Does the address point to a Labfleet server?"
        return exits.Failure(exits.ERROR, f"{self.settings.url} answered oddly: {what}", hint=hint)

    def _once(
        self, method: str, target: str, headers: dict[str, str], content: bytes | None
    ) -> tuple[int, dict[str, str], bytes]:
        connection, reused = self._kept, self._kept is not None
        if connection is None:
            connection = self._connection(self.seconds)
        self._kept = None
        done = False
        try:
            try:
                connection.request(method, target, body=content, headers=headers)
                answer = connection.getresponse()
            except (ConnectionError, http.client.BadStatusLine):
                if not reused:
                    raise
                # The server closed a connection that was not in use: that is no failed attempt.
                connection.close()
                connection = self._connection(self.seconds)
                connection.request(method, target, body=content, headers=headers)
                answer = connection.getresponse()
            raw = answer.read(BODY_LIMIT + 1)
            self._told(answer)
            done = self.keep and not answer.will_close and answer.isclosed()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, raw
        finally:
            if done:
                self._kept = connection
            else:
                connection.close()

    def _told(self, answer: http.client.HTTPResponse) -> None:
        """Take from an answer what every answer tells."""
        self.paused = unquote(answer.getheader(PAUSED_HEADER) or "")
        said = unquote(answer.getheader(WARNING_HEADER) or "").splitlines()
        self.warnings.update(dict.fromkeys(said))
        if self.heard is not None:
            heard, self.heard = self.heard, None
            heard()

    def _advise(
        self,
        failure: exits.Failure,
        status: int,
        path: str,
        query: dict[str, Any] | None,
        body: Any,
    ) -> None:
        """Put the next step into a refusal: for the object that the call was about."""
        if status == 401 and self.settings.withheld:
            kept = self.settings.context
            lasting = f", or labfleet context set {kept} --token-file" if kept else ""
            failure.hint = (
                f"Not sent, since it belongs to another server: {self.settings.withheld}. "
                f"For {self.settings.url} give --token-file{lasting} with the file of its token."
            )
        if failure.hint:
            return
        space = str((query or {}).get("namespace") or self.settings.namespace)
        words = [unquote(each) for each in path.removeprefix("/api/v1/").split("/")]
        row = _KINDS.get(words[0])
        if row is None:
            return
        name = words[1] if len(words) > 1 else _named_in(body)
        argument = Key(row.name, space, name).argument
        which = f"{row.name.lower()}/{argument}"
        if status == 404 and row.name == "Settings" and name == NAME:
            failure.hint = "Nothing was set yet; labfleet settings shows what holds."
        elif status == 404 and len(words) > 1:
            rest = Key(row.name, space, "").argument.strip()
            failure.hint = f"See what there is: labfleet get {f'{row.plural} {rest}'.strip()}."
        elif status == 409 and name:
            failure.hint = f"See its present state: labfleet describe {which}."
        elif status == 412 and name:
            failure.hint = (
                f"Look at the present state (labfleet get {which} -o yaml), then try again."
            )

    def _reply(self, status: int, headers: dict[str, str], raw: bytes, attempts: int) -> Reply:
        if len(raw) > BODY_LIMIT:
            raise self.unexpected(f"more than {BODY_LIMIT} bytes")
        if 300 <= status < 400:
            raise _redirected(status, headers.get("location", ""))
        body: Any = None
        if status < 300 and headers.get("content-type", "").startswith(_NO_JSON):
            return Reply(status, raw, attempts)
        if raw.strip():
            try:
                body = json.loads(raw)
            except ValueError:
                body = None
                if status < 400:
                    raise self.unexpected("the reply is not JSON") from None
        if 200 <= status < 300:
            return Reply(status, body, attempts)
        problem = dict(body) if isinstance(body, dict) else {}
        problem.setdefault("requestId", headers.get("x-request-id", ""))
        raise exits.from_problem(status, problem)

    def _wait(self, attempt: int, retry_after: str | None) -> None:
        seconds = backoff.delay(attempt, self.environment.rng(), base=0.3, limit=3.0)
        if retry_after and retry_after.isdecimal():
            seconds = min(5.0, max(seconds, float(retry_after)))
        self.environment.sleep(seconds)

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "labfleet-cli"}
        if self.settings.token:
            headers["Authorization"] = f"Bearer {self.settings.token}"
        return headers

    def _target(self, path: str, query: dict[str, Any] | None) -> str:
        base = self._address().path.rstrip("/")
        given = {
            key: list(map(_text, value)) if isinstance(value, list) else _text(value)
            for key, value in (query or {}).items()
            if value is not None
        }
        return f"{base}{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")

    def _address(self) -> SplitResult:
        """Return the server's address in parts; usage Failure when it is none."""
        try:
            parts = urlsplit(self.settings.url)
            _ = parts.port
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            hint = "For example --url http://127.0.0.1:8470."
            raise exits.usage(f"{self.settings.url!r} is not an http(s) address", hint)
        return parts

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        parts = self._address()
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=seconds)
        try:
            context = ssl.create_default_context(cafile=self.settings.ca_file)
        except OSError as error:
            raise exits.usage(f"cannot use --ca-file {self.settings.ca_file}: {error}") from None
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=context)


def _redirected(status: int, location: str) -> exits.Failure:
    """Return the failure for a redirect, which is not followed: the token is for one address."""
    try:
        parts = urlsplit(location)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        parts, host = urlsplit(""), ""
    # Without its query: that of a sign-in page may hold what lets somebody in.
    shown = f"{parts.scheme}://{host}{parts.path}" if host else parts.path
    where = f"a redirect to {shown[:200]}" if shown else "a redirect that names no address"
    base, found, _ = shown.partition("/api/")
    if host and found:
        hint = f"Redirects are not followed; give the address itself: --url {base}."
    else:
        hint = (
            "Something before the server answers, such as a sign-in page or another site. "
            "Give the address at which Labfleet itself answers programs: --url."
        )
    return exits.Failure(exits.ERROR, f"the server answered {status}, {where}", hint=hint)


def part(text: str) -> str:
    """Return one segment of a path, quoted."""
    return quote(text, safe="")


def _named_in(body: Any) -> str:
    """Return the name of the object that a body holds, or nothing."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _named(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return str(getattr(error, "strerror", None) or str(error) or type(error).__name__)
