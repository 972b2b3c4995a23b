"""The pages of the console, in the order of the navigation."""

from __future__ import annotations

from labfleet.service.core.roles import Role
from labfleet.web import calendar, overview, past_runs
from labfleet.web.view import View
from labfleet.web.views import (
    actions,
    alerts,
    audit,
    class_room,
    discovery,
    fleet,
    garbage,
    home,
    learning,
    my_labs,
    queue,
    replicas,
    search,
    settings,
    simulations,
)

_OPERATORS = frozenset({Role.ADMIN, Role.OPERATOR})
_PEOPLE = frozenset({Role.ADMIN, Role.OPERATOR, Role.USER})

VIEWS = (
    View("/", "Overview", "home.html", home.page, "Now"),
    # For who may not read workers the first page has these tables.
    View(overview.ROOT, "Live tables", "overview.html", overview.page, "Now", "Worker"),
    View(queue.ROOT, "Queue", "views/queue.html", queue.page, "Now"),
    View(my_labs.ROOT, "My labs", "views/my_labs.html", my_labs.page, "Now", "Session", _PEOPLE),
    View(alerts.ROOT, "Alerts", "views/sheet.html", alerts.page, "Now", "Worker"),
    View(actions.ROOT, "Actions", "views/actions.html", actions.page, "Now"),
    View(fleet.ROOT, "Fleet", "views/fleet.html", fleet.page, "Servers", "Worker"),
    View(class_room.ROOT, "Classes", "views/class_list.html", class_room.listed, "Labs", "Group"),
    View(f"{class_room.ROOT}/", "Class", "views/class_room.html", class_room.page),
    View(calendar.ROOT, "Calendar", "calendar.html", calendar.page, "Labs", "Session"),
    View(
        simulations.ROOT,
        "Simulations",
        "views/simulations.html",
        simulations.page,
        "Learning",
        "Simulation",
        asks=simulations.ASKS,
    ),
    View(learning.ROOT, "Learning", "views/learning.html", learning.page, "Learning", "Simulation"),
    View(past_runs.ROOT, "History", "history.html", past_runs.page, "Learning"),
    View(discovery.ROOT, "Discovery", "views/sheet.html", discovery.page, "Upkeep", "Region"),
    View(garbage.ROOT, "Garbage", "views/sheet.html", garbage.page, "Upkeep", "Region"),
    View(replicas.ROOT, "Replicas", "views/sheet.html", replicas.page, "Upkeep", "Worker"),
    View(settings.ROOT, "Settings", "views/settings.html", settings.page, "Upkeep", "Settings"),
    View(audit.ROOT, "Audit", "views/audit.html", audit.page, "Upkeep", "", _OPERATORS),
    View(audit.ONE, "Change", "views/audit_change.html", audit.one),
    View(search.ROOT, "Search", "views/search.html", search.page),
)


def at(path: str) -> tuple[View, str] | None:
    """Return the page at an address and the name at its end; None when there is none."""
    for view in VIEWS:
        if view.path == path:
            return view, ""
        if view.path != "/" and view.path.endswith("/") and path.startswith(view.path):
            name = path.removeprefix(view.path)
            if name and "/" not in name:
                return view, name
    return None
