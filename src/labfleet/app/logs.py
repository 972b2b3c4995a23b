"""Logs: one event per reconcile, dotted stable names, JSON or console, never a secret.

Values of keys that sound like secrets are replaced before anything is written.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

_SECRET = ("password", "token", "secret", "authorization")
_QUIET = {"done", "again"}


def _hide(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key in event:
        if any(word in key.lower() for word in _SECRET):
            event[key] = "[hidden]"
    return event


def _to_stderr(*_: Any) -> structlog.PrintLogger:
    """Return a writer to what stderr is now, not to what it was when logs were set up."""
    return structlog.PrintLogger(sys.stderr)


def configure(*, fmt: str, level: str) -> None:
    """Set logs up once per process; they go to stderr."""
    renderer: Any = structlog.processors.JSONRenderer()
    if fmt == "console":
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _hide,
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            getattr(logging, level.upper(), logging.INFO)
        ),
        logger_factory=_to_stderr,
    )


def get(name: str) -> Any:
    """Return the logger of a package."""
    return structlog.get_logger(room=name)
