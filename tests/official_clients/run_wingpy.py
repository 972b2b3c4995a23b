"""Runs wingpy's CiscoModelingLabs against a server with short sessions; exit 0 or 1.

Usage: python run_wingpy.py URL USER PASSWORD. Needs wingpy 1.7.0, nothing of Labfleet. The server's
sessions should last 10 s (`--rule session_seconds=10`): wingpy logs in anew at 90 % of that.
"""

import base64
import json
import sys
import time
from importlib import metadata

from wingpy import CiscoModelingLabs

VERSION = metadata.version("wingpy")


def claims(token):
    """Return what a token says of itself."""
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def read(cml):
    """GET of a few pages."""
    assert cml.get("/system_health").json()["valid"]
    assert cml.get("/labs").json() == []
    assert cml.get("/system_stats").json()["computes"]


def lab(cml):
    """POST, PUT, PATCH and DELETE of a lab's life."""
    made = cml.post("/labs", data={"title": "wing"}).json()
    path = f"/labs/{made['id']}"
    node = {"label": "a", "node_definition": "alpine", "x": 0, "y": 0}
    cml.post(f"{path}/nodes", data=node).json()
    cml.patch(path, data={"title": "wings"})
    cml.put(f"{path}/start", data=None)
    until(lambda: cml.get(f"{path}/check_if_converged").json())
    cml.put(f"{path}/stop", data=None)
    until(lambda: cml.get(f"{path}/check_if_converged").json())
    cml.put(f"{path}/wipe", data=None)
    cml.delete(path)


def ageing(cml):
    """A token is used until 90 % of its life, then there is a new one without an error."""
    first = claims(cml.token)
    assert first["exp"] - first["iat"] == 10
    time.sleep(9.5)
    assert cml.get("/authok").json() == "OK"
    assert claims(cml.token)["jti"] != first["jti"]


def until(question):
    """Ask until the answer is yes."""
    deadline = time.monotonic() + 30
    while not question():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def main(url, user, password):
    """Run everything; return whether all passed."""
    cml = CiscoModelingLabs(
        base_url=f"{url}/api/v0", username=user, password=password, verify=False
    )
    fine = True
    for function in (read, lab, ageing):
        said = {"client": f"wingpy {VERSION}", "calls": function.__name__}
        try:
            function(cml)
        except Exception as error:
            fine = False
            said["error"] = f"{type(error).__name__}: {error}"[:500]
        print(json.dumps({**said, "ok": "error" not in said}), flush=True)
    return fine


if __name__ == "__main__":
    raise SystemExit(0 if main(*sys.argv[1:4]) else 1)
