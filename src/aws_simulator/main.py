"""The command `aws-simulator`: plain HTTP on loopback, any credentials, one CML image.

One JSON line on stdout says when it is ready; SIGTERM ends it in order. A small thread settles
due states, so that CML servers boot although nobody asks; all else is computed on read.
"""

import argparse
import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

TICK = 0.1
ENVIRONMENT = {
    "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
    "MOTO_ENABLE_AMI_VALIDATION": "true",
    "MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION": "true",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    options = _parser().parse_args(argv)
    if options.cml and not options.cml.startswith(("http://", "https://")):
        sys.stderr.write("aws-simulator: --cml takes an http:// URL\n")
        return 2
    if options.speed < 0:
        sys.stderr.write("aws-simulator: --clock must not be below 0\n")
        return 2
    os.environ.update(ENVIRONMENT)
    gc.disable()  # what moto loads stays: to look for garbage in it took a third of the start
    from aws_simulator import server  # moto reads the environment when it is imported

    try:
        running = server.Server(
            port=options.port,
            epoch=time.time() if options.epoch is None else options.epoch,
            speed=options.speed,
            region=options.region,
            seed=options.seed,
            cml=options.cml,
        )
    except server.PatchPointGoneError as error:
        sys.stderr.write(f"aws-simulator: this moto cannot be mended: {error}\n")
        return 3
    except OSError as error:
        sys.stderr.write(f"aws-simulator: cannot listen on port {options.port}: {error}\n")
        return 1
    gc.freeze()
    gc.enable()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    running.start()
    ready: dict[str, Any] = {"ready": True, "url": running.url, **running.furnished}
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    while not stop.wait(TICK):
        running.world.settle()
    running.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="labfleet aws-simulator", description=__doc__)
    parser.add_argument("--port", type=int, default=4566, help="0 takes a free one")
    parser.add_argument(
        "--clock",
        "--speed",
        dest="speed",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="simulated seconds per second; at 0 only /_control/clock moves the time",
    )
    parser.add_argument("--epoch", type=float, help="Unix time where simulated = real")
    parser.add_argument("--cml", help="URL of the CML simulator that instances are servers of")
    parser.add_argument("--region", default="us-east-1", help="region of the image and the network")
    parser.add_argument("--seed", type=int, help="dice of ids, faults and jitter")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
