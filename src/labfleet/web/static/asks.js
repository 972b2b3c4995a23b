// What the pages of this browser's tabs want to hear: kinds, frames beside objects, whole tables.
// The tab that holds the connection asks the server for what any of them wants, and for no more.

import { PACE, WORDS } from "./words.js";

/**
 * What one page wants to hear.
 * @typedef {object} Asks
 * @property {string} tab whose page it is
 * @property {string} at the position in the log at which the server drew the page
 * @property {string[]} kinds
 * @property {string[]} frames beside objects
 * @property {boolean} rows every object of the kinds, for the tables that are drawn here
 * @property {boolean} events every change, for the list of events that is drawn here
 */

/** @typedef {{kinds: string[], frames: string[], rows: boolean, events: boolean}} Union */

const FRAMES = ["samples", "alerts", "queue"];
/** Tabs that open together make one new stream: milliseconds to wait for the others. */
const TOGETHER = 200;
const TAB = `${performance.timeOrigin}-${Math.random()}`;

/** @type {Map<string, Asks>} by tab */
const all = new Map();
/**
 * The id of the last event that was heard, from which a stream goes on, empty before the first; and
 * the address of the stream that told it.
 */
export const reached = { last: "", by: "" };
/** @type {() => void} called when the pages want more than the stream tells */
let more = () => {};
/** @type {ReturnType<typeof setTimeout> | undefined} */
let soon;

/**
 * The words of an attribute, parted by commas or blanks.
 * @param {string | undefined} text
 * @returns {string[]}
 */
export function wordsOf(text) {
  return (text ?? "").split(/[\s,]+/).filter(Boolean);
}

/**
 * What this page wants to hear.
 * @returns {Asks}
 */
export function ownAsks() {
  const live = document.getElementById("live");
  const rows = document.querySelector("table[data-kind], table[data-events]") !== null;
  const words = new Set([
    "Settings", ...(document.getElementById("paused") ? ["Pool"] : []),
    ...wordsOf(live?.dataset.object?.replace(/\/.*/, "")), ...wordsOf(live?.dataset.follows),
    ...(rows ? Object.keys(WORDS.followed) : []), ...(rows && showsSamples() ? ["samples"] : []),
  ]);
  // Alerts are for those who may read workers; who may not is refused the whole stream.
  if (!WORDS.readable.includes("workers")) words.delete("alerts");
  return {
    tab: TAB, at: document.body.dataset.at ?? "", rows,
    events: document.querySelector("table[data-events]") !== null,
    kinds: [...words].filter((word) => !FRAMES.includes(word)),
    frames: [...words].filter((word) => FRAMES.includes(word)),
  };
}

/**
 * Whether a table has a column of measured values.
 * @returns {boolean}
 */
function showsSamples() {
  const sections = Object.values(WORDS.sections);
  return sections.some(({ columns }) => columns.some(({ measured }) => measured));
}

/**
 * Note what a page wants; what nobody wanted before is asked for soon, with what comes until then.
 * @param {Asks} asks
 */
export function putAsks(asks) {
  all.set(asks.tab, asks);
  clearTimeout(soon);
  soon = setTimeout(() => { if (addressOf(asksOfAll()) !== reached.by) more(); }, TOGETHER);
}

/**
 * Forget what a page wanted that is closed. The stream goes on; the next one asks for less.
 * @param {string} tab
 */
export function dropAsks(tab) {
  all.delete(tab);
}

/**
 * Whether something was told since a page was drawn, which it has not heard.
 * @param {Asks} asks
 * @returns {boolean}
 */
export function isBehind({ at }) {
  const [epoch = "", revision = ""] = reached.last.split(".");
  const [itsEpoch = "", itsRevision = ""] = at.split(".");
  return epoch !== itsEpoch || Number(revision) > Number(itsRevision);
}

/**
 * Say what to do when the pages want more than the stream tells.
 * @param {() => void} listener
 */
export function onMoreAsked(listener) {
  more = listener;
}

/**
 * What all pages want together.
 * @returns {Union}
 */
export function asksOfAll() {
  const each = [...all.values()];
  return {
    kinds: [...new Set(each.flatMap(({ kinds }) => kinds))].sort(),
    frames: [...new Set(each.flatMap(({ frames }) => frames))].sort(),
    rows: each.some(({ rows }) => rows),
    events: each.some(({ events }) => events),
  };
}

/**
 * The address of a stream that tells so much.
 * @param {Union} asks
 * @returns {string}
 */
export function addressOf({ kinds, frames, rows, events }) {
  const told = ["objects", ...frames].join(",");
  const less = (rows ? "" : "&snapshot=false") + (events ? "" : `&pace=${PACE}`);
  return `/api/v1/events?kinds=${kinds.join(",")}&frames=${told}${less}`;
}
