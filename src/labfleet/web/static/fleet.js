// What this page knows of the fleet: the rows of every table and the newest events. No elements.

import { fleetNow } from "./clock.js";
import { withEvent } from "./events.js";
import { KINDS, UNITS, WORDS } from "./words.js";

/** How much longer a lab is assumed to hold its capacity once its end has passed. */
const OVERDUE = 15 * 60_000;

/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./rows.js").Held} Held */
/** @typedef {import("./cells.js").Use} Use */
/** @typedef {import("./events.js").Run} Run */

/** @typedef {Record<string, import("./cells.js").Measured>} Values by metric */
/**
 * What was measured of the objects of some rows, by key; `anew`: of no others any more.
 * @typedef {{anew: boolean, items: [string, Values][], gone: string[]}} Measurements
 */

/** @type {Map<string, Map<string, Row>>} */
const rows = new Map(KINDS.map((kind) => [kind, new Map()]));

/** @type {Map<string, Values>} */
const samples = new Map();

const known = {
  /** @type {Run[]} newest first */
  events: [],
  /** Whether the first snapshot is in: before it the server's rows stand as they are. */
  whole: false,
  /** Whether it is known what was measured: before that the server's numbers stand as they are. */
  measured: false,
};

/**
 * Whether the page knows all of the fleet, and may therefore draw.
 * @returns {boolean}
 */
export function isWhole() {
  return known.whole;
}

/**
 * The rows of a kind by their key.
 * @param {string} kind
 * @returns {Map<string, Row>}
 */
export function rowsOf(kind) {
  const found = rows.get(kind);
  if (!found) throw new Error(`${kind} has no table`);
  return found;
}

/**
 * Every row of every table.
 * @returns {Row[]}
 */
export function allRows() {
  return KINDS.flatMap((kind) => [...rowsOf(kind).values()]);
}

/**
 * The newest events, newest first.
 * @returns {Run[]}
 */
export function newestEvents() {
  return known.events;
}

/**
 * Take over a whole state.
 * @param {Row[]} all
 * @param {Run[]} drawn the events that stand in the page, for when none is known yet
 */
export function replaceAll(all, drawn) {
  for (const kind of KINDS) rowsOf(kind).clear();
  for (const row of all) rowsOf(row.kind).set(row.key, row);
  if (!known.events.length) known.events = drawn;
  known.whole = true;
}

/**
 * Take over one row; false when a newer one is known.
 * @param {Row} row
 * @param {boolean} gone its object is deleted
 * @returns {boolean}
 */
export function putRow(row, gone) {
  const table = rowsOf(row.kind);
  const old = table.get(row.key);
  if (old && old.version > row.version) return false;
  if (gone) table.delete(row.key);
  else table.set(row.key, row);
  return true;
}

/**
 * Put an event into the list; false when it is known.
 * @param {Run} event
 * @returns {boolean}
 */
export function putEvent(event) {
  const longer = withEvent(known.events, event);
  if (longer) known.events = longer.slice(0, WORDS.events);
  return longer !== null;
}

/**
 * Take over what was measured; return the kinds of which it says something else.
 * @param {Measurements} told
 * @returns {Set<string>}
 */
export function putSamples({ anew, items, gone }) {
  const changed = [...items.map(([key]) => key), ...gone, ...(anew ? samples.keys() : [])];
  if (anew) samples.clear();
  known.measured ||= anew;
  for (const key of gone) samples.delete(key);
  for (const [key, values] of items) samples.set(key, values);
  return new Set(changed.map((key) => key.slice(0, key.indexOf("/"))));
}

/**
 * Everything that is known of measurements, for a tab that is new.
 * @returns {Measurements | undefined}
 */
export function allSamples() {
  if (!known.measured) return undefined;
  return { anew: true, items: [...samples], gone: [] };
}

/**
 * What was measured of a row's object; null before that is known.
 * @param {string} key
 * @param {string} metric
 * @returns {import("./cells.js").Measured | null | undefined}
 */
export function measuredOf(key, metric) {
  return known.measured ? samples.get(key)?.[metric] : null;
}

/**
 * What sessions hold of workers, or simulations of clusters, by namespace and name of the holder.
 * @param {string} kind Worker or Cluster; of others nothing is held
 * @returns {Map<string, Use>}
 */
export function usesOf(kind) {
  /** @type {Map<string, Use>} */
  const found = new Map();
  /** @type {Map<string, (Held | null)[]>} */
  const given = new Map();
  /** @type {Record<string, string>} */
  const holders = { Worker: "Session", Cluster: "Simulation" };
  const from = holders[kind];
  for (const each of from ? rowsOf(from).values() : []) {
    if (!each.holder) continue;
    const name = `${each.namespace}/${each.holder}`;
    const old = given.get(name) ?? [];
    given.set(name, [...old, each.held]);
  }
  const now = fleetNow();
  for (const [name, all] of given) {
    const reservations = all.filter((each) => each !== null);
    /** @type {Record<string, number>} */
    const held = {};
    for (const unit of UNITS) held[unit] = peak(reservations, unit, now);
    found.set(name, { live: all.length, held });
  }
  return found;
}

/**
 * The most that is held at any instant from now on, as the server's ledger sums it: what began
 * stays held until its object lets go of it, whatever its end was to be.
 * @param {Held[]} reservations
 * @param {string} unit
 * @param {number} now
 * @returns {number}
 */
function peak(reservations, unit, now) {
  let held = 0;
  /** @type {[number, number][]} */
  const changes = [];
  for (const { amounts, start, end } of reservations) {
    const amount = amounts[unit] ?? 0;
    const until = start <= now ? Math.max(end, now + OVERDUE) : end;
    if (until <= Math.max(now, start)) continue;
    if (start <= now) held += amount;
    else changes.push([start, amount]);
    if (until < Infinity) changes.push([until, -amount]);
  }
  let most = held;
  // At one instant ends come before starts: neighbours do not overlap.
  for (const [, change] of changes.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    held += change;
    most = Math.max(most, held);
  }
  return most;
}
