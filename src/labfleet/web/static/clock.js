// Fleet time, and how the page says an instant. The demo's fleet runs faster than the wall's clock,
// so the page asks the server for time and rate and counts on from there.

import { element, say } from "./dom.js";

const fleet = {
  at: Date.parse(document.body.dataset.now ?? ""),
  since: performance.now(),
  rate: Number(document.body.dataset.rate) || 1,
};
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const HERE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/**
 * The fleet's time, in milliseconds since 1970.
 * @returns {number}
 */
export function fleetNow() {
  return fleet.at + (performance.now() - fleet.since) * fleet.rate;
}

/** Ask the server what time it is; half the journey there and back has passed when it answers. */
export async function readClock() {
  try {
    const asked = performance.now();
    const reply = await fetch("/api/v1/version", { cache: "no-store" });
    if (!reply.ok) return;
    /** @type {{time: string, rate: number}} */
    const found = await reply.json();
    const now = performance.now();
    fleet.at = Date.parse(found.time) + ((now - asked) / 2) * found.rate;
    fleet.since = now;
    fleet.rate = found.rate;
  } catch {
    // The clock goes on from what it knew; the mark says that the server is away.
  }
}

/**
 * Say how far away an instant is.
 * @param {number} seconds negative when it is past
 * @returns {string}
 */
function relative(seconds) {
  const size = Math.abs(seconds);
  if (size < 1) return "now";
  const text =
    size < 90 ? `${Math.trunc(size)} s`
    : size < 5400 ? `${Math.trunc(size / 60)} min`
    : size < 129600 ? `${Math.trunc(size / 3600)} h`
    : `${Math.trunc(size / 86400)} d`;
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

/**
 * Say an instant in UTC.
 * @param {number} at
 * @returns {string}
 */
function utc(at) {
  return `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/**
 * Say an instant in UTC and here, each with its zone: an hour without one has misled people.
 * @param {number} at
 * @returns {string}
 */
function exact(at) {
  return ZONE === "UTC" ? utc(at) : `${utc(at)} (yours: ${HERE.format(at)}, ${ZONE})`;
}

/**
 * Make the node of an instant, as the macro `cell` of cells.html does.
 * @param {string} text the instant, as the server writes it
 * @returns {HTMLTimeElement}
 */
export function timeNode(text) {
  const at = Date.parse(text);
  const shown = element("span", "", relative((at - fleetNow()) / 1000));
  shown.setAttribute("aria-hidden", "true");
  const made = element("time", "", shown, element("span", "vh", utc(at)));
  made.dateTime = text;
  made.title = exact(at);
  made.dataset.zoned = "1";
  return made;
}

/** Move the clock and every relative time of the page to now. */
export function tick() {
  const now = fleetNow();
  /** @type {NodeListOf<HTMLTimeElement>} */
  const shown = document.querySelectorAll("main time");
  for (const node of shown) {
    const at = Date.parse(node.dateTime);
    say(node.firstElementChild, relative((at - now) / 1000));
    if (ZONE !== "UTC" && !node.dataset.zoned) {
      node.title = exact(at);
      node.dataset.zoned = "1";
    }
  }
  const clock = document.getElementById("clock");
  if (!clock) return;
  say(clock, new Date(now).toISOString().slice(11, 19));
  clock.title = exact(now);
}
