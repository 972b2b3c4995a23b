// The list of events: how what repeats becomes one row (resources/happenings.py has the same rule),
// and the rows, as the macro of cells.html draws them.

import { stateNode } from "./cells.js";
import { timeNode } from "./clock.js";
import { element, link } from "./dom.js";
import { address } from "./rows.js";
import { WORDS } from "./words.js";

/**
 * One line of the list: events of one object that tell the same. What it says is said by the first.
 * @typedef {object} Run
 * @property {string} key revision of the last of them
 * @property {string} at instant of the last of them
 * @property {string} type
 * @property {string} kind
 * @property {string} namespace
 * @property {string} name
 * @property {string} uid
 * @property {string | null} phase
 * @property {string} reason a word
 * @property {string} message a sentence, or nothing
 * @property {string} actor
 * @property {number} count
 * @property {string} since instant of the first of them
 * @property {boolean} again another object had the name before
 */

/**
 * Whether an event says anything that a run has not said.
 * @param {Run} run
 * @param {Run} event
 * @returns {boolean}
 */
function adds(run, event) {
  if (run.type !== event.type || run.phase !== event.phase) return true;
  if (run.actor !== event.actor) return true;
  if (event.message && event.message !== run.message) return true;
  return event.reason !== run.reason && event.reason !== "StatusChanged";
}

/**
 * Put an event first; null when it is in the list already.
 * @param {Run[]} list newest first
 * @param {Run} event
 * @returns {Run[] | null}
 */
export function withEvent(list, event) {
  const run = list.find((each) => each.uid === event.uid);
  const known = list.some((each) => each.key === event.key);
  if (known || (run && Number(run.key) >= Number(event.key))) return null;
  if (run && !adds(run, event)) {
    const longer = { ...run, key: event.key, at: event.at, count: run.count + 1 };
    return [longer, ...list.filter((each) => each !== run)];
  }
  const again = event.type === "ADDED" && list.some((each) => (
    each.kind === event.kind && each.namespace === event.namespace && each.name === event.name
  ));
  return [{ ...event, again }, ...list];
}

/**
 * The word and the sentence of a run.
 * @param {Run} run
 * @returns {[string, string]}
 */
function worded({ reason, message, count, since, again }) {
  const doubled = message && reason.endsWith(` ${message}`);
  const word = doubled ? reason.slice(0, reason.indexOf(" ")) : reason;
  const said = message === word ? [] : [message];
  if (again) said.push(WORDS.namedBefore);
  const sentence = said.filter(Boolean).join("; ");
  if (count < 2) return [word, sentence];
  const begun = new Date(since).toISOString().slice(0, 19).replace("T", " ");
  return [word, `${sentence} (${count} times since ${begun}Z)`.trimStart()];
}

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
 * Make the row of a run.
 * @param {Run} run
 * @returns {HTMLTableRowElement}
 */
export function eventRow(run) {
  const { kind, name, namespace, uid, phase, type } = run;
  const href = address(WORDS.followed[kind] ?? "", name, namespace, uid);
  const object = element("th", "", element("span", "kind", kind), " ", link(href, name));
  object.scope = "row";
  const state = phase ? [stateNode(kind, phase)] : [];
  const [word, sentence] = worded(run);
  const made = element(
    "tr", "fresh", element("td", "", timeNode(run.at)), object,
    element("td", "", WORDS.changes[type] ?? type), element("td", "", ...state), titled(word),
    titled(sentence), titled(run.actor),
  );
  made.dataset.key = run.key;
  return made;
}
