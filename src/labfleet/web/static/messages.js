// What the tab that holds the connection tells the others, and itself; and what each does then.

import { anythingChanged, frameCame, objectChanged } from "./detail.js";
import { putEvent, putRow, putSamples, replaceAll } from "./fleet.js";
import { connection, setMark } from "./mark.js";
import { reloadPauses } from "./pauses.js";
import { drawnEvents, touch } from "./tables.js";
import { renewIfOld } from "./version.js";
import { KINDS } from "./words.js";

/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./events.js").Run} Run */
/**
 * One change of one object.
 * @typedef {object} Change
 * @property {Row | null} row null when its kind has no table
 * @property {boolean} gone
 * @property {boolean} pausing the banner may have changed
 * @property {Run} event
 */
/**
 * One message between tabs.
 * @typedef {object} Message
 * @property {boolean} [hello] a tab is new and wants to know all
 * @property {boolean} [who] the tab that leads asks what the others want to hear
 * @property {import("./asks.js").Asks} [asks] what a tab wants to hear
 * @property {string} [bye] a tab is closed
 * @property {boolean} [renew] what a page shows may be older than what was told
 * @property {string} [only] the one tab that this is for
 * @property {{name: string, whole: boolean}} [frame] a frame beside objects came
 * @property {boolean} [leave] somebody signs out
 * @property {import("./mark.js").Connection} [state]
 * @property {boolean} [heard] the server was heard just now
 * @property {Row[]} [all] a whole state
 * @property {Change[]} [changes]
 * @property {import("./fleet.js").Measurements | undefined} [samples]
 */

/** Signing out takes a moment; a page loaded before it has ended would still be signed in. */
const LEAVING = 300;

/**
 * Do what a message says.
 * @param {Message} message
 */
export function take(message) {
  if (message.state) noteState(message.state, message.heard);
  if (message.leave) setTimeout(() => location.reload(), LEAVING);
  if (message.all) {
    replaceAll(message.all, drawnEvents());
    for (const kind of [...KINDS, "Event"]) touch(kind);
    anythingChanged();
    reloadPauses();
  }
  if (message.renew) anythingChanged();
  if (message.frame) frameCame(message.frame.name, message.frame.whole);
  for (const each of message.changes ?? []) change(each);
  for (const kind of message.samples ? putSamples(message.samples) : []) touch(kind);
}

/**
 * @param {import("./mark.js").Connection} state
 * @param {boolean | undefined} heard
 */
function noteState(state, heard) {
  if (state === "live" && connection() === "reconnecting") renewIfOld();
  setMark(state, heard);
}

/** @param {Change} change */
function change({ row, gone, event, pausing }) {
  const changed = row !== null && putRow(row, gone);
  if (row && changed) {
    touch(row.kind);
    if (row.kind === "Session") touch("Worker");
    if (row.kind === "Simulation") touch("Cluster");
  }
  // Pools and settings have no table here, and a page of their own all the same.
  if (changed || !row) objectChanged(event.kind, `${event.kind}/${event.namespace}/${event.name}`);
  if (pausing) reloadPauses();
  if (putEvent(event)) touch("Event");
}
