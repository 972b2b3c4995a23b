"""Routes of calendar files: for who signs in, and for calendar programs, which send no headers.

A feed's address holds a token. It stands in the query, which this server writes into no log, and
opens its owner's own calendar alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from urllib.parse import quote

from litestar.params import QueryParameter

from labfleet.api.core.route import Routes, Text
from labfleet.api.kinds.kind_routes import Labels, Namespace
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.calendar_file import MEDIA_TYPE
from labfleet.resources.meta import Record
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.core.tokens import Tokens
from labfleet.service.reads import calendar_file

FEED = "/api/v1/calendar-feed"
ADDRESS = "/api/v1/calendar-feed.ics"
Owner = Annotated[
    str | None, QueryParameter(name="owner", max_length=256, description="Only this owner's.")
]
FeedToken = Annotated[
    str, QueryParameter(name="feed", max_length=200, description="The token of the feed.")
]


class CalendarFeedReply(Record, frozen=True, kw_only=True):
    """A person's calendar feed: an address that a calendar program reads without signing in.

    owner: Whose sessions it shows.
    created: When it was made.
    expires: When it ends by itself.
    revoked: When it was ended; null while it is open.
    url: The address with its token, shown this once; a path alone without notices.pagesUrl.
    """

    owner: str
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None
    url: str | None = None


def routes(services: ServiceContext, tokens: Tokens) -> Routes:
    """Return the routes."""
    made = Routes("calendar")
    needs = ("read", "Session")

    @made.get("/api/v1/calendar.ics", "Sessions as a calendar file", needs=needs,
              reply=str, reply_type="text/calendar")  # fmt: skip
    async def get_calendar_file(
        who: Caller,
        namespace: Namespace = "default",
        label_selector: Labels = "",
        owner: Owner = None,
    ) -> Text:
        """Return the sessions that the caller sees, as RFC 5545 has it; people see their own."""
        found = await calendar_file.read(
            services, who, namespace=namespace, selector=label_selector, owner=owner
        )
        return Text(found, MEDIA_TYPE)

    @made.get(ADDRESS, "A person's calendar, for calendar programs", public=True,
              reply=str, reply_type="text/calendar", refuses=(errors.Denied,))  # fmt: skip
    async def get_calendar_feed_file(
        feed: FeedToken = "", namespace: Namespace = "default"
    ) -> Text:
        """Return the calendar that the token in the address opens: its owner's own sessions."""
        try:
            who = await tokens.of_feed(feed)
        except errors.Denied:
            # The same for whatever it was, and no 401: a calendar program would ask for a password.
            told = "this calendar feed is not known, or was ended"
            raise errors.Denied(told, reason="FeedClosed") from None
        return Text(await calendar_file.of_person(services, who, namespace), MEDIA_TYPE)

    _feeds(made, services, tokens)
    return made


def _feeds(made: Routes, services: ServiceContext, tokens: Tokens) -> None:
    needs = ("read", "Session")

    @made.get(FEED, "Whether the caller has a calendar feed", needs=needs,
              refuses=(errors.Gone,))  # fmt: skip
    async def get_calendar_feed(who: Caller) -> CalendarFeedReply:
        """Return since when and until when it is open, never its address; 404 without one."""
        found = await tokens.feed_of(who.principal)
        if found is None:
            raise errors.Gone("you have no calendar feed")
        return _shown(found)

    @made.post(FEED, "Make the caller's calendar feed; its address is shown this once",
               needs=needs, status=201)  # fmt: skip
    async def create_calendar_feed(who: Caller) -> CalendarFeedReply:
        """Make a new address for the caller's own calendar; the one before it ends at once."""
        new = await tokens.make_feed(who.principal)
        pages = services.settings.now().notices.pages_url
        return _shown(new.row, f"{pages}{ADDRESS}?feed={quote(new.text, safe='')}")

    @made.delete(FEED, "End the caller's calendar feed", needs=needs,
                 refuses=(errors.Gone,))  # fmt: skip
    async def end_calendar_feed(who: Caller) -> CalendarFeedReply:
        """End the address: whoever knows it reads nothing more."""
        return _shown(await tokens.end_feed(who.principal))


def _shown(row: stores.TokenRow, url: str | None = None) -> CalendarFeedReply:
    return CalendarFeedReply(
        owner=row.owner, created=row.created, expires=row.expires, revoked=row.revoked, url=url
    )
