"""Where today's OpenAPI document differs by how lists are searched."""

from __future__ import annotations

HANDS = {
    f"/paths/~api~v1~{plural}/get/parameters": "lists are searched by a text"
    for plural in (
        "clusters", "definitions", "images", "leaks", "pools", "queues", "regions", "sessions",
        "settings", "simulations", "templates", "webhooks", "workers",
    )
}  # fmt: skip
"""Place in the document -> why today's differs there."""
