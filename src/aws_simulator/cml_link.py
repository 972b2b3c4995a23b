"""The client of the CML simulator's control endpoint: each instance has a CML server there.

Plain HTTP on loopback with a short deadline. A failing peer raises nothing: the caller gets
None, keeps the state and asks again later.
"""

import dataclasses
import json
import urllib.error
import urllib.request
import uuid
from typing import Any

DEADLINE = 5.0
BODY_LIMIT = 4 << 20
JOURNAL_READ = 200
NAMESPACE = uuid.UUID("6f1c7a52-0a9e-5a43-8f5e-0d8a3b1c9e77")


def product_uuid(root_volume: str) -> str:
    """Return the UDI's product uuid; it belongs to the root volume and survives stop and start."""
    return str(uuid.uuid5(NAMESPACE, root_volume))


@dataclasses.dataclass
class CmlLink:
    """Creates, boots, stops and destroys servers at one control URL."""

    url: str
    last_error: str = ""

    def create(self, server: str, fields: dict[str, Any]) -> dict[str, Any] | None:
        """Create a server; one that exists already (409) is as good as created."""
        return self._post("/_control/servers", {"id": server, **fields}, fine=(409,))

    def call(self, server: str, verb: str) -> dict[str, Any] | None:
        """Boot, stop or destroy a server; one that is gone already counts as stopped."""
        fine = () if verb == "boot" else (404,)
        return self._post(f"/_control/servers/{server}/{verb}", {}, fine=fine)

    def facts(self, server: str) -> dict[str, Any]:
        """Return what a server holds right now: labs running, licence, power; empty if unknown."""
        found = self._ask(f"/_control/servers/{server}", None, fine=())
        if not isinstance(found, dict) or not found:
            return {}
        labs = found.get("lab_list", [])
        return {
            "on": bool(found.get("running")),
            "labs_running": sum(lab.get("state") == "STARTED" for lab in labs),
            "nodes_running": int(found.get("nodes_running", 0)),
            "licensed": found.get("registered") == "COMPLETED",
            "checked_ago": self._checked_ago(server),
        }

    def _checked_ago(self, server: str) -> float | None:
        """Return simulated seconds since somebody last read the server's labs; None if never."""
        path = f"/_control/servers/{server}/journal?limit={JOURNAL_READ}"
        entries, clock = self._ask(path, None, fine=()), self._ask("/_control/clock", None, fine=())
        if not isinstance(entries, list) or not clock:
            return None
        reads = [
            float(entry["at"])
            for entry in entries
            if entry["method"] == "GET" and entry["status"] == 200 and "/labs" in entry["path"]
        ]
        return float(clock["now"]) - max(reads) if reads else None

    def _post(
        self, path: str, body: dict[str, Any], *, fine: tuple[int, ...]
    ) -> dict[str, Any] | None:
        found = self._ask(path, body, fine=fine)
        return found if isinstance(found, dict) or found is None else {}

    def _ask(self, path: str, body: dict[str, Any] | None, *, fine: tuple[int, ...]) -> Any:
        request = urllib.request.Request(  # noqa: S310 - the scheme is checked at start
            self.url.rstrip("/") + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method="GET" if body is None else "POST",
        )
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE) as reply:  # noqa: S310
                text = reply.read(BODY_LIMIT)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in fine:
                return {}
            self.last_error = f"{path}: HTTP {error.code}"
            return None
        except (OSError, ValueError) as error:
            self.last_error = f"{path}: {error}"
            return None
        try:
            parsed = json.loads(text or b"{}")
        except ValueError:
            self.last_error = f"{path}: not JSON"
            return None
        return parsed
