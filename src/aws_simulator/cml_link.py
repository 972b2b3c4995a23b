"""The wire to the CML simulator's control endpoint: a simulated instance is a CML server there.

Plain HTTP on loopback with a short deadline. It never raises on a failing peer: the caller gets
None, keeps the state and asks again later.
"""

import dataclasses
import json
import urllib.error
import urllib.request
import uuid
from typing import Any

DEADLINE = 5.0
BODY_LIMIT = 1 << 20
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

    def _post(
        self,
        path: str,
        body: dict[str, Any],
        *,
        fine: tuple[int, ...],
    ) -> dict[str, Any] | None:
        request = urllib.request.Request(  # noqa: S310 - the scheme is checked at start
            self.url.rstrip("/") + path,
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method="POST",
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
        return parsed if isinstance(parsed, dict) else {}
