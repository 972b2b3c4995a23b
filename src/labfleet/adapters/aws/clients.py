"""One shared boto3 client per service, region and retry policy, independent of the environment.

There is no client per call: making one costs a quarter of a second, and adaptive retry keeps its
rate in the client (facts/aws.md#client-speed). With credentials given, neither AWS variables nor
files nor proxies of the environment are read; with None the SDK's own chain finds the credentials.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import boto3.session
import botocore.session
from botocore.config import Config
from botocore.configprovider import BOTOCORE_DEFAUT_SESSION_VARIABLES
from botocore.utils import parse_timestamp

Service = Literal["ec2", "cloudwatch"]
Policy = Literal["read", "change"]
# (mode, attempts): reads may wait for the rate. A change is sent once: the SDK would repeat
# a launch that fails for lack of capacity (EC2 answers HTTP 500), and the controllers look up the
# outcome of a lost one by its recorded intent (facts/aws-bugs.md#case-44).
RETRIES: dict[Policy, tuple[str, int]] = {"read": ("adaptive", 8), "change": ("standard", 1)}
NO_FILE = "/dev/null"
BeforeSend = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key; secrets stay out of every repr."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Machine seconds for a connection and for each read of a reply."""

    connect: float = 5.0
    read: float = 20.0


class Clients:
    """Makes clients on first use and keeps them; safe to ask from several threads."""

    def __init__(
        self,
        *,
        credentials: Credentials | None,
        endpoint_url: str | None = None,
        before_send: BeforeSend | None = None,
        deadlines: Deadlines | None = None,
        retries: Mapping[Policy, tuple[str, int]] = RETRIES,
        connections: int = 10,
    ) -> None:
        """`before_send` sees each prepared request and may answer in the network's place.

        The SDK's retries sleep in real time, so a rehearsal passes one attempt for each policy.
        """
        self._retries = dict(retries)
        self._credentials = credentials
        self._endpoint_url = endpoint_url
        self._before_send = before_send
        self._deadlines = deadlines or Deadlines()
        self._connections = connections
        self._session: boto3.session.Session | None = None
        self._clients: dict[tuple[Service, str, Policy], Any] = {}
        self._lock = threading.Lock()
        self._sent: dict[tuple[str, str], int] = {}

    def get(self, region: str, policy: Policy, service: Service = "ec2") -> Any:
        """Return the shared client; the first one takes 250 ms to make."""
        key = (service, region, policy)
        with self._lock:
            client = self._clients.get(key)
            if client is None:
                client = self._make(*key)
                self._clients[key] = client
            return client

    def sent(self) -> dict[tuple[str, str], int]:
        """Return how many requests went out by region and action, the SDK's repeats included."""
        with self._lock:
            return dict(self._sent)

    def _count(self, region: str, event: str) -> None:
        key = (region, event.rpartition(".")[2])
        with self._lock:
            self._sent[key] = self._sent.get(key, 0) + 1

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def _make(self, service: Service, region: str, policy: Policy) -> Any:
        if self._session is None:
            self._session = _open_session(self._credentials)
        mode, attempts = self._retries[policy]
        sealed = self._credentials is not None
        client = self._session.client(
            service,
            region_name=region,
            endpoint_url=self._endpoint_url,
            verify=True if sealed else None,
            config=Config(
                retries={"mode": mode, "total_max_attempts": attempts},
                connect_timeout=self._deadlines.connect,
                read_timeout=self._deadlines.read,
                max_pool_connections=self._connections,
                user_agent_extra="labfleet",
                proxies={} if sealed else None,
                ignore_configured_endpoint_urls=sealed,
            ),
        )
        events = client.meta.events
        events.register("before-send", lambda event_name, **_: self._count(region, event_name))
        if self._before_send is not None:
            hook = self._before_send
            events.register("before-send", lambda request, **_: hook(request))
        return client


def _instant(text: Any) -> datetime:
    """Return a timestamp of a reply; faster than the SDK's parser, which tries every format.

    That took a fifth of the CPU time of a list (facts/aws.md#client-speed: a list's cost is its
    parsing).
    """
    if isinstance(text, str) and text.endswith("Z") and "T" in text:
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass
    found: datetime = parse_timestamp(text)
    return found


def _open_session(credentials: Credentials | None) -> boto3.session.Session:
    session = _session(credentials)
    parsers = session._session.get_component("response_parser_factory")  # noqa: SLF001 - the SDK's only way
    parsers.set_parser_defaults(timestamp_parser=_instant)
    return session


def _session(credentials: Credentials | None) -> boto3.session.Session:
    if credentials is None:
        return boto3.session.Session()
    core = botocore.session.Session(
        session_vars={
            name: (None, None, default, convert)
            for name, (_, _, default, convert) in BOTOCORE_DEFAUT_SESSION_VARIABLES.items()
        }
        | {
            "config_file": (None, None, NO_FILE, None),
            "credentials_file": (None, None, NO_FILE, None),
        }
    )
    return boto3.session.Session(
        botocore_session=core,
        aws_access_key_id=credentials.access_key,
        aws_secret_access_key=credentials.secret_key,
        aws_session_token=credentials.session_token,
    )
