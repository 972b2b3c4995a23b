// The rows of the list of events, as the macro of cells.html draws them.

import { stateNode } from "./cells.js";
import { timeNode } from "./clock.js";
import { element, link } from "./dom.js";

/** @typedef {import("./fleet.js").FleetEvent} FleetEvent */

/**
 * Make a cell whose whole text stands in its title, for when it is cut off.
 * @param {string} text
 * @returns {HTMLTableCellElement}
 */
function titled(text) {
  const made = element("td", "", text);
  made.title = text;
  return made;
}

/**
 * Make the row of an event.
 * @param {FleetEvent} event
 * @returns {HTMLTableRowElement}
 */
export function eventRow(event) {
  const object = element(
    "th", "", element("span", "kind", event.kind), " ", link(event.href, event.name),
  );
  object.scope = "row";
  const state = event.phase ? [stateNode(event.kind, event.phase)] : [];
  const made = element(
    "tr", "fresh", element("td", "", timeNode(event.at)), object, element("td", "", event.what),
    element("td", "", ...state), titled(event.reason), titled(event.actor),
  );
  made.dataset.key = event.key;
  return made;
}
