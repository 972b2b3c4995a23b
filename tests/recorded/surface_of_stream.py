"""Where today's OpenAPI document differs by what the event stream tells beside objects."""

from __future__ import annotations

STREAM = {
    "/paths/~api~v1~events/get/parameters": "a client subscribes to frames, and fills up bursts",
}
"""Place in the document -> why today's differs there."""
