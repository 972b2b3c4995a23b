"""A reverse proxy before a PromQL server that makes its answers late, or its clock wrong."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PATIENCE = 30.0


class PromqlProxy:
    """How answers are spoilt: `delay` seconds late, at most until `released`; `shift` seconds off."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.url = ""
        self.delay = 0.0
        self.shift = 0.0
        self.released = threading.Event()

    def off(self, seconds: float) -> None:
        """Let the server's clock be so many seconds ahead."""
        self.shift = seconds

    def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Return status and body of the server's answer, spoilt."""
        delay, shift = self.delay, self.shift
        connection = http.client.HTTPConnection(self.upstream, timeout=PATIENCE)
        try:
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request("POST", path, body, form)
            reply = connection.getresponse()
            status, content = reply.status, reply.read()
        finally:
            connection.close()
        if delay:
            self.released.wait(delay)
        if shift and status == 200:
            query = parse_qs(body.decode())["query"][0]
            content = json.dumps(shifted(json.loads(content), query, shift)).encode()
        return status, content


def shifted(answer: dict[str, Any], query: str, by: float) -> dict[str, Any]:
    """Return an answer as a server gives it whose clock is so many seconds ahead."""
    found = answer["data"]["result"]
    samples = [found] if query == "time()" else [each["value"] for each in found]
    tells_instants = query == "time()" or query.startswith("min by")
    for sample in samples:
        sample[0] += by
        if tells_instants:
            sample[1] = str(float(sample[1]) + by)
    return answer


@contextmanager
def proxied(upstream: str) -> Iterator[PromqlProxy]:
    """Give a proxy on loopback while the block lasts."""
    proxy = PromqlProxy(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                status, content = proxy.answer(self.path, body)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:  # the server is gone, or who asked did not wait
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.released.set()
            server.shutdown()
            thread.join()
