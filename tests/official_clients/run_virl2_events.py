"""Shows what a lab event of another kind than "created" does to virl2_client's event listener.

Usage: python run_virl2_events.py URL USER PASSWORD. Prints one JSON line: the kinds of events of a
joined lab that the listener took, the exception that the first lab event raised in it, and whether
it still listens. Needs virl2-client and aiohttp, nothing of Labfleet.
"""

import json
import sys
import threading
import time
import warnings

from virl2_client import ClientLibrary


def until(question, seconds=60):
    """Ask until the answer is yes."""
    deadline = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < deadline, "in vain"
        time.sleep(0.05)


def main(url, user, password):
    warnings.simplefilter("ignore")
    threading.excepthook = lambda _: None  # its thread ends with the exception that is told here
    client = ClientLibrary(url, user, password, ssl_verify=False)
    other = ClientLibrary(url, user, password, ssl_verify=False)
    lab = client.create_lab("listened")
    client.start_event_listening()
    listener = client.event_listener
    # private _connected, _event_handler, _thread: there is no public way to look at a listener
    taken, raised = [], []
    handle = listener._event_handler.handle_event

    def watched(event):
        try:
            handle(event)
        except BaseException as error:
            if event.type == "lab_event":
                raised.append([event.subtype, event.element_type, type(error).__name__])
            raise
        if event.lab_id == lab.id:
            taken.append([event.type, event.subtype])

    listener._event_handler.handle_event = watched
    until(lambda: listener._connected)
    time.sleep(0.5)
    theirs = other.join_existing_lab(lab.id)
    theirs.create_node("new", "alpine")
    until(lambda: ["lab_element_event", "created"] in taken)
    theirs.title = "renamed"
    until(lambda: raised or ["lab_event", "modified"] in taken)
    if raised:
        until(lambda: not listener._thread.is_alive(), 10)
    alive = listener._thread.is_alive()
    print(json.dumps({"ok": True, "raised": raised, "listens": alive}), flush=True)
    # A listener whose thread has ended cannot be stopped in order.


if __name__ == "__main__":
    main(*sys.argv[1:])
