// What this page knows of the fleet: the rows of every table and the newest events. No elements.

import { KINDS, UNITS, WORDS } from "./words.js";

/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./cells.js").Use} Use */
/**
 * One line of the list of events. Those of the server's first page are known by their key alone:
 * they are drawn already.
 * @typedef {object} FleetEvent
 * @property {string} key its revision
 * @property {string} at
 * @property {string} what
 * @property {string} kind
 * @property {string} name
 * @property {string | null} phase
 * @property {string} href
 * @property {string} reason
 * @property {string} actor
 */
/** @typedef {FleetEvent | {key: string}} Listed */

/** @type {Map<string, Map<string, Row>>} */
const rows = new Map(KINDS.map((kind) => [kind, new Map()]));

const known = {
  /** @type {Listed[]} newest first */
  events: [],
  /** Whether the first snapshot is in: before it the server's rows stand as they are. */
  whole: false,
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
 * @returns {Listed[]}
 */
export function newestEvents() {
  return known.events;
}

/**
 * Take over a whole state.
 * @param {Row[]} all
 * @param {Listed[]} drawn the events that stand in the page, for when none is known yet
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
 * Put an event first; false when it is known.
 * @param {FleetEvent} event
 * @returns {boolean}
 */
export function putEvent(event) {
  if (known.events.some((each) => each.key === event.key)) return false;
  known.events = [event, ...known.events].slice(0, WORDS.events);
  return true;
}

/**
 * What sessions hold of workers, or simulations of clusters, by namespace and name of the holder.
 * @param {string} kind Worker or Cluster; of others nothing is held
 * @returns {Map<string, Use>}
 */
export function usesOf(kind) {
  /** @type {Map<string, Use>} */
  const found = new Map();
  /** @type {Record<string, string>} */
  const holders = { Worker: "Session", Cluster: "Simulation" };
  const from = holders[kind];
  for (const each of from ? rowsOf(from).values() : []) {
    if (!each.holder) continue;
    const name = `${each.namespace}/${each.holder}`;
    const use = found.get(name) ?? { live: 0, held: {} };
    use.live += 1;
    for (const unit of UNITS) {
      use.held[unit] = (use.held[unit] ?? 0) + (each.held?.[unit] ?? 0);
    }
    found.set(name, use);
  }
  return found;
}
